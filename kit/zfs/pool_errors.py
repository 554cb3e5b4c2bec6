"""Errors of a pool that `zpool status` counts: by device, and of data. Pure but for `read` and `scrub`.

Its text is the same since OpenZFS 2.0 (print_status_config and print_error_log of cmd/zpool/zpool_main.c).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host

_ROW = re.compile(r"^\t\s*(\S+)\s+[A-Z]+\s+(\d+)\s+(\d+)\s+(\d+)", re.MULTILINE)
_NONE = "errors: No known data errors"
_SOME = re.compile(r"^errors: (\d+) data errors?", re.MULTILINE)
_SCAN = re.compile(r"^  scan: (.*)$", re.MULTILINE)
# As text for a shell: sudo does not keep the caller's environment.
_STATUS = 'LC_ALL=C exec zpool status -p "$1"'
_DAY_S = 86_400.0


@dataclass(frozen=True)
class PoolErrors:
    """`by_vdev`: read, write and checksum errors of each that has some. `data`: None if not known."""

    by_vdev: dict[str, tuple[int, int, int]]
    data: int | None
    scan: str


def parse(text: str) -> PoolErrors:
    """From `zpool status -p POOL`."""
    rows = {
        name: (int(read), int(write), int(checksum)) for name, read, write, checksum in _ROW.findall(text)
    }
    found, scan = _SOME.search(text), _SCAN.search(text)
    data = int(found[1]) if found else 0 if _NONE in text else None
    return PoolErrors({name: row for name, row in rows.items() if any(row)}, data, scan[1] if scan else "")


def read(server: Host, pool: str) -> PoolErrors:
    """Raises HostError."""
    return parse(server.run(["sh", "-c", _STATUS, "sh", pool]).stdout)


def scrub(server: Host, pool: str) -> PoolErrors:
    """Read all data and compare checksums, after a resilver that goes on. Raises HostError."""
    server.run(["zpool", "wait", "-t", "resilver,scrub", pool], deadline_s=_DAY_S)
    server.run(["zpool", "scrub", "-w", pool], deadline_s=_DAY_S)
    found = read(server, pool)
    if not found.scan.startswith("scrub repaired"):
        raise HostError(f"{server.name}: the scrub of {pool} did not end: {found.scan or 'none'}")
    return found
