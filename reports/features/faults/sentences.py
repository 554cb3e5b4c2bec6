"""What people read of declared faults and events."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import timedelta

from kit.core.units import commas, format_duration_s, format_latency, format_time_s
from kit.store.parts.faults import FaultChecks, FaultRow
from kit.store.summary import Summary


def sentences(rows: Sequence[FaultRow]) -> Iterator[str]:
    """A line for each fault and event, for people."""
    for row in rows:
        head = f"{row.text} at {when(row.at_s)} ({row.phase})"
        if row.begin_s is None or row.error:
            yield f"{head}: did not happen{': ' + row.error if row.error else ''}."
        elif row.kind == "event":
            yield f"{head}: took {format_time_s(row.end_s - row.begin_s)}." if row.end_s else f"{head}."
        else:
            found = "latency did not recover"
            if row.recovered_s is not None:
                found = f"latency {recovered(row)} (known to within {row.resolution_s:g} s)"
            elif row.ok is None:
                found = "not judged"
            yield f"{head}: {found}; longest I/O {format_latency(row.longest_us)}; {_WORDS[row.ok]}."


def check_sentences(checks: Sequence[FaultChecks]) -> Iterator[str]:
    """Of each phase: errors that clients saw, and whether all data is there."""
    for each in checks:
        parts = []
        if each.client_errors is not None:
            parts.append(f"{commas(each.client_errors)} NFS calls ended with an error at the clients")
            parts.append(f"{commas(each.retransmissions or 0)} were sent again")
        if each.data_errors is not None:
            found = f"{commas(each.data_errors)} errors" if each.data_errors else "all data"
            parts.append(f"a scrub after it found {found} ({each.scan})")
        elif each.why:
            parts.append(f"data not read back: {each.why}")
        if parts:
            yield f"{each.phase}: {'; '.join(parts)}."


def answer(summary: Summary) -> Iterator[str]:
    """The fault after which latency took longest to recover."""
    faults = [row for row in summary.faults if row.kind == "fault" and row.begin_s is not None]
    if faults:
        slowest = max(faults, key=lambda row: math.inf if row.recovered_s is None else row.recovered_s)
        [text] = sentences([slowest])
        yield text if len(faults) == 1 else f"Slowest of {len(faults)} faults: {text}"


def lines(summary: Summary) -> Iterator[str]:
    yield from sentences(summary.faults)
    yield from check_sentences(summary.fault_checks)


def recovered(row: FaultRow) -> str:
    """Such as "took 5 min from the fault's end to recover"."""
    since = "begin" if row.lasted else "end"
    if not row.recovered_s:
        return f"recovered at the fault's {since}"
    return f"took {format_duration_s(row.recovered_s)} from the fault's {since} to recover"


_WORDS = {True: "as declared", False: "NOT as declared", None: "unknown"}


def when(at_s: float) -> str:
    """Hours, minutes and seconds since the load began."""
    return str(timedelta(seconds=round(at_s)))
