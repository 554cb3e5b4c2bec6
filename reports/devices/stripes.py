"""Arrays of N drives beside what their drives do alone: N times the mean, N times the slowest, the bracket.

Rates are by mean latencies: of one drive its chunk over its mean latency, of an array with Q stripes on their
way Q stripes over theirs (Little's law). How well a mean is known comes from batch means, as consecutive
latencies depend on one another. The bracket: see reports.statistics.worst_of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import polars as pl

from kit.core.units import format_binary_bytes, format_factor, format_rate
from kit.store.labels import op_name
from kit.store.phase import ArrayOf, Phase
from reports.devices import together
from reports.statistics.quantiles import Floats
from reports.statistics.worst_of import mean_time, reach, stripe_times, whole_records

UP_TO = 32
# Runs that even out what a buffer does: between the two bounds.
RUN = 16
# The first eighth of each record is left out.
_BEGIN = 8
# Fewer latencies of a drive alone do not show its slow requests.
LEAST = 100


@dataclass(frozen=True)
class Scale:
    """Bytes a second of `number` drives: N times the mean and the slowest, and what the drives alone say.

    `single`, `run`, `whole`: by single requests, runs of `RUN`, and whole records. `low`, `high`: the
    bracket, from the low end of the 95 % range of `single` to the high end of that of `whole`. `p50_ns`,
    `p99_ns`: of a stripe of single requests. `reach`: half of the 95 % range of the drives' mean, of 1.
    """

    number: int
    mean: float
    slowest: float
    single: float
    run: float
    whole: float
    low: float
    high: float
    p50_ns: float
    p99_ns: float
    reach: float


@dataclass(frozen=True)
class MeasuredArray:
    """`reach`: half of the 95 % range of its rate, of 1.

    `holds`: that range reaches into the bracket; None if queued.
    """

    phase: str
    number: int
    outstanding: int
    bytes_per_s: float
    reach: float
    p50_ns: float
    p99_ns: float
    holds: bool | None = None


@dataclass(frozen=True)
class Stripes:
    """`drives`: names, in the order in which arrays take them. `limited`: phases that a bus limited.

    `apart`: arrays that are not set beside the drives, and why.
    """

    op: str
    chunk_bytes: int
    drives: tuple[str, ...]
    samples: int
    scales: tuple[Scale, ...]
    arrays: tuple[MeasuredArray, ...]
    limited: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()

    def scale(self, number: int) -> Scale:
        """That of so many drives, from 1."""
        return self.scales[number - 1]

    def lock_step(self) -> list[MeasuredArray]:
        """The arrays with one stripe on its way, by number of drives."""
        return sorted((each for each in self.arrays if each.outstanding == 1), key=lambda each: each.number)

    def queued(self) -> dict[int, list[MeasuredArray]]:
        """The others, by how many stripes."""
        arrays = [each for each in self.arrays if each.outstanding > 1]
        arrays.sort(key=lambda each: (each.outstanding, each.number))
        return {depth: [*of] for depth, of in groupby(arrays, lambda each: each.outstanding)}


def stripes_of(intervals: pl.DataFrame, phases: Sequence[Phase]) -> Stripes | None:
    """What a run says of raid0 arrays of whole stripes; None without one, or without its drives alone."""
    found = [phase for phase in phases if _whole_stripes(phase)]
    arrays = [phase for phase in found if _latencies(phase).size >= LEAST]
    if not arrays:
        return None
    largest = max(arrays, key=lambda phase: len(_array_of(phase).members))
    records, array = _records(phases, largest), _array_of(largest)
    drives, chunk = array.members, array.chunk_bytes
    size = min(map(len, records), default=0)
    if len(records) < len(drives) or size < LEAST:
        return None
    scales = tuple(_scale(records, chunk, number) for number in range(1, max(UP_TO, len(drives)) + 1))
    alike = [each for each in arrays if _alike(each, largest)]
    measured = tuple(_measured(phase, scales) for phase in alike)
    limited = tuple(together.limited(intervals, [phase for phase in phases if phase.op == largest.op]))
    apart = (
        *_apart(found, arrays, f"fewer than {LEAST} requests"),
        *_apart(arrays, alike, f"another load than {largest.name}"),
    )
    return Stripes(largest.op or "", chunk, drives, size, scales, measured, limited, apart)


def _apart(phases: Sequence[Phase], others: Sequence[Phase], why: str) -> list[str]:
    """Those of `phases` that are not among `others`."""
    return [f"{phase.name} ({why})" for phase in phases if phase not in others]


def _records(phases: Sequence[Phase], largest: Phase) -> list[Floats]:
    """The latencies of each drive of the largest array alone, in the array's order."""
    alone = {phase.clients[0].host: _latencies(phase) for phase in phases if _is_alone(phase, largest)}
    return [alone[name] for name in _array_of(largest).members if name in alone]


