"""Who made the requests, and all operations of an NFS server: maps of bpftrace with number and sum. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

# By number, RFC 1813.
PROCEDURES = (
    "NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR",
    "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO",
    "PATHCONF", "COMMIT",
)  # fmt: skip
_OPERATION = re.compile(r"OP_([A-Z_0-9]{1,40})")
Entry = tuple[str, int, int]
"""Key, number, sum of ns."""


def read_stats(content: Mapping[str, Any]) -> Iterator[Entry]:
    """The entries of a map of stats(). Raises KeyError, TypeError."""
    for key, value in content.items():
        yield key, value["count"], value["total"]


def client(high: int, low: int) -> str:
    """The address of client_of_request.bt, as text. Raises ValueError, OverflowError."""
    if not high and low < 1 << 32:
        return str(ipaddress.IPv4Address(low.to_bytes(4, "little")))
    halves = high.to_bytes(8, "little") + low.to_bytes(8, "little")
    address = ipaddress.IPv6Address(halves)
    return str(address.ipv4_mapped or address)


def operation(name: str, key: str) -> str:
    """Such as `NFSv3 LOOKUP`; `name`: the map, as operations.bt has it. Raises ValueError, IndexError."""
    if name == "@calls":
        return f"NFSv3 {PROCEDURES[int(key)]}"
    found = _OPERATION.fullmatch(key)
    if not found:
        raise ValueError("no operation of NFSv4")
    return f"NFSv4 {found[1]}"
