"""Open loops of a run: each rate with its percentiles, and up to which rate a limit is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from kit.core.sample_size import sample_needed
from kit.core.units import commas, format_binary_bytes, format_latency
from kit.store.checks.outcome import Outcome
from kit.store.load.open_loop import CapacityRow, CapacityStep, OpenLoop, RatePoint
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.summary import Summary
from reports.features.feature import Feature, Judged

_QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
# Of the p99 at the lowest rate.
_KNEE = 2
# The difference of two p99 that a sentence is about.
_APART = 1.1


def describe(manifest: Manifest) -> list[CapacityRow]:
    """Of each phase with an open loop."""
    return [_row(phase, phase.open) for phase in manifest.phases if phase.open]


def _row(phase: Phase, load: OpenLoop) -> CapacityRow:
    found = phase.capacity
    kind: dict[str, Any] = {
        "phase": phase.name, "op": load.op, "block_bytes": load.block_bytes, "threads": load.threads,
    }  # fmt: skip
    if found is None:
        return CapacityRow(**kind, points=(_point(load),))
    steps = sorted(found.steps, key=lambda step: (step.load.rate_per_s, step.purpose == "confirm"))
    points = tuple(_point(step.load, step) for step in steps) or (_point(load),)
    return CapacityRow(
        **kind, limit_us=found.p99_max_ns / 1e3, end=found.end, rate_per_s=found.rate_per_s,
        broken_per_s=found.broken_per_s, why=found.why, points=points,
        # Of a server that is not the same all the time there is no curve.
        knee_per_s=_knee(points) if found.end != "unknown" else None,
    )  # fmt: skip


def _point(load: OpenLoop, step: CapacityStep | None = None) -> RatePoint:
    figures: dict[str, Any] = {
        f"{prefix}{name}_us": _us(load, q, intended=not prefix)
        for prefix in ("", "actual_") for name, q in _QUANTILES.items()
    }  # fmt: skip
    late_ns = load.late.rank_ns(-(-load.late.ios * 99 // 100))
    given: dict[str, Any] = {"judged": step.judged, "low": step.low, "high": step.high} if step else {}
    return RatePoint(
        rate_per_s=load.rate_per_s, done_per_s=load.intended.ios * 1e9 / load.elapsed_ns, ios=load.due,
        confirms=step is not None and step.purpose == "confirm", share=load.above / max(load.due, 1),
        late_p99_us=None if late_ns is None else late_ns / 1e3, **given, **figures,
    )  # fmt: skip


def _us(load: OpenLoop, q: float, *, intended: bool) -> float | None:
    found = load.rank_ns(q, intended=intended) if load.due >= sample_needed(q) else None
    return None if found is None else found / 1e3


def _knee(points: Sequence[RatePoint]) -> float | None:
    """None where p99 stays below, or is known of one rate alone."""
    first = next((each.p99_us for each in points if each.p99_us), None)
    for before, each in pairwise(points):
        if first and before.p99_us and (each.p99_us is None or each.p99_us > _KNEE * first):
            return each.rate_per_s
    return None


def ios_of(row: CapacityRow) -> str:
    """Such as "random reads of 4 KiB"."""
    kind = "random reads" if row.op == "read" else "O_DSYNC writes"
    return f"{kind} of {format_binary_bytes(row.block_bytes)}"


def said(row: CapacityRow) -> str:
    """The answer of a search; of a phase with one rate how its latency depends on where it begins."""
    if row.end is None or row.limit_us is None:
        return _of_one(row)
    limit, ios = f"p99 within {format_latency(row.limit_us)}", ios_of(row)
    rate, broken = (commas(each) if each else "" for each in (row.rate_per_s, row.broken_per_s))
    if row.end == "found":
        return f"up to {rate} {ios} a second keep {limit}; {broken} a second do not (95 %)."
    if row.end == "beyond":
        return f"{rate} {ios} a second keep {limit}, and more was not asked for (rate_max)."
    if row.end == "below":
        lowest = row.points[0]
        took = f": p99 is {format_latency(lowest.p99_us)}" if lowest.p99_us else ""
        return f"even {commas(lowest.rate_per_s)} {ios} a second do not keep {limit}{took}."
    least = f" {rate} a second kept it." if rate else ""
    return f"up to which rate {ios} keep {limit} is not known: {row.why}.{least}"


def _of_one(row: CapacityRow) -> str:
    [point] = row.points
    of = f"{commas(point.rate_per_s)} {ios_of(row)} a second"
    if point.p99_us is None or point.actual_p99_us is None:
        return f"{of}: too few I/Os for a p99, or they never started."
    text = f"{of}: p99 {format_latency(point.p99_us)} from their intended start"
    actual = format_latency(point.actual_p99_us)
    if point.p99_us > _APART * point.actual_p99_us:
        return f"{text}; from their actual start, as closed loops measure, {actual}."
    return f"{text}, and {actual} from their actual start."


def sentence(row: CapacityRow) -> str:
    """The same, with the phase that it is of."""
    return f"{row.phase}: {said(row)}"


def sentences(rows: Sequence[CapacityRow]) -> list[str]:
    """Of each phase; with its name only where another has the same I/Os."""
    kinds = [ios_of(row) for row in rows]
    plain = [text[0].upper() + text[1:] for text in map(said, rows)]
    return [
        sentence(row) if kinds.count(kind) > 1 else text
        for row, kind, text in zip(rows, kinds, plain, strict=True)
    ]


def _outcomes(rows: Sequence[CapacityRow]) -> Iterator[Outcome]:
    for row in rows:
        if row.end == "unknown":
            yield Outcome.unknown("CAPACITY", sentence(row), row.phase)
        elif row.end is not None:
            yield Outcome.ok("CAPACITY", row.phase)


def _judge(manifest: Manifest, _: object, __: object) -> Judged:
    rows = describe(manifest)
    return Judged({"capacity": rows}, [*_outcomes(rows)], sentences(rows))


def _answer(summary: Summary) -> Iterator[str]:
    """The first of several has the others beside it."""
    texts = zip(summary.capacity, sentences(summary.capacity), strict=True)
    yield from filter(None, [" ".join(text for row, text in texts if row.end)])


def _lines(summary: Summary) -> Iterator[str]:
    """A line a rate."""
    for row in summary.capacity:
        for each in row.points:
            state = f", {each.judged}{' again' * each.confirms}" if each.judged else ""
            actual = _shown(each.actual_p50_us, each.actual_p99_us, each.actual_p999_us)
            yield (
                f"{row.phase}, {commas(each.rate_per_s)} a second: p50, p99 and p99.9 "
                f"{_shown(each.p50_us, each.p99_us, each.p999_us)}, from the actual start {actual}{state}."
            )


def _shown(*us: float | None) -> str:
    return " / ".join("-" if each is None else format_latency(each) for each in us)


FEATURE = Feature(_judge, answer=_answer, lines=_lines)