def sentences(intervals: pl.DataFrame, phases: Sequence[Phase]) -> Iterator[str]:
    """What its arrays say, if the run has any."""
    found = stripes_of(intervals, phases)
    if found is not None:
        yield from sentences_of(found)


def sentences_of(found: Stripes) -> Iterator[str]:
    """Shortfall, bracket, prediction, and queued requests."""
    if found.limited:
        yield (
            f"Stripes: {', '.join(found.limited)} was slower than the drives alone, by what they share or "
            "by their state: arrays are not compared with the drives."
        )
        return
    lock_step = [each for each in found.lock_step() if each.number > 1]
    if lock_step:
        yield from _shortfall(found, lock_step)
    most = found.scales[-1]
    least, low, high, worst = (
        f"{100 * max(0.0, 1 - rate / most.mean):.1f}"
        for rate in (most.high, most.whole, most.single, most.low)
    )
    yield (
        f"A stripe over {most.number} drives like these would lose {high} % if they wait for each other at "
        f"each request, {low} % if they catch up: predicted from each drive alone in this run, with a range "
        f"of {least} to {worst} %."
    )
    for depth, arrays in found.queued().items():
        yield from _queued(found, depth, arrays)
    if found.apart:
        yield f"Not compared with the drives alone: {', '.join(found.apart)}."


def _shortfall(found: Stripes, lock_step: Sequence[MeasuredArray]) -> Iterator[str]:
    last = lock_step[-1]
    scale = found.scale(last.number)
    share, around = last.bytes_per_s / scale.mean, math.hypot(last.reach, scale.reach)
    lost = f"{100 * abs(1 - share):.1f} % (± {100 * around * share:.1f}) {'less' if share < 1 else 'more'}"
    outside = dict.fromkeys(str(each.number) for each in lock_step if not each.holds)
    meets = "outside the range expected of its drives" if str(last.number) in outside else _like(last, scale)
    # In one unit.
    unit = min(last.bytes_per_s, scale.mean, scale.low)
    yield (
        f"A stripe over {last.number} drives, one request at a time: "
        f"{format_rate(last.bytes_per_s, unit)}. {last.number} times the mean drive alone is "
        f"{format_rate(scale.mean, unit)}: the stripe has {lost}, {meets}."
    )
    single, whole, low, high = (
        format_rate(rate, unit) for rate in (scale.single, scale.whole, scale.low, scale.high)
    )
    text = (
        f"{_load(found)}; expected of {last.number} drives: {single} if they wait for each other, {whole} if "
        f"they catch up (range {low} to {high})"
    )
    if outside:
        yield (
            f"{text}. Arrays of {', '.join(outside)} drives are not in the range that is expected of "
            "them: drives behave differently in an array (a changed state?), or their slow times do not "
            "meet by chance."
        )
    else:
        numbers = f"{lock_step[0].number} to {last.number}" if len(lock_step) > 1 else str(last.number)
        yield f"{text}. Arrays of {numbers} drives are in the range that is expected of them."


def _load(found: Stripes) -> str:
    return f"{op_name(found.op).capitalize()} in chunks of {format_binary_bytes(found.chunk_bytes)}"


def _like(array: MeasuredArray, scale: Scale) -> str:
    """What its drives do, by what is expected of them: of a rate that both bounds meet, no more than that."""
    ends = (scale.single, scale.single / scale.low), (scale.whole, scale.high / scale.whole)
    waits, catches = (
        abs(math.log(array.bytes_per_s / rate)) <= math.hypot(array.reach, math.log(around))
        for rate, around in ends
    )
    if waits == catches:
        return "within the range expected of its drives"
    how = "wait for each other at each request" if waits else "catch up with each other"
    return f"as expected of drives that {how}"


