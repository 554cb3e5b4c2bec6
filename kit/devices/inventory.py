"""Every block device of a host, who uses it, and what lies on it: read with one command, as values.

`probe` reads, `parse` understands (pure). What a tool did not say, or not in a way that can be understood,
is a problem: of one disk, or of all of them. Whoever has a problem is refused (kit.devices.reasons).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from kit.devices import toolwords
from kit.devices.toolwords import Health, Identity, Label, Pool, Signature
from kit.errors import SafetyRefusal
from kit.hosts.base import CommandFailed, DeadlineExceeded, Host

BY_ID = "/dev/disk/by-id/"
T = TypeVar("T")
_HELPER = Path(__file__).with_name("probe_helper.py")
# Of the host's clock for each tool, and of ours for all: a tool that hangs shall be named.
_TOOL_DEADLINE_S = 60
_DEADLINE_S = 600.0
_SECTOR_BYTES = 512
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_!.-]*")
_DM_KINDS = (("LVM-", "lvm"), ("CRYPT-", "crypt"), ("mpath-", "multipath"))
NO_HEALTH = Health()
_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Node:
    """One block device: a disk, a partition, or what is made of others (dm, md, loop, zvol).

    `kind` is disk, part, lvm, crypt, multipath, dm, md, loop, zvol or rom. `links` are its by-id paths.
    `sequence` is another one each time a disk is plugged in (diskseq of Linux 5.15, else "").
    """

    kernel_name: str
    device_number: str
    sequence: str
    kind: str
    size_bytes: int
    sector_bytes: int
    physical_sector_bytes: int
    discard_bytes: int
    serial: str
    model: str
    wwn: str
    transport: str
    rotational: bool
    removable: bool
    read_only: bool
    write_cache: str
    parent: str | None
    holders: tuple[str, ...]
    controller: str
    udev_fstype: str
    links: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        return self.kind in ("disk", "loop")

    def identity(self) -> dict[str, Any]:
        """What it is recognised by, also after something was plugged in or out."""
        return {
            "kernel_name": self.kernel_name,
            "device_number": self.device_number,
            "sequence": self.sequence,
            "serial": self.serial,
            "wwn": self.wwn,
            "model": self.model,
            "size_bytes": self.size_bytes,
        }


@dataclass(frozen=True)
class Mount:
    """`own`: in the mount namespace of the host's commands, else of process `pid` only."""

    device_number: str
    kernel_name: str
    place: str
    pid: int
    own: bool


@dataclass(frozen=True)
class Look:
    """What was found on one disk and its partitions. `alone`: why it cannot be opened exclusively, or ""."""

    alone: str
    signatures: tuple[Signature, ...] = ()
    labels: tuple[Label, ...] = ()
    health: Health = NO_HEALTH
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """`links` leads from paths to kernel names; `looks` are of the disks that were asked for."""

    host: str
    nodes: dict[str, Node]
    links: dict[str, str]
    mounts: tuple[Mount, ...] = ()
    swaps: tuple[str, ...] = ()
    imported: tuple[Pool, ...] = ()
    importable: tuple[Pool, ...] = ()
    looks: dict[str, Look] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def find(self, path: str) -> Node | None:
        """What a path leads to, if it was asked for or is a by-id link."""
        name = self.links.get(path) or (path.removeprefix("/dev/") if path.startswith("/dev/") else "")
        return self.nodes.get(name)

    def parts(self, node: Node) -> tuple[Node, ...]:
        return tuple(other for other in self.nodes.values() if other.parent == node.kernel_name)

    def tree(self, node: Node) -> tuple[Node, ...]:
        """The device, its partitions, and whatever is made of any of them."""
        found: dict[str, Node] = {}
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one.kernel_name not in found:
                found[one.kernel_name] = one
                waiting += [*self.parts(one), *(self.nodes[h] for h in one.holders if h in self.nodes)]
        return tuple(found.values())

    def siblings(self, node: Node) -> tuple[Node, ...]:
        """Other namespaces of the same NVMe controller."""
        if not node.kernel_name.startswith("nvme") or not node.controller:
            return ()
        return tuple(
            other for other in self.nodes.values()
            if other.kind == "disk" and other.controller == node.controller and other != node
        )  # fmt: skip


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
        return parse(host.name, json.loads(answer.stdout), content=content)
    except (CommandFailed, DeadlineExceeded) as error:
        raise _undetermined(host, error.message[-400:]) from error
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise _undetermined(host, f"the answer cannot be understood ({error!r})"[:400]) from error


