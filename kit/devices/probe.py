"""Reads the disks of a host with one command. `probe` runs it, `parse` parses its output (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from kit.core import proc_path
from kit.core.errors import HostError, SafetyRefusal
from kit.core.text import safe_text
from kit.devices import tool_output
from kit.devices.inventory import (
    BY_ID,
    NO_HEALTH,
    DeviceMount,
    DeviceSettings,
    DeviceUser,
    DiskContent,
    Inventory,
    Node,
)
from kit.devices.tool_output import Health, Identity, Label, ListedPool, Signature
from kit.hosts.base import CommandFailed, DeadlineExceeded, Host, OutputTooLarge

T = TypeVar("T")
_HELPER = Path(__file__).parents[1] / "remote" / "probe_devices.py"
_DRIVES = _HELPER.with_name("read_drives.py")
# For each tool on the host's clock, and for all on ours: the output then names the tool that hangs.
# `zpool import` reads every disk, and a lab's clock may run faster than ours.
_TOOL_DEADLINE_S = 240
_DEADLINE_S = 1800.0
# A line per mount of each mount namespace: containers have thousands.
_LIMIT_BYTES = 64 << 20
_SECTOR_BYTES = 512
_LSBLK_TEXTS = ("serial", "model", "wwn", "transport", "udev_fstype", "partition_type")
_DM_KINDS = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "multipath"))

KernelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_!.-]{0,62}$")]
Number = Annotated[str, Field(pattern=r"^\d{1,20}$")]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ToolResult(_Facts):
    """Exit code of a tool (None: it does not exist, or did not end) and its output."""

    argv: list[str]
    code: int | None
    out: str
    err: str

    @property
    def failure(self) -> str:
        """Why the tool failed, or ""."""
        if self.code == 0:
            return ""
        message = (self.err.strip().splitlines() or ["no reason given"])[-1]
        return message if self.code is None else f"ended with {self.code}: {message}"


class Queue(_Facts):
    """/sys/block/NAME/queue; None: the kernel has no such file."""

    rotational: str | None
    logical_block_size: Number | None
    physical_block_size: Number | None
    write_cache: str | None
    discard_max_bytes: Number | None
    scheduler: str | None = None
    nr_requests: Number | None = None
    max_sectors_kb: Number | None = None
    fua: str | None = None


class DeviceFacts(_Facts):
    """/sys/class/block/NAME; None: the kernel has no such file."""

    dev: Annotated[str, Field(pattern=r"^\d+:\d+$")]
    sectors: Number | None
    ro: str | None
    removable: str | None
    diskseq: str | None
    hidden: str | None
    nsid: str | None = None
    partition: str | None
    parent: KernelName | None
    holders: list[KernelName]
    slaves: list[KernelName]
    queue: Queue
    controller: str | None
    firmware: str | None = None
    driver: str | None = None
    dm: tuple[str | None, str | None]
    md: str | None
    loop: str | None


class DiskFacts(_Facts):
    """An examined disk. `alone`: open error. `zdb`: by kernel name, None where no label is possible."""

    alone: str
    zdb: dict[KernelName, ToolResult | None] | None = None
    wipefs: ToolResult | None = None
    nvme: ToolResult | None = None
    smartctl: ToolResult | None = None


class AllFacts(_Facts):
    """All facts. `mounts`: process, namespace and line of mountinfo; `own`: the helper's mount namespace.

    `open`: device, process and its name; in the kernel "" and the user.
    """

    format: Literal[1]
    devices: dict[KernelName, DeviceFacts]
    links: dict[str, str]
    mounts: list[tuple[Number, str, str]]
    unread: list[str]
    open: list[tuple[KernelName, str, str]]
    unread_files: list[str]
    own: str
    swaps: str | None
    tools: dict[str, ToolResult]
    disks: dict[KernelName, DiskFacts]


def probe(
    host: Host,
    paths: Iterable[str] | None = None,
    *,
    content: bool = True,
    health: bool = False,
    claimer: int | None = None,
) -> Inventory:
    """Read the disks of `paths` (None: all disks). Writes nothing.

    `content`: also read their contents. `claimer`: the process of ExclusiveClaim that holds
    them. Raises SafetyRefusal if that fails, HostLost.
    """
    request = {
        "paths": None if paths is None else list(paths),
        "content": content,
        "health": health,
        "deadline_s": _TOOL_DEADLINE_S,
        "claimer": claimer,
    }

    def read() -> Inventory:
        text = _answer(host, _HELPER, request, deadline_s=_DEADLINE_S, limit_bytes=_LIMIT_BYTES)
        return parse(host.name, text, content=content)

    try:
        try:
            return read()
        except Changing:
            return read()
    except (CommandFailed, DeadlineExceeded, OutputTooLarge, ValueError, RecursionError) as error:
        if isinstance(error, HostError):
            reason = error.message[-400:]
        else:
            reason = f"the output cannot be parsed ({error})"[:400]
        raise SafetyRefusal(
            f"the disks of {host.name} could not be determined: {reason}",
            "the kit reads them with the host's /usr/bin/python3, as root, and touches no unknown disk",
        ) from error


def device_settings(host: Host, paths: Mapping[str, str]) -> dict[str, DeviceSettings]:
    """Driver, firmware, queue and controller of the disks at `paths`, by the same names. Raises HostError."""
    text = _answer(host, _HELPER, {"sysfs": list(paths.values())})
    behind = _answer(host, _DRIVES, list(paths.values()))
    try:
        found = TypeAdapter(dict[str, DeviceFacts]).validate_json(text)
        controllers = TypeAdapter(dict[str, dict[str, str] | None]).validate_json(behind)
        return {name: _settings(found[path], controllers[path]) for name, path in paths.items()}
    except (ValueError, KeyError) as error:
        reason = safe_text(str(error))[:300]
        raise HostError(f"the settings of the disks of {host.name} cannot be parsed: {reason}") from error


def _answer(host: Host, program: Path, request: object, **limits: Any) -> str:
    """What a program of kit/remote prints; `limits`: as of Host.run. Raises HostError."""
    argv = ["/usr/bin/python3", "-I", "-", json.dumps(request)]
    return host.run(argv, stdin=program.read_bytes(), **limits).stdout


def parse(host: str, text: str | bytes, *, content: bool = True) -> Inventory:
    """Parse the output of probe_devices.py. Raises ValueError if it has another form."""
    facts = AllFacts.model_validate_json(text)
    results = facts.tools
    problems = [f"mounts of process {process}" for process in facts.unread]
    problems += [f"open files of process {process}" for process in facts.unread_files]
    by_lsblk = _parsed(problems, results, "lsblk", tool_output.parse_lsblk) or {}
    links = {path: _kernel_name(real) for path, real in facts.links.items()}
    by_node: dict[str, list[str]] = {}
    for path, name in links.items():
        if path.startswith(BY_ID):
            by_node.setdefault(name, []).append(path)
    nodes = {
        name: _node(name, entry, by_lsblk.get(name), tuple(sorted(by_node.get(name, ()))))
        for name, entry in facts.devices.items()
    }
    imported: tuple[ListedPool, ...] | None = ()
    importable: tuple[ListedPool, ...] | None = ()
    signatures: tuple[Signature, ...] | None = None
    if content:
        names = _parsed(problems, results, "guids", tool_output.parse_guids)
        if names is not None:
            imported = _parsed(problems, results, "imported", lambda t: tool_output.parse_imported(names, t))
        if "importable" in results:
            importable = _parsed(problems, results, "importable", tool_output.parse_importable)
        if "wipefs" not in results or results["wipefs"].code == 0:
            signatures = _parsed(problems, results, "wipefs", tool_output.parse_wipefs)
    return Inventory(
        host=host,
        nodes=nodes,
        links=links,
        mounts=tuple(_mounts(facts, links, nodes, problems)),
        users=tuple(DeviceUser(name, pid, safe_text(user)[:100]) for name, pid, user in facts.open),
        swaps=tuple(_swaps(facts.swaps, links, problems)),
        imported=imported or (),
        importable=importable or (),
        disks={n: _disk_content(n, disk, nodes, signatures, content) for n, disk in facts.disks.items()},
        problems=tuple(problems),
    )


class Changing(ValueError):
    """A device changed while it was read, as loop devices do that others attach and detach."""


def _node(name: str, entry: DeviceFacts, lsblk: Identity | None, links: tuple[str, ...]) -> Node:
    """Sizes and flags from the kernel; serial, model and WWN from lsblk."""
    queue = entry.queue
    size_bytes = int(entry.sectors or 0) * _SECTOR_BYTES
    if lsblk is not None and lsblk.size_bytes != size_bytes:
        raise Changing(f"{name} has {size_bytes} bytes, {lsblk.size_bytes} according to lsblk")
    return Node(
        kernel_name=name,
        device_number=entry.dev,
        sequence=entry.diskseq or "",
        kind=_kind(name, entry, lsblk),
        size_bytes=size_bytes,
        sector_bytes=int(queue.logical_block_size or 0),
        physical_sector_bytes=int(queue.physical_block_size or 0),
        discard_bytes=int(queue.discard_max_bytes or 0),
        **{text: getattr(lsblk, text, "") for text in _LSBLK_TEXTS},
        rotational=queue.rotational == "1",
        removable=entry.removable != "0",
        read_only=entry.ro != "0",
        write_cache=queue.write_cache or "unknown",
        parent=entry.parent,
        holders=tuple(entry.holders),
        controller=entry.controller or "",
        namespace=entry.nsid or "",
        links=links,
    )


def _settings(entry: DeviceFacts, controller: dict[str, str] | None) -> DeviceSettings:
    queue = entry.queue
    # "[none] mq-deadline": the one in brackets is in use.
    scheduler = re.search(r"\[([^]]+)\]", queue.scheduler or "")
    return DeviceSettings(
        driver=entry.driver,
        firmware=entry.firmware,
        scheduler=scheduler[1] if scheduler else queue.scheduler,
        nr_requests=int(queue.nr_requests) if queue.nr_requests else None,
        max_sectors_kb=int(queue.max_sectors_kb) if queue.max_sectors_kb else None,
        rotational=queue.rotational == "1" if queue.rotational else None,
        write_cache=queue.write_cache,
        fua=queue.fua == "1" if queue.fua else None,
        sector_bytes=int(queue.logical_block_size) if queue.logical_block_size else None,
        controller=controller,
    )


def _kind(name: str, entry: DeviceFacts, lsblk: Identity | None) -> str:
    if entry.partition is not None:
        return "part"
    uuid = entry.dm[1]
    if uuid is not None or name.startswith("dm-"):
        return next((kind for start, kind in _DM_KINDS if str(uuid).startswith(start)), "dm")
    if entry.md is not None or re.match(r"md[\d_]", name):
        return "md"
    if re.fullmatch(r"zd\d+", name):
        return "zvol"
    if entry.slaves:
        return "dm"
    if lsblk is not None and lsblk.kind not in ("disk", "loop"):
        return lsblk.kind
    return "loop" if name.startswith("loop") else "disk"


def _kernel_name(real: str) -> str:
    """The name in sysfs of a resolved path."""
    return real.removeprefix("/dev/").replace("/", "!") if real.startswith("/dev/") else ""


def _parsed(
    problems: list[str], tools: dict[str, ToolResult], name: str, parser: Callable[[str], T]
) -> T | None:
    """The parsed output of a tool; on an error None, and a problem is added."""
    result = tools.get(name)
    if result is None:
        problems.append(f"{name} was not run")
        return None
    problem = result.failure
    if not problem:
        try:
            return parser(result.out)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            problem = f"its output cannot be parsed ({error})"[:300]
    problems.append(f"{' '.join(result.argv[:3])}: {problem}")
    return None


def _mounts(
    facts: AllFacts, links: dict[str, str], nodes: dict[str, Node], problems: list[str]
) -> Iterable[DeviceMount]:
    """proc_pid_mountinfo(5): "ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS... - TYPE SOURCE OPTIONS"."""
    for pid, namespace, line in facts.mounts:
        mount_part, _, source_part = line.rpartition(" - ")
        fields, source = mount_part.split(" "), source_part.split(" ")
        if len(fields) < 6 or len(source) < 2:
            problems.append(f"a mount of process {pid} cannot be parsed: {line[:100]!r}")
            continue
        # Btrfs has its own device number; only the source names the disk.
        name = links.get(source[1], "")
        is_own = namespace == facts.own
        yield DeviceMount(
            fields[2], name if name in nodes else "", proc_path.unescape(fields[4]), int(pid), is_own
        )


def _swaps(text: str | None, links: dict[str, str], problems: list[str]) -> Iterable[str]:
    if text is None or not text.startswith("Filename"):
        problems.append("/proc/swaps cannot be parsed")
        return
    for line in text.splitlines()[1:]:
        yield links.get(proc_path.unescape(line.split(" ")[0].split("\t")[0]), "")


def _disk_content(
    name: str,
    facts: DiskFacts,
    nodes: dict[str, Node],
    all_signatures: tuple[Signature, ...] | None,
    content: bool,
) -> DiskContent:
    problems: list[str] = []
    labels: list[Label] = []
    signatures: tuple[Signature, ...] = ()
    if content:
        tree = {name} | {node.kernel_name for node in nodes.values() if node.parent == name}
        if all_signatures is None:
            tools = {} if facts.wipefs is None else {"wipefs": facts.wipefs}
            all_signatures = _parsed(problems, tools, "wipefs", tool_output.parse_wipefs)
        # wipefs gives names below /dev, where the kernel's "!" is a directory.
        signatures = tuple(s for s in all_signatures or () if s.kernel_name.replace("/", "!") in tree)
        if facts.zdb is None or set(facts.zdb) != tree:
            problems.append("its partitions changed while it was examined")
        labels = _labels(facts.zdb or {}, problems)
    return DiskContent(facts.alone, signatures, tuple(labels), _health(facts), tuple(problems))


def _labels(zdb: dict[str, ToolResult | None], problems: list[str]) -> list[Label]:
    labels: list[Label] = []
    for name, result in zdb.items():
        if result is None:
            continue
        if result.code is None:
            problems.append(f"zdb -l /dev/{name}: {result.failure}")
            continue
        try:
            labels += tool_output.parse_zdb(name, result.code, result.out)
        except ValueError as error:
            problems.append(f"zdb -l /dev/{name}: {error} ({result.failure or 'exit code 0'})")
    return labels


def _health(facts: DiskFacts) -> Health:
    """Unknown health is not a problem: many disks do not report it."""
    tools = ((facts.nvme, tool_output.parse_nvme_health), (facts.smartctl, tool_output.parse_smartctl))
    for result, parser in tools:
        if result is not None and result.out:
            try:
                return parser(result.out)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
    return NO_HEALTH
