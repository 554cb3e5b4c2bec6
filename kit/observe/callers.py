"""Requests of an observed server by client, or by process. Pure."""

from __future__ import annotations

from collections import Counter

from kit.core.text import safe_text
from kit.observe.served import Served
from kit.store.parts.observed import CallerRow, FileRow, Operation
from kit.trace.output import Trace, place_of
from kit.trace.tier import tier_of

# Rows in the manifest; the rest are together.
_MOST_ROWS = 1000
_MOST_FILES = 200
OTHERS = "(others)"
_Row = tuple[str, str, str, str]
_File = tuple[str, int, str, str, str]


def rows(trace: Trace, known: Served) -> tuple[CallerRow, ...]:
    """By caller, file system, op and tier: those that waited longest first."""
    found, ios = Counter[_Row](), Counter[_Row]()
    for (caller, key), (calls, waited_ns) in trace.callers.items():
        if name := known.file_systems.get(place_of(key)):
            row = safe_text(caller), name, key[0], tier_of(*key, known.vdevs(name))
            found[row] += waited_ns
            ios[row] += calls
    together, ios_together = Counter[_Row](), Counter[_Row]()
    for number, (row, waited_ns) in enumerate(found.most_common()):
        shown = row if number < _MOST_ROWS else (OTHERS, *row[1:])
        together[shown] += waited_ns
        ios_together[shown] += ios[row]
    return tuple(
        CallerRow(caller=row[0], file_system=row[1], op=row[2], tier=row[3], ios=ios_together[row],
                  waited_ns=waited_ns)
        for row, waited_ns in together.items()
    )  # fmt: skip


def files(trace: Trace, known: Served) -> tuple[FileRow, ...]:
    """By file, op and tier: those that waited longest first, and no more than _MOST_FILES."""
    found, ios = Counter[_File](), Counter[_File]()
    for (file, number, key), (calls, waited_ns) in trace.files.items():
        if name := known.file_systems.get(place_of(key)):
            row = safe_text(file), number, name, key[0], tier_of(*key, known.vdevs(name))
            found[row] += waited_ns
            ios[row] += calls
    return tuple(
        FileRow(name=row[0], number=row[1], file_system=row[2], op=row[3], tier=row[4], ios=ios[row],
                waited_ns=waited_ns)
        for row, waited_ns in found.most_common(_MOST_FILES)
    )  # fmt: skip


def operations(trace: Trace) -> tuple[Operation, ...]:
    """Those that took the server longest first."""
    found = [Operation(name=name, calls=n, waited_ns=ns) for name, (n, ns) in trace.operations.items()]
    return tuple(sorted(found, key=lambda each: (-each.waited_ns, each.name)))
