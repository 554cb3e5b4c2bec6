"""The trace program for a version of OpenZFS: fixed files, joined. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kit.zfs.openzfs_version import ZfsVersion

HERE = Path(__file__).parent
# The size of maps that kit.trace.nfsd_tracer sets. A map with as many keys may have lost some.
MAP_KEYS = 65536
_INCLUDE = re.compile(r"^ *INCLUDE (\S+)\n", re.MULTILINE)
_KPROBE = re.compile(r"^k(?:ret)?probe:(\w+)$", re.MULTILINE)
_TRACEPOINT = re.compile(r"^tracepoint:(\w+):(\w+),?$", re.MULTILINE)


@dataclass(frozen=True)
class Program:
    """`functions` and `tracepoints` (as group/name) are its probes."""

    text: str

    @property
    def functions(self) -> tuple[str, ...]:
        return tuple(sorted(set(_KPROBE.findall(self.text))))

    @property
    def tracepoints(self) -> tuple[str, ...]:
        return tuple(f"{a}/{b}" for a, b in sorted(set(_TRACEPOINT.findall(self.text))))


def program(zfs: ZfsVersion) -> Program:
    """The program for this OpenZFS."""
    inflight = "inflight.bt" if zfs.has_arc_iohit else "inflight-2.1.bt"
    names = ["nfsd.bt", inflight, *(["direct.bt"] if zfs.has_direct_io else [])]
    return Program("".join(map(_text, names)))


def _text(name: str) -> str:
    """A file with its included files: bpftrace 0.17 has neither functions nor macros."""
    return _INCLUDE.sub(lambda match: _text(match[1]), (HERE / name).read_text())


def programs() -> tuple[Program, ...]:
    """The program for each supported version."""
    return tuple(program(ZfsVersion(2, minor)) for minor in (1, 2, 3))
