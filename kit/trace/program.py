"""The trace program for a version of OpenZFS: fixed files, one after the other. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kit.zfs.openzfs_version import ZfsVersion

HERE = Path(__file__).parent
# bpftrace is told so many (kit.trace.nfsd_tracer). A map that holds as many may have had no room for more.
MAP_KEYS = 65536
_KPROBE = re.compile(r"^k(?:ret)?probe:(\w+)$", re.MULTILINE)
_TRACEPOINT = re.compile(r"^tracepoint:(\w+):(\w+),?$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """`functions` and `tracepoints` (as group/name) are what it attaches to."""

    text: str

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(sorted(set(_KPROBE.findall(self.text))))

    @property
    def tracepoints(self) -> tuple[str, ...]:
        return tuple(f"{a}/{b}" for a, b in sorted(set(_TRACEPOINT.findall(self.text))))


def parts(zfs: ZfsVersion) -> tuple[Path, ...]:
    """The files that fit this OpenZFS."""
    inflight = "inflight.bt" if zfs.has_arc_iohit else "inflight-2.1.bt"
    names = ["nfsd.bt", inflight, *(["direct.bt"] if zfs.has_direct_io else [])]
    return tuple(HERE / name for name in names)


def every() -> Program:
    """Whatever any version's program attaches to; not to be run."""
    return Program("".join(path.read_text() for path in sorted(HERE.glob("*.bt"))))


def program(zfs: ZfsVersion) -> Program:
    return Program("".join(path.read_text() for path in parts(zfs)))


def programs() -> tuple[Program, ...]:
    """The program for every version that the kit knows."""
    known = (ZfsVersion(2, 1), ZfsVersion(2, 2), ZfsVersion(2, 3))
    return tuple(program(zfs) for zfs in known)
