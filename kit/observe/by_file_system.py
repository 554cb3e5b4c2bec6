"""The tracer's output of an observed server, by file system; and together again. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from kit.instruments import request_split
from kit.observe.served import Served
from kit.store.parts.split import Part, PhaseSplit, SplitRow
from kit.trace.output import Class, Snapshot, Trace, place_of

Value = TypeVar("Value")


def names(trace: Trace, known: Served) -> dict[str, set[int]]:
    """Places by the name of their file system; without those that are not of ZFS."""
    found: dict[str, set[int]] = {}
    for place in places_of(trace):
        if name := known.file_systems.get(place):
            found.setdefault(name, set()).add(place)
    return found


def places_of(trace: Trace) -> set[int]:
    return {place_of(key) for key in trace.counts}


def only(trace: Trace, places: set[int]) -> Trace:
    """The requests to these places."""

    def kept(of: Mapping[Class, Value]) -> dict[Class, Value]:
        return {key: value for key, value in of.items() if place_of(key) in places}

    return replace(
        trace,
        snapshots=[Snapshot(each.at_ns, kept(each.counts)) for each in trace.snapshots],
        lowest=kept(trace.lowest),
        highest=kept(trace.highest),
        sums=kept(trace.sums),
        parts=kept(trace.parts),
        unjoined=kept(trace.unjoined),
    )


def split_of(trace: Trace, known: Served, phase: str) -> PhaseSplit:
    """Where the time of the requests of all file systems went. There is no phase without these probes."""
    rows: dict[tuple[str, str], list[SplitRow]] = {}
    for name, places in names(trace, known).items():
        for row in request_split.rows_of(only(trace, places), known.vdevs(name)):
            rows.setdefault((row.op, row.tier), []).append(row)
    return PhaseSplit(of=phase, rows=tuple(_together(rows)))


def _together(rows: Mapping[tuple[str, str], list[SplitRow]]) -> Iterator[SplitRow]:
    for (op, tier), mine in sorted(rows.items()):
        parts: Counter[Part] = Counter()
        for row in mine:
            parts.update(row.parts)
        yield SplitRow(
            op=op, tier=tier, ios=sum(row.ios for row in mine), unjoined=sum(row.unjoined for row in mine),
            sum_ns=sum(row.sum_ns for row in mine), parts=dict(parts),
        )  # fmt: skip
