"""Reading the disks of a host with one command, and understanding what it says.

`probe` reads, `parse` understands (pure). Nothing is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from kit.core import proc_path
from kit.core.errors import SafetyRefusal
from kit.devices import tool_output
from kit.devices.facts import DeviceFacts, DiskFacts, Facts, Said
from kit.devices.inventory import BY_ID, NO_HEALTH, Inventory, Look, Mount, Node
from kit.devices.tool_output import Health, Identity, Label, Pool, Signature
from kit.hosts.base import CommandFailed, DeadlineExceeded, Host

T = TypeVar("T")
_HELPER = Path(__file__).parents[1] / "remote" / "probe_devices.py"
# Of the host's clock for each tool, and of ours for all: a tool that hangs shall be named.
# `zpool import` reads every disk, and the clock of a lab runs on while it does.
_TOOL_DEADLINE_S = 240
_DEADLINE_S = 1800.0
_SECTOR_BYTES = 512
_DM_KINDS = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "multipath"))


def probe(
    host: Host, paths: Iterable[str] | None = None, *, content: bool = True, health: bool = False
) -> Inventory:
    """Look at a host's disks: those that `paths` lead to, or all. Nothing is written.

    `content`: also at what lies on them. Raises SafetyRefusal if nothing could be found out; HostLost.
    """
    asked = {
        "paths": None if paths is None else list(paths),
        "content": content,
        "health": health,
        "deadline_s": _TOOL_DEADLINE_S,
    }
    argv = ["/usr/bin/python3", "-I", "-", json.dumps(asked)]
    try:
        answer = host.run(argv, stdin=_HELPER.read_bytes(), deadline_s=_DEADLINE_S)
        return parse(host.name, answer.stdout, content=content)
    except (CommandFailed, DeadlineExceeded) as error:
        raise _undetermined(host, error.message[-400:]) from error
    except (ValueError, RecursionError) as error:
        raise _undetermined(host, f"the answer cannot be understood ({error})"[:400]) from error


def _undetermined(host: Host, reason: str) -> SafetyRefusal:
    return SafetyRefusal(
        f"what the disks of {host.name} are could not be determined: {reason}",
        "the kit looks at them with the host's /usr/bin/python3, as root; what is not known is not touched",
    )


def parse(host: str, text: str | bytes, *, content: bool = True) -> Inventory:
    """From what probe_helper.py has printed. Raises ValueError if it is not that."""
    facts = Facts.model_validate_json(text)
    tools = facts.tools
    problems = [f"mounts of process {process}" for process in facts.unread]
    told = _understood(problems, tools, "lsblk", tool_output.parse_lsblk) or {}
    links = {path: _kernel_name(real) for path, real in facts.links.items()}
    by_node: dict[str, list[str]] = {}
    for path, name in links.items():
        if path.startswith(BY_ID):
            by_node.setdefault(name, []).append(path)
    nodes = {
        name: _node(name, entry, told.get(name), tuple(sorted(by_node.get(name, ()))))
        for name, entry in facts.devices.items()
    }
    imported: tuple[Pool, ...] | None = ()
    importable: tuple[Pool, ...] | None = ()
    signatures: tuple[Signature, ...] | None = None
    if content:
        names = _understood(problems, tools, "guids", tool_output.parse_guids)
        if names is not None:
            imported = _understood(
                problems, tools, "imported", lambda t: tool_output.parse_imported(names, t)
            )
        if "importable" in tools:
            importable = _understood(problems, tools, "importable", tool_output.parse_importable)
        if "wipefs" not in tools or tools["wipefs"].code == 0:
            signatures = _understood(problems, tools, "wipefs", tool_output.parse_wipefs)
    return Inventory(
        host=host,
        nodes=nodes,
        links=links,
        mounts=tuple(_mounts(facts, links, nodes, problems)),
        swaps=tuple(_swaps(facts.swaps, links, problems)),
        imported=imported or (),
        importable=importable or (),
        looks={n: _look(n, found, nodes, signatures, content) for n, found in facts.disks.items()},
        problems=tuple(problems),
    )


def _node(name: str, entry: DeviceFacts, told: Identity | None, links: tuple[str, ...]) -> Node:
    """Sizes and flags are the kernel's; names that the device gives itself are as lsblk has them."""
    queue = entry.queue
    size_bytes = int(entry.sectors or 0) * _SECTOR_BYTES
    if told is not None and told.size_bytes != size_bytes:
        raise ValueError(f"{name} has {size_bytes} bytes, lsblk says {told.size_bytes}")
    return Node(
        kernel_name=name,
        device_number=entry.dev,
        sequence=entry.diskseq or "",
        kind=_kind(name, entry, told),
        size_bytes=size_bytes,
        sector_bytes=int(queue.logical_block_size or 0),
        physical_sector_bytes=int(queue.physical_block_size or 0),
        discard_bytes=int(queue.discard_max_bytes or 0),
        serial=told.serial if told else "",
        model=told.model if told else "",
        wwn=told.wwn if told else "",
        transport=told.transport if told else "",
        rotational=queue.rotational == "1",
        removable=entry.removable != "0",
        read_only=entry.ro != "0",
        write_cache=queue.write_cache or "unknown",
        parent=entry.parent,
        holders=tuple(entry.holders),
        controller=entry.controller or "",
        udev_fstype=told.udev_fstype if told else "",
        links=links,
    )


