"""The operations of NFS that metadata.bt counts, by their number in @seen and in /proc/net/rpc/nfsd. Pure."""

from __future__ import annotations

from kit.store.labels import NFS_METADATA
from kit.trace.callers import PROCEDURES

# From 3 on, RFC 8881 (16.2.3); what is missing here is "other".
_V4 = {
    3: "access", 4: "close", 6: "create", 8: "delegreturn", 9: "getattr", 10: "getfh", 11: "link",
    15: "lookup", 16: "lookupp", 18: "open", 20: "open_confirm", 22: "putfh", 24: "putrootfh", 26: "readdir",
    27: "readlink", 28: "remove", 29: "rename", 30: "renew", 31: "restorefh", 32: "savefh", 34: "setattr",
    53: "sequence",
}  # fmt: skip
_V4_FIRST = 128
# Those that the probes of every run count: READ, WRITE and COMMIT; with READ_PLUS.
_DATA_V3, _DATA_V4 = (6, 7, 21), (5, 25, 38, 68)


def nfsd_operations(text: str) -> dict[str, int]:
    """Of each op how many nfsd has counted, from /proc/net/rpc/nfsd. Raises ValueError."""
    found = dict.fromkeys(NFS_METADATA, 0)
    for row in map(str.split, text.splitlines()):
        if row[:1] == ["proc3"]:
            counts = enumerate(row[2:], 1)
        elif row[:1] == ["proc4ops"]:
            # Below 3 is nothing.
            counts = enumerate(row[5:], _V4_FIRST + 3)
        else:
            continue
        for code, count in counts:
            if op := _operation(code):
                found[op] += int(count)
    return found


def operation(code: int) -> str:
    """Its op (kit.store.labels), by bits 22 to 31 of @seen. Raises ValueError."""
    if not (op := _operation(code)):
        raise ValueError("no operation of NFS")
    return op


def _operation(code: int) -> str:
    """ "" for READ, WRITE and COMMIT, and for a number that has no operation."""
    if 1 <= code <= len(PROCEDURES):
        return "" if code - 1 in _DATA_V3 else PROCEDURES[code - 1].lower()
    number = code - _V4_FIRST
    return "" if not 3 <= number < _V4_FIRST or number in _DATA_V4 else _V4.get(number, "other")
