"""The trace program for a version of OpenZFS, and whether a server can run it; read before the load."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kit.hosts.base import CommandFailed, Host
from kit.zfs.openzfs_version import ZfsVersion

HERE = Path(__file__).parent
# The size of maps that kit.trace.nfsd_tracer sets. A map with as many keys may have lost some.
MAP_KEYS = 65536
# Of sampled requests. A line has some 130 bytes, and lies in memory on the server (/run).
MOST_LINES = 1_000_000
# The oldest tested version, that of Debian 12.
MIN_BPFTRACE = (0, 17)
# The first version that warns about the old name of the variable.
_NEW_VARIABLES = (0, 20)
# The first version with raw tracepoints that is tested; 0.17 has none.
_RAW_TRACEPOINTS = (0, 23)
# The oldest version that split.bt was tried with.
MIN_SPLIT_BPFTRACE = (0, 23)
_KINDS = "INCLUDE|METADATA|SPLIT|OBSERVE|EXACT|NFSD|LOCAL|RUN|FILES|OPENED|SPECIAL|KEYS|CAPTURE"
_INCLUDE = re.compile(rf"^ *({_KINDS}) (\S+)\n", re.MULTILINE)
_KPROBE = re.compile(r"^k(?:ret)?probe:(\w+),?$", re.MULTILINE)
_FENTRY = re.compile(r"^f(?:entry|exit):(\w+):(\w+)$", re.MULTILINE)
_TRACEPOINT = re.compile(r"^tracepoint:(\w+):(\w+),?$", re.MULTILINE)
_TRACEPOINT_HEAD = re.compile(r"^tracepoint:nfsd:", re.MULTILINE)
_VERSION = re.compile(r"v(\d{1,4})\.(\d{1,4})")
_EVENTS = "/sys/kernel/tracing/events"
# The types that some programs need are those of the kernel (BPF type format).
_TYPES = "/sys/kernel/btf/vmlinux"


@dataclass(frozen=True)
class Program:
    """`functions` and `tracepoints` (as group/name) are its probes."""

    text: str

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(sorted(set(_KPROBE.findall(self.text))))

    @property
    def traceable(self) -> tuple[str, ...]:
        """Its functions, as /sys/kernel/tracing/available_filter_functions has them."""
        of_modules = {f"{function} [{module}]" for module, function in _FENTRY.findall(self.text)}
        return (*self.functions, *sorted(of_modules))

    @property
    def tracepoints(self) -> tuple[str, ...]:
        return tuple(f"{a}/{b}" for a, b in sorted(set(_TRACEPOINT.findall(self.text))))


def program(
    zfs: ZfsVersion,
    *,
    writes: bool = True,
    split: bool = False,
    observe: bool = False,
    local: bool = False,
    files: bool = False,
    special: bool = False,
    one_in: int = 0,
    metadata: bool = False,
    captured: int = 0,
) -> Program:
    """The program for this OpenZFS. `writes`: whether the load writes; only then tiers of writes matter.

    `split`: with the probes that say where the time of a request goes (split.bt), which need 2.2 or later.
    `observe`: requests are counted by file system and client, too, and all operations. `local`: calls of
    any process are counted, by file system and process (local_begin.bt), in the place of nfsd's requests.
    `files`: and each by its file (file_of_request.bt). `special`: reads of disks have the vdev, too
    (vdev_of_block.bt). `one_in`: with a sample of one in so many blocks (key_of_request.bt); 0: without.
    `metadata`: with all other operations of NFS (metadata.bt). `captured`: with a line for each of so many
    requests (io_of_request.bt), of an observed server; 0: without.
    Requests of both operations are counted always. A write that waits for a read has the tier of the read.
    """
    inflight = "inflight.bt" if zfs.has_arc_iohit else "inflight-2.1.bt"
    names = ["nfsd.bt", inflight]
    names += ["direct.bt"] if zfs.has_direct_io else []
    names += ["writes.bt"] if writes or split or metadata else []
    names += ["split.bt", "split_writes.bt"] if split else []
    names += ["operations.bt"] if observe else []
    names += ["metadata.bt"] if metadata else []
    kinds = {"INCLUDE", "LOCAL" if local else "NFSD"}
    run = not (observe or local)
    more = {
        "SPLIT": split, "OBSERVE": observe, "EXACT": not observe, "RUN": run, "FILES": files,
        "OPENED": files and local, "SPECIAL": special, "KEYS": one_in > 0, "METADATA": metadata,
        "CAPTURE": captured > 0,
    }  # fmt: skip
    kinds |= {kind for kind, asked in more.items() if asked}
    text = "".join(_text(name, kinds) for name in names)
    limits = {"LAST_KEY": last_key(one_in), "MOST_LINES": MOST_LINES} if one_in else {}
    limits |= {"MOST_IOS": captured} if captured else {}
    for word, limit in limits.items():
        text = text.replace(word, str(limit))
    return Program(text)


def last_key(one_in: int) -> int:
    """Of a sample. Keys have 63 bits: where numbers have a sign, half of them are no smaller than 0."""
    return (1 << 63) // one_in - 1


def _text(name: str, kinds: Set[str]) -> str:
    """A file with its included files of these kinds: bpftrace 0.17 has neither functions nor macros."""

    def included(match: re.Match[str]) -> str:
        return _text(match[2], kinds) if match[1] in kinds else ""

    return _INCLUDE.sub(included, (HERE / name).read_text())


def programs() -> tuple[Program, ...]:
    """The program for each supported version."""
    return tuple(program(ZfsVersion(2, minor)) for minor in (1, 2, 3))


@dataclass(frozen=True)
class TracingSupport:
    """`kind`: full, or none for `reason` (a text). `asked_for`: the testbed has trace = "none".

    `bpftrace`: its version, empty if unknown. `missing`: functions and tracepoints of the program that this
    kernel does not have. `no_split`: why this server cannot say where the time of a request goes; "" if it
    can, or if that was not looked at.
    """

    kind: Literal["full", "none"]
    program: Program
    bpftrace: str = ""
    reason: str = ""
    missing: tuple[str, ...] = ()
    asked_for: bool = False
    sh: str = "/bin/sh"
    no_split: str = ""

    @property
    def why_no_places(self) -> str:
        """Why this bpftrace cannot count requests by file system; "" if it can: it needs raw tracepoints."""
        least = ".".join(map(str, _RAW_TRACEPOINTS))
        found = f"it has bpftrace {self.bpftrace}; this needs {least} or later"
        return found if self._before(_RAW_TRACEPOINTS) else ""

    @property
    def map_keys_variable(self) -> str:
        """bpftrace's environment variable for the size of maps, which was renamed."""
        return "BPFTRACE_MAP_KEYS_MAX" if self._before(_NEW_VARIABLES) else "BPFTRACE_MAX_MAP_KEYS"

    @property
    def text(self) -> str:
        """The program for this bpftrace: with raw tracepoints if it has them, they cost less."""
        if self._before(_RAW_TRACEPOINTS):
            return self.program.text
        return _TRACEPOINT_HEAD.sub("rawtracepoint:", self.program.text)

    def why_no_types(self, server: Host) -> str:
        """Why programs with structures of the kernel do not run there, "" if they do. Raises HostLost."""
        return self.reason or self.why_no_places or why_no_types(server)

    def _before(self, version: tuple[int, int]) -> bool:
        return _before(self.bpftrace, version)