def _undetermined(host: Host, reason: str) -> SafetyRefusal:
    return SafetyRefusal(
        f"what the disks of {host.name} are could not be determined: {reason}",
        "the kit looks at them with the host's /usr/bin/python3, as root; what is not known is not touched",
    )


def parse(host: str, facts: Any, *, content: bool = True) -> Inventory:
    """From what probe_helper.py has printed. Raises ValueError, KeyError, TypeError if it is not that."""
    if facts["format"] != 1:
        raise ValueError("another format")
    problems = [f"mounts of process {process}" for process in facts["unread"]]
    told = _understood(problems, facts["tools"]["lsblk"], toolwords.parse_lsblk) or {}
    links = {str(path): _kernel_name(str(real)) for path, real in facts["links"].items()}
    nodes = {}
    for name, entry in facts["devices"].items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"a block device cannot be called {name!r}")
        own = tuple(sorted(path for path, to in links.items() if to == name and path.startswith(BY_ID)))
        nodes[name] = _node(name, entry, told.get(name), own)
    imported: tuple[Pool, ...] = ()
    importable: tuple[Pool, ...] = ()
    signatures: tuple[Signature, ...] | None = None
    if content:
        tools = facts["tools"]
        imported = _imported(problems, tools)
        if "importable" in tools:
            importable = _understood(problems, tools["importable"], toolwords.parse_importable) or ()
        if tools["wipefs"]["code"] == 0:
            signatures = _understood(problems, tools["wipefs"], toolwords.parse_wipefs)
    return Inventory(
        host=host,
        nodes=nodes,
        links=links,
        mounts=tuple(_mounts(facts["mounts"], str(facts["own"]), links, nodes, problems)),
        swaps=tuple(_swaps(facts["swaps"], links, problems)),
        imported=imported,
        importable=importable,
        looks={n: _look(n, f, nodes, signatures, content) for n, f in facts["disks"].items()},
        problems=tuple(problems),
    )


def _node(name: str, entry: Any, told: Identity | None, links: tuple[str, ...]) -> Node:
    """Sizes and flags are the kernel's; names that the device gives itself are as lsblk has them."""
    queue = entry["queue"]
    size_bytes = int(entry["sectors"] or 0) * _SECTOR_BYTES
    if told is not None and told.size_bytes != size_bytes:
        raise ValueError(f"{name} has {size_bytes} bytes, lsblk says {told.size_bytes}")
    return Node(
        kernel_name=name,
        device_number=str(entry["dev"]),
        sequence=str(entry["diskseq"] or ""),
        kind=_kind(name, entry, told),
        size_bytes=size_bytes,
        sector_bytes=int(queue["logical_block_size"] or 0),
        physical_sector_bytes=int(queue["physical_block_size"] or 0),
        discard_bytes=int(queue["discard_max_bytes"] or 0),
        serial=told.serial if told else "",
        model=told.model if told else "",
        wwn=told.wwn if told else "",
        transport=told.transport if told else "",
        rotational=queue["rotational"] == "1",
        removable=entry["removable"] != "0",
        read_only=entry["ro"] != "0",
        write_cache=str(queue["write_cache"] or "unknown"),
        parent=entry["parent"],
        holders=tuple(str(holder) for holder in entry["holders"]),
        controller=str(entry["controller"] or ""),
        udev_fstype=told.udev_fstype if told else "",
        links=links,
    )


def _kind(name: str, entry: Any, told: Identity | None) -> str:
    if entry["partition"] is not None:
        return "part"
    uuid = entry["dm"][1]
    if uuid is not None or name.startswith("dm-"):
        return next((kind for start, kind in _DM_KINDS if str(uuid).startswith(start)), "dm")
    if entry["md"] is not None or re.match(r"md[\d_]", name):
        return "md"
    if re.fullmatch(r"zd\d+", name):
        return "zvol"
    if entry["slaves"]:
        return "dm"
    if told is not None and told.kind not in ("disk", "loop"):
        return told.kind
    return "loop" if name.startswith("loop") else "disk"


def _kernel_name(real: str) -> str:
    """As sysfs has it, of a path without links."""
    return real.removeprefix("/dev/").replace("/", "!") if real.startswith("/dev/") else ""


