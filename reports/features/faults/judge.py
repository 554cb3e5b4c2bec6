"""What declared faults and events did to a phase: whether they happened, and whether the phase recovered.

The band of before: of up to 100 intervals before a fault in which nothing declared went on (at least 30), the
largest p50 and the largest p99, for each layer and op by itself. After a fault without recovery it is that of
the fault before. Where a slow load leaves intervals without reads or writes, so many of them count as one
that none before the first fault is without. An interval is in the band if it has I/Os of each, and no p50 or
p99 is above by more than a bin. Percentiles are nearest ranks: in an interval of less than 100 I/Os the p99
is the slowest one.

More intervals above than chance explains (reports.statistics.usual_band; 1 / 40 for all figures together) are
an effect. So few intervals that even all of them could be above by chance tell nothing.

A phase has recovered at the begin of the first of three intervals in a row that are in the band, from the one
on in which the fault ended, or began if it lasts until the phase ends. One interval that is above before
these three may be chance, and counts as in the band. So recovery is known to within an interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kit.core.units import format_duration_s, format_latency
from kit.store.checks.outcome import Outcome
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.faults import BandOf, FaultChecks, FaultRow
from kit.store.parts.schedule import DataCheck, Schedule, ScheduledAction
from kit.store.phase import Phase
from kit.store.stored import Json
from kit.store.summary import Row
from kit.store.tables import CLIENT, SERVER
from reports.features.faults import sentences
from reports.features.feature import Feature, Judged
from reports.statistics.usual_band import Key, Largest, Timeline, UsualBand, timeline

# Of what is expected of a fault, else FAULT-RECOVERY.
_EXPECTED = {"unaffected": "FAULT-AFFECTED", "degraded": "FAULT-DEGRADED"}
MOST_BEFORE, LEAST_BEFORE = 100, 30
# Intervals that are one for the judgement.
_TOGETHER = (1, 2, 3, 5, 10, 20, 50, 100)
IN_A_ROW = 3


class JudgedFaults(NamedTuple):
    """`rows`, `checks`: of summary.json."""

    outcomes: list[Outcome]
    rows: list[FaultRow]
    checks: list[FaultChecks]


def judge(manifest: Manifest, latency: Latency) -> JudgedFaults:
    """All phases with a schedule."""
    judged = JudgedFaults([], [], [])
    for phase in manifest.phases:
        if schedule := phase.schedule:
            for row, outcome in judge_line(*_line_of(latency, phase, schedule), phase, schedule):
                judged.rows.append(row)
                judged.outcomes.append(outcome)
            judged.checks.append(_checked(phase, schedule))
            judged.outcomes.extend(_errors(phase.name, schedule))
    return judged


def disturbed(phase: Phase, latency: Latency) -> Iterator[tuple[int, int]]:
    """From when to when each fault was felt (ns): from its begin until latency is as before.

    Where it did not recover, until the time that it may take, or the end of the phase; where that was not
    judged, until its own end.
    """
    if phase.schedule is None:
        return
    zero_ns = _zero_ns(phase)
    for row, _ in judge_line(*_line_of(latency, phase, phase.schedule), phase, phase.schedule):
        if row.kind == "fault" and row.begin_s is not None:
            since_s = row.begin_s if row.lasted or row.end_s is None else row.end_s
            longest_s = math.inf if row.ok is False else 0.0
            known_s = (row.recovered_s, row.recover_within_s, longest_s)
            felt_s = next(each for each in known_s if each is not None)
            end_s = since_s + felt_s + (row.resolution_s or 0.0)
            until_ns = phase.end_ns if math.isinf(end_s) else zero_ns + round(end_s * 1e9)
            yield zero_ns + round(row.begin_s * 1e9), until_ns


def _zero_ns(phase: Phase) -> int:
    """What times of a schedule are since: the begin of the load, or of the phase where that was not seen."""
    begun_ns = phase.schedule.load_begun_ns if phase.schedule else None
    return phase.start_ns if begun_ns is None else begun_ns


# --- One phase ---


def _band(line: Timeline, quiet: np.ndarray, before: int) -> UsualBand | None:
    """Of the intervals before the number `before`; None if there are too few."""
    used = np.flatnonzero(quiet[:before])[-MOST_BEFORE:]
    if len(used) < LEAST_BEFORE:
        return None
    # Not those that have no I/O now and then.
    usual = {key: each for key, each in line.series.items() if (each.ios[used] > 0).all()}
    found = {k: (Largest.of(e.p50[used]), Largest.of(e.p99[used])) for k, e in usual.items()}
    return UsualBand(found) if found else None


def _rows(band: UsualBand) -> tuple[BandOf, ...]:
    return tuple(
        BandOf(layer=layer, op=op, p50_us=p50.largest / 1e3, p99_us=p99.largest / 1e3)
        for (layer, op), (p50, p99) in band.figures.items()
    )


def quiet_of(line: Timeline, phase: Phase, schedule: Schedule) -> np.ndarray:
    """Whether nothing declared went on in each interval."""
    # The first interval begins before the load, the last ends after it.
    quiet = np.ones(line.count, dtype=bool)
    quiet[:1] = quiet[-1:] = False
    for each in schedule.actions:
        if each.begin_ns is not None:
            until_ns = each.end_ns if each.end_ns is not None else phase.end_ns
            until_ns = each.begin_ns if each.lasted else until_ns
            quiet[line.index(each.begin_ns) : line.index(until_ns) + 1] = False
    return quiet


def _line_of(latency: Latency, phase: Phase, schedule: Schedule) -> tuple[Timeline, np.ndarray]:
    """Intervals wide enough that those before the first fault have I/Os of each kind, and which are quiet."""
    begins = [
        each.begin_ns for each in schedule.actions if each.kind == "fault" and each.begin_ns is not None
    ]
    for together in _TOGETHER:
        line = timeline(latency, phase, together)
        quiet = quiet_of(line, phase, schedule)
        used = np.flatnonzero(quiet[: line.index(min(begins))])[-MOST_BEFORE:] if begins else ()
        if together == 1 or len(used) >= LEAST_BEFORE:
            best = line, quiet
        if all(np.all(each.ios[used] > 0) for each in line.series.values()):
            break
    return best


def judge_line(
    line: Timeline, quiet: np.ndarray, phase: Phase, schedule: Schedule
) -> Iterator[tuple[FaultRow, Outcome]]:
    """Each fault and event. `quiet`: whether nothing declared went on in each interval; it is changed."""
    zero_ns = _zero_ns(phase)
    band = None
    for each in sorted(schedule.actions, key=lambda each: each.at_ns):
        row = _row(phase, each, zero_ns)
        if why := _missing(phase, each):
            row = row.model_copy(update={"id": _code(each), "why": why})
            yield row, _outcome(_code(each), phase, each, why)
        elif each.kind == "event":
            yield row.model_copy(update={"ok": True}), _outcome(_code(each), phase, each)
        else:
            assert each.begin_ns is not None
            band = _band(line, quiet, line.index(each.begin_ns)) or band
            yield _judge_fault(phase, each, line, (quiet, band), row)


def _code(each: ScheduledAction) -> str:
    return "FAULT-MISSING" if each.kind == "fault" else "EVENT-MISSING"


def _row(phase: Phase, each: ScheduledAction, zero_ns: int) -> FaultRow:
    def since(time_ns: int | None) -> float | None:
        return None if time_ns is None else (time_ns - zero_ns) / 1e9

    within = each.recover_within_ns
    return FaultRow(
        phase=phase.name, kind=each.kind, what=each.what, text=each.text, device=each.device,
        at_s=each.at_ns / 1e9, begin_s=since(each.begin_ns), end_s=since(each.end_ns),
        times=each.times, error=each.error, was_cut=each.was_cut, lasted=each.lasted, expect=each.expect,
        recover_within_s=None if within is None else within / 1e9, recovered_s=None,
        recovered_from_begin_s=None, resolution_s=None, band=(), longest_us=0.0, gap_s=0.0,
        ok=None, id=None, why="",
    )  # fmt: skip


def _missing(phase: Phase, each: ScheduledAction) -> str:
    """Why it did not happen as declared; "" if it did."""
    if each.begin_ns is None:
        return "it never began: the load had ended, or was not seen to begin"
    if each.error:
        return each.error
    if each.begin_ns > phase.end_ns:
        return "it began after the phase had ended"
    if each.kind == "event" and not each.times and not each.was_cut:
        return "it did nothing"
    if each.kind == "fault" and each.was_cut:
        return "the load ended before it did, and it was undone early"
    return ""


def _judge_fault(
    phase: Phase,
    each: ScheduledAction,
    line: Timeline,
    usual: tuple[np.ndarray, UsualBand | None],
    row: FaultRow,
) -> tuple[FaultRow, Outcome]:
    """`usual`: which intervals are quiet, which is changed, and the band of before."""
    assert each.begin_ns is not None
    quiet, band = usual
    first = line.index(each.begin_ns)
    ended_ns = each.end_ns if each.end_ns is not None else phase.end_ns
    last = line.index(ended_ns)
    if each.lasted:
        ended_ns = each.begin_ns
    since = line.index(ended_ns)
    found: Json = {"resolution_s": line.width_ns / 1e9}
    at, back = _back(band, line, since) if band else (None, None)
    if at is not None and back is not None:
        at_ns = max(line.begin_ns(back), ended_ns)
        found["recovered_s"] = (at_ns - ended_ns) / 1e9
        found["recovered_from_begin_s"] = (at_ns - each.begin_ns) / 1e9
    until = line.count if at is None else at + 1
    # What is not over yet is not the usual state.
    quiet[first:until] = False
    places = _Places(first, last, min(since, line.count - 1), at, _after(quiet, at))
    row = row.model_copy(
        update={**found, "band": _rows(band) if band else (), **_suffered(line, first, until)}
    )
    code, why = _EXPECTED.get(each.expect or "", "FAULT-RECOVERY"), ""
    if each.expect == "degraded":
        why = _stopped(line, places)
    elif open_ := _open(each, line, band, places, row):
        code, why = "FAULT-UNJUDGED", open_
    elif band:
        why = _unkept(each, line, band, places, row)
    ok = None if code == "FAULT-UNJUDGED" else not why
    row = row.model_copy(update={"ok": ok, "id": code if why else None, "why": why})
    return row, _outcome(code, phase, each, why)


@dataclass(frozen=True)
class _Places:
    """Numbers of intervals: in which a fault began and ended, and from which on recovery counts.

    `back`: the first of three in a row in the band, None without. `after`: the end of the quiet ones then.
    """

    first: int
    last: int
    since: int
    back: int | None
    after: int


def _after(quiet: np.ndarray, back: int | None) -> int:
    """No more than before are held against those before: what drifts in hours is no effect of a fault."""
    if back is None:
        return 0
    busy = np.flatnonzero(~quiet[back + 1 : back + 1 + MOST_BEFORE])
    return back + 1 + int(busy[0] if busy.size else min(MOST_BEFORE, len(quiet) - back - 1))


def _back(band: UsualBand, line: Timeline, last: int) -> tuple[int | None, int | None]:
    """From `last` on, the first of three intervals in a row in the band, and when they were back in it."""
    inside = ~np.any([out for _, out in band.above(line)], axis=0)
    at = next((n for n in range(last, line.count - IN_A_ROW + 1) if inside[n : n + IN_A_ROW].all()), None)
    if at is not None and int((~inside[last:at]).sum()) == 1:
        return at, last
    return at, at


def _open(
    each: ScheduledAction, line: Timeline, band: UsualBand | None, places: _Places, row: FaultRow
) -> str:
    """Why it cannot be told whether it is as declared; "" if it can."""
    if band is None:
        return (
            f"fewer than {LEAST_BEFORE} intervals with I/Os and no declared fault or event are before it: "
            "begin it later, make the interval shorter, or make more I/Os"
        )
    until = _until(line, places.last)
    if each.expect == "unaffected" and band.is_chance(line, places.first, until, all_of_them=True):
        return (
            f"even if no interval of it were in the band of before ({_limits(row)}), that could be chance, "
            "by the intervals before it: begin it later, let it last longer, or make the interval shorter"
        )
    gone = each.expect == "recovers" and places.back is None
    if gone and band.is_chance(line, places.since, line.count - 1):
        return "too few intervals are after it: let the phase last longer, or make the interval shorter"
    rare = [_place(key) for key in line.series if key not in band.figures]
    if rare and not _unkept(each, line, band, places, row):
        return (
            f"of {' and of '.join(rare)} there is no I/O in some of the {LEAST_BEFORE} or more intervals "
            "before it: more I/Os, or longer intervals, tell whether these recovered"
        )
    return ""


def _until(line: Timeline, last: int) -> int:
    """Before which interval a fault that ended in `last` can be seen."""
    return min(last + IN_A_ROW, line.count - 1)


def _suffered(line: Timeline, first: int, until: int) -> Json:
    """The longest I/O that ended from the fault on until recovery, and the longest time without one."""
    layers = {layer for layer, _ in line.series}
    layer = CLIENT if CLIENT in layers else SERVER
    mine = [each for (of, _), each in line.series.items() if of == layer]
    longest = max((float(each.longest[first:until].max(initial=0)) for each in mine), default=0.0)
    ended = sum((each.ios for each in mine), np.zeros(line.count))[first:until] > 0
    gap = run = 0
    for has_io in ended:
        run = 0 if has_io else run + 1
        gap = max(gap, run)
    return {"longest_us": longest / 1e3, "gap_s": gap * line.width_ns / 1e9}


def _stopped(line: Timeline, places: _Places) -> str:
    """Why the load did not go on while it lasted; "" if it did."""
    wide = range(places.first + 1, min(places.last, line.count - 1))
    ios = sum(float(each.ios[n]) for each in line.series.values() for n in wide)
    return "no I/O ended while it lasted: the load did not go on" if len(wide) and not ios else ""


def _unkept(each: ScheduledAction, line: Timeline, band: UsualBand, places: _Places, row: FaultRow) -> str:
    """Why it is not as declared; "" if it is."""
    if each.expect == "unaffected":
        return _beyond(line, band, (places.first, _until(line, places.last)), "its begin", row)
    within_s = row.recover_within_s
    limit = f"limit {format_duration_s(within_s)}" if within_s is not None else "limit: the end of the phase"
    if row.recovered_s is None:
        return f"latency did not recover, {limit}"
    if within_s is not None and row.recovered_s > within_s:
        return f"latency {sentences.recovered(row)}, {limit}"
    assert places.back is not None
    return _beyond(line, band, (places.back, places.after), "recovery", row)


def _beyond(line: Timeline, band: UsualBand, span: tuple[int, int], since: str, row: FaultRow) -> str:
    """Whether more than chance is not in the band, in words."""
    if band.is_chance(line, *span):
        return ""
    out = int(np.any([above for _, above in band.above(line)], axis=0)[slice(*span)].sum())
    return (
        f"{out} of {span[1] - span[0]} intervals from {since} on are slower than before, more than chance: "
        f"before, {_limits(row)}"
    )


def _place(key: Key) -> str:
    layer, op = key
    return f"{op} at the {'clients' if layer == CLIENT else 'server'}"


def _limits(row: FaultRow) -> str:
    """The band in words."""
    return "; ".join(
        f"{_place((each.layer, each.op))}: p50 up to {format_latency(each.p50_us)}, p99 up to "
        f"{format_latency(each.p99_us)}"
        for each in row.band
    )


def _has_faults(schedule: Schedule) -> bool:
    return any(each.kind == "fault" for each in schedule.actions)


def _checked(phase: Phase, schedule: Schedule) -> FaultChecks:
    """Errors that clients saw, and whether all data is there."""
    why = "the kit cannot read back what an appliance holds" if _has_faults(schedule) else ""
    data = schedule.data or DataCheck(why=why)
    return FaultChecks(
        phase=phase.name, client_errors=schedule.client_errors, retransmissions=schedule.retransmissions,
        vdevs=schedule.vdevs, data_errors=data.data_errors, scan=data.scan, why=data.why,
    )  # fmt: skip


def _errors(phase: str, schedule: Schedule) -> Iterator[Outcome]:
    """Errors of the clients and of the data, of a phase with faults; not of events alone."""
    if not _has_faults(schedule):
        return
    if schedule.client_errors:
        text = (
            f"{schedule.client_errors} NFS calls of the clients were answered with an error while faults "
            "were declared: the server did not hide them."
        )
        yield Outcome.failed("FAULT-ERRORS", text, phase)
    elif schedule.client_errors == 0:
        yield Outcome.ok("FAULT-ERRORS", phase)
    data = schedule.data
    if data is None:
        return
    if data.data_errors:
        text = (
            f"after the faults {data.data_errors} data errors are in the pool that no copy could repair "
            f"({data.scan})."
        )
        yield Outcome.failed("FAULT-DATA", text, phase)
    elif data.data_errors == 0:
        yield Outcome.ok("FAULT-DATA", phase)
    else:
        text = f"the data could not be read back after the faults: {data.why}."
        yield Outcome.unknown("FAULT-UNVERIFIED", text, phase)


def _outcome(code: str, phase: Phase, each: ScheduledAction, why: str = "") -> Outcome:
    """It holds where there is no `why`."""
    subject = f"the {each.kind} at {sentences.when(each.at_ns / 1e9)} ({each.text})"
    holds = None if why and code == "FAULT-UNJUDGED" else not why
    text = f"{subject.removeprefix('the ')}: {why}."
    return Outcome.judged(code, holds, text, phase.name, subject)


def _judged(manifest: Manifest, latency: Latency, _: Sequence[Row]) -> Judged:
    found = judge(manifest, latency)
    parts = {"faults": found.rows, "fault_checks": found.checks} if found.checks else {}
    return Judged(parts, found.outcomes)


FEATURE = Feature(_judged, sentences.answer, sentences.lines)