def find_tracing(
    server: Host, zfs: ZfsVersion, trace: str = "auto", wanted: Program | None = None
) -> TracingSupport:
    """Whether this server can run `wanted`, by default the program of a run.

    `trace`: auto or none, from the testbed. Raises only HostLost.
    """
    whole = wanted or program(zfs)
    if trace == "none":
        return TracingSupport("none", whole, reason='the testbed has trace = "none"', asked_for=True)
    result = server.run(["bpftrace", "--version"], check=False)
    version = result.stdout.strip().removeprefix("bpftrace ") if result.returncode == 0 else ""
    match = _VERSION.search(version)
    if not match:
        why = f"{server.name} has no bpftrace" if result.returncode in (126, 127) else result.describe()
        return TracingSupport("none", whole, reason=why)
    number = version.removeprefix("v")
    if (int(match[1]), int(match[2])) < MIN_BPFTRACE:
        least = ".".join(map(str, MIN_BPFTRACE))
        return TracingSupport(
            "none", whole, number, f"{server.name} has bpftrace {number}; the program needs {least} or later"
        )
    missing = tuple(_missing(server, whole))
    if missing:
        why = f"the kernel of {server.name} has no {', '.join(missing)} to probe"
        return TracingSupport("none", whole, number, why, missing)
    return TracingSupport("full", whole, number, sh=_shell(server))


def why_no_split(server: Host, zfs: ZfsVersion, tracing: TracingSupport) -> str:
    """Why this server, which `tracing` is of, cannot run the program with `split`; "" if it can.

    Raises only HostLost.
    """
    if tracing.kind == "none":
        return tracing.reason
    if not zfs.has_arc_iohit:
        return f"{server.name} has {zfs}; OpenZFS 2.1 makes the write of a log block before it is issued"
    if _before(tracing.bpftrace, MIN_SPLIT_BPFTRACE):
        least = ".".join(map(str, MIN_SPLIT_BPFTRACE))
        return f"{server.name} has bpftrace {tracing.bpftrace}; this needs {least} or later"
    missing = _missing(server, program(zfs, split=True))
    return f"the kernel of {server.name} has no {', '.join(missing)} to probe" if missing else ""


def why_no_types(server: Host) -> str:
    """Why programs with structures of the kernel do not run there; "" if they do. Raises only HostLost."""
    found = server.run(["test", "-r", _TYPES], check=False).returncode == 0
    return "" if found else f"the kernel of {server.name} has no {_TYPES}"


def _before(bpftrace: str, version: tuple[int, int]) -> bool:
    match = _VERSION.search(f"v{bpftrace}")
    return match is not None and (int(match[1]), int(match[2])) < version


def _missing(server: Host, needed: Program) -> list[str]:
    missing = [
        name
        for name in needed.tracepoints
        if server.run(["test", "-d", f"{_EVENTS}/{name}"], check=False).returncode
    ]
    pattern = " (" + "|".join(needed.functions) + r")(\s|$)"
    symbols = server.run(["grep", "--extended-regexp", pattern, "/proc/kallsyms"], check=False).stdout
    present = {line.split()[2] for line in symbols.splitlines() if len(line.split()) > 2}
    return missing + [name for name in needed.functions if name not in present]


def _shell(server: Host) -> str:
    """The path of /bin/sh without symbolic links: bpftrace before 0.19 cannot start a command through one."""
    try:
        return server.run(["readlink", "--canonicalize-existing", "/bin/sh"]).stdout.strip() or "/bin/sh"
    except CommandFailed:
        return "/bin/sh"