def _queued(found: Stripes, depth: int, arrays: Sequence[MeasuredArray]) -> Iterator[str]:
    """How arrays scale whose stripes do not wait for one another: to one drive with as many requests."""
    last, one_by_one = arrays[-1].number, found.lock_step()
    rates = [_rate(arrays, 1), _rate(arrays, last), _rate(one_by_one, 1), _rate(one_by_one, last)]
    if last == 1 or not all(rates):
        return
    queued, in_step = rates[1] / rates[0], rates[3] / rates[2]
    yield (
        f"With {depth} requests at a time {last} drives do {format_rate(rates[1])}, {format_factor(queued)} "
        f"one drive with {depth}; with one request at a time it is {format_factor(in_step)}."
    )


def _rate(arrays: Sequence[MeasuredArray], number: int) -> float:
    """The mean of those of so many drives, as the base is measured more than once; 0 without one."""
    rates = [each.bytes_per_s for each in arrays if each.number == number]
    return sum(rates) / len(rates) if rates else 0.0


def _whole_stripes(phase: Phase) -> bool:
    array = phase.array
    return (
        array is not None
        and array.level == "raid0"
        and phase.block_bytes == array.chunk_bytes * len(array.members)
        and len(phase.in_order_ns) > 1
        and bool(phase.outstanding)
    )


def _array_of(phase: Phase) -> ArrayOf:
    assert phase.array is not None, "it is an array's phase"
    return phase.array


def _is_alone(phase: Phase, array: Phase) -> bool:
    """A drive by itself, with chunks of that array, one at a time."""
    return (
        phase.array is None
        and len(phase.clients) == 1
        and len(phase.in_order_ns) > 1
        and phase.block_bytes == _array_of(array).chunk_bytes
        and phase.outstanding == 1
        and (phase.op, phase.is_random) == (array.op, array.is_random)
    )


def _alike(phase: Phase, largest: Phase) -> bool:
    """An array of the first drives, with the same chunks."""
    mine, its = ((each.op, each.is_random, _array_of(each).chunk_bytes) for each in (phase, largest))
    members = _array_of(phase).members
    return mine == its and members == _array_of(largest).members[: len(members)]


def _latencies(phase: Phase) -> Floats:
    """Without the begin: drives come from a pause, in which their buffers drained."""
    latencies = np.array(phase.in_order_ns, dtype=np.float64)
    return latencies[latencies.size // _BEGIN :]


def _scale(drives: Sequence[Floats], chunk_bytes: int, number: int) -> Scale:
    mine = drives[:number]
    rates = [chunk_bytes * 1e9 / float(each.mean()) for each in mine]
    mean = sum(rates) / len(mine) * number
    times = stripe_times(drives, number, 1)
    p50, p99 = (float(np.quantile(times, q)) for q in (0.5, 0.99))
    # Further drives are like those measured, so all of them are in a larger array.
    single, whole = mean_time(drives, number, 1), mean_time(mine, len(mine), whole_records(mine))
    run = float(stripe_times(drives, number, RUN).mean())
    stripe_bytes = number * chunk_bytes * 1e9
    known = math.hypot(*(reach(each) for each in mine)) / len(mine)
    return Scale(
        number, mean, number * min(rates), stripe_bytes / single.value, stripe_bytes / run,
        stripe_bytes / whole.value, stripe_bytes / single.high, stripe_bytes / whole.low, p50, p99, known,
    )  # fmt: skip


def _measured(phase: Phase, scales: Sequence[Scale]) -> MeasuredArray:
    assert phase.block_bytes and phase.outstanding, "it has whole stripes"
    latencies, number = _latencies(phase), len(_array_of(phase).members)
    rate = phase.outstanding * phase.block_bytes * 1e9 / float(latencies.mean())
    around, scale = reach(latencies), scales[number - 1]
    meets = scale.low <= rate * (1 + around) and rate * (1 - around) <= scale.high
    holds = meets if phase.outstanding == 1 else None
    p50, p99 = (float(np.quantile(latencies, q)) for q in (0.5, 0.99))
    return MeasuredArray(phase.name, number, phase.outstanding, rate, around, p50, p99, holds)