def _understood(problems: list[str], said: Any, read: Callable[[str], T]) -> T | None:
    """What a tool has said, or a problem."""
    why = _failure(said)
    if not why:
        try:
            return read(said["out"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"what it says cannot be understood ({error})"
    problems.append(f"{' '.join(said['argv'][:3])}: {why}")
    return None


def _failure(said: Any) -> str:
    """Why a tool has said nothing, or ""."""
    if said["code"] == 0:
        return ""
    words = str(said["err"]).strip().splitlines()[-1:] or ["no reason given"]
    return words[0] if said["code"] is None else f"ended with {int(said['code'])}: {words[0]}"


def _imported(problems: list[str], tools: Any) -> tuple[Pool, ...]:
    why = _failure(tools["guids"])
    if why:
        problems.append(f"zpool list: {why}")
        return ()
    names = tools["guids"]["out"]
    found = _understood(problems, tools["imported"], lambda members: toolwords.parse_imported(names, members))
    return found or ()


def _mounts(
    told: Any, own: str, links: dict[str, str], nodes: dict[str, Node], problems: list[str]
) -> Iterable[Mount]:
    """proc_pid_mountinfo(5): "ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS... - TYPE SOURCE OPTIONS"."""
    for pid, space, line in told:
        before, _, after = line.rpartition(" - ")
        words, source = before.split(" "), after.split(" ")
        if len(words) < 6 or len(source) < 2:
            problems.append(f"a mount of process {pid} cannot be understood: {line[:100]!r}")
            continue
        # Btrfs has a device number of its own; there only the source leads to the disk.
        name = links.get(source[1], "")
        yield Mount(words[2], name if name in nodes else "", _unescaped(words[4]), int(pid), space == own)


def _swaps(told: Any, links: dict[str, str], problems: list[str]) -> Iterable[str]:
    if not isinstance(told, str) or not told.startswith("Filename"):
        problems.append("/proc/swaps cannot be understood")
        return
    for line in told.splitlines()[1:]:
        yield links.get(_unescaped(line.split(" ")[0].split("\t")[0]), "")


def _unescaped(text: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text)


def _look(
    name: str, found: Any, nodes: dict[str, Node], every: tuple[Signature, ...] | None, content: bool
) -> Look:
    problems: list[str] = []
    labels: list[Label] = []
    signatures: tuple[Signature, ...] = ()
    if content:
        tree = {name} | {node.kernel_name for node in nodes.values() if node.parent == name}
        if every is None and found["wipefs"] is None:
            problems.append("wipefs: what it says cannot be understood")
        elif every is None:
            every = _understood(problems, found["wipefs"], toolwords.parse_wipefs)
        # wipefs gives names below /dev, where the kernel's "!" is a directory.
        signatures = tuple(s for s in every or () if s.kernel_name.replace("/", "!") in tree)
        if set(found["zdb"]) != tree:
            problems.append("its partitions changed while it was looked at")
        labels = _labels(found["zdb"], problems)
    return Look(str(found["alone"]), signatures, tuple(labels), _health(found), tuple(problems))


def _labels(told: Any, problems: list[str]) -> list[Label]:
    found: list[Label] = []
    for name, said in told.items():
        if said is None:
            continue
        if said["code"] is None:
            problems.append(f"zdb -l /dev/{name}: {_failure(said)}")
            continue
        try:
            found += toolwords.parse_zdb(name, said["code"], said["out"])
        except ValueError as error:
            problems.append(f"zdb -l /dev/{name}: {error} ({_failure(said) or 'exit code 0'})")
    return found


def _health(found: Any) -> Health:
    """Not known is no reason to refuse: many disks do not tell."""
    for tool, read in (("nvme", toolwords.parse_nvme_health), ("smartctl", toolwords.parse_smartctl)):
        said = found.get(tool)
        if said is not None and said["out"]:
            try:
                return read(said["out"])
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
    return NO_HEALTH


def paste_ready(node: Node) -> str | None:
    """The by-id link to put into a testbed: the shortest that says the serial; None if there is none."""
    plain = [link for link in node.links if not _is_derived(PurePosixPath(link).name)]
    return min(plain, key=lambda link: _rank(node, link), default=None)


def _is_derived(name: str) -> bool:
    return name.startswith(("dm-", "md-", "lvm-", "raid-"))


def _rank(node: Node, link: str) -> tuple[bool, bool, bool, int, str]:
    """A namespace has one link with its number and, if it is the first, one without."""
    name = PurePosixPath(link).name
    number = re.search(r"n(\d+)$", node.kernel_name) if node.kernel_name.startswith("nvme") else None
    numbered = number is not None and name.endswith(f"_{number[1]}")
    said = bool(node.serial) and node.serial in name
    return (
        name.startswith(("wwn-", "nvme-eui.", "nvme-uuid.", "nvme-nvme.")),
        not said,
        not numbered,
        len(name),
        name,
    )