def _kind(name: str, entry: DeviceFacts, told: Identity | None) -> str:
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
    if told is not None and told.kind not in ("disk", "loop"):
        return told.kind
    return "loop" if name.startswith("loop") else "disk"


def _kernel_name(real: str) -> str:
    """As sysfs has it, of a path without links."""
    return real.removeprefix("/dev/").replace("/", "!") if real.startswith("/dev/") else ""


def _understood(problems: list[str], tools: dict[str, Said], name: str, read: Callable[[str], T]) -> T | None:
    """What a tool has said, or a problem."""
    said = tools.get(name)
    if said is None:
        problems.append(f"{name} was not asked")
        return None
    why = said.failure
    if not why:
        try:
            return read(said.out)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = f"what it says cannot be understood ({error})"[:300]
    problems.append(f"{' '.join(said.argv[:3])}: {why}")
    return None


def _mounts(
    facts: Facts, links: dict[str, str], nodes: dict[str, Node], problems: list[str]
) -> Iterable[Mount]:
    """proc_pid_mountinfo(5): "ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS... - TYPE SOURCE OPTIONS"."""
    for pid, space, line in facts.mounts:
        before, _, after = line.rpartition(" - ")
        words, source = before.split(" "), after.split(" ")
        if len(words) < 6 or len(source) < 2:
            problems.append(f"a mount of process {pid} cannot be understood: {line[:100]!r}")
            continue
        # Btrfs has a device number of its own; there only the source leads to the disk.
        name = links.get(source[1], "")
        own = space == facts.own
        yield Mount(words[2], name if name in nodes else "", proc_path.unescape(words[4]), int(pid), own)


def _swaps(told: str | None, links: dict[str, str], problems: list[str]) -> Iterable[str]:
    if told is None or not told.startswith("Filename"):
        problems.append("/proc/swaps cannot be understood")
        return
    for line in told.splitlines()[1:]:
        yield links.get(proc_path.unescape(line.split(" ")[0].split("\t")[0]), "")


def _look(
    name: str, found: DiskFacts, nodes: dict[str, Node], every: tuple[Signature, ...] | None, content: bool
) -> Look:
    problems: list[str] = []
    labels: list[Label] = []
    signatures: tuple[Signature, ...] = ()
    if content:
        tree = {name} | {node.kernel_name for node in nodes.values() if node.parent == name}
        if every is None:
            tools = {} if found.wipefs is None else {"wipefs": found.wipefs}
            every = _understood(problems, tools, "wipefs", tool_output.parse_wipefs)
        # wipefs gives names below /dev, where the kernel's "!" is a directory.
        signatures = tuple(s for s in every or () if s.kernel_name.replace("/", "!") in tree)
        if found.zdb is None or set(found.zdb) != tree:
            problems.append("its partitions changed while it was looked at")
        labels = _labels(found.zdb or {}, problems)
    return Look(found.alone, signatures, tuple(labels), _health(found), tuple(problems))


def _labels(told: dict[str, Said | None], problems: list[str]) -> list[Label]:
    found: list[Label] = []
    for name, said in told.items():
        if said is None:
            continue
        if said.code is None:
            problems.append(f"zdb -l /dev/{name}: {said.failure}")
            continue
        try:
            found += tool_output.parse_zdb(name, said.code, said.out)
        except ValueError as error:
            problems.append(f"zdb -l /dev/{name}: {error} ({said.failure or 'exit code 0'})")
    return found


def _health(found: DiskFacts) -> Health:
    """Not known is no reason to refuse: many disks do not tell."""
    tools = ((found.nvme, tool_output.parse_nvme_health), (found.smartctl, tool_output.parse_smartctl))
    for said, read in tools:
        if said is not None and said.out:
            try:
                return read(said.out)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
    return NO_HEALTH
