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


def rows(trace: Trace, known: Served) -> tuple[CallerRow, ...]:
    """By caller, file system, op and tier: those that waited longest first."""
    found: dict[tuple[str, str, str, str], tuple[int, int]] = {}
    for (caller, key), (calls, waited_ns) in trace.callers.items():
        if not (name := known.file_systems.get(place_of(key))):
            continue
        op, seen, vdev = key
        tier = tier_of(op, seen, vdev, known.vdevs(name))
        row = (safe_text(caller), name, op, tier)
        before = found.get(row, (0, 0))
        found[row] = before[0] + calls, before[1] + waited_ns
    ordered = sorted(found.items(), key=lambda item: -item[1][1])
    together: dict[tuple[str, str, str, str], tuple[int, int]] = {}
    for number, ((caller, *rest), (calls, waited_ns)) in enumerate(ordered):
        row = (caller if number < _MOST_ROWS else OTHERS, *rest)  # type: ignore[assignment]
        before = together.get(row, (0, 0))
        together[row] = before[0] + calls, before[1] + waited_ns
    return tuple(
        CallerRow(caller=caller, file_system=name, op=op, tier=tier, ios=calls, waited_ns=waited_ns)
        for (caller, name, op, tier), (calls, waited_ns) in together.items()
    )


def files(trace: Trace, known: Served) -> tuple[FileRow, ...]:
    """By file, op and tier: those that waited longest first, and no more than _MOST_FILES."""
    found: Counter[tuple[str, int, str, str, str]] = Counter()
    ios = Counter[tuple[str, int, str, str, str]]()
    for (file, number, key), (calls, waited_ns) in trace.files.items():
        if name := known.file_systems.get(place_of(key)):
            op, seen, vdev = key
            row = (safe_text(file), number, name, op, tier_of(op, seen, vdev, known.vdevs(name)))
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
