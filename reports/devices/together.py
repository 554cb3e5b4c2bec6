"""Devices that a load went to all at once, beside each alone: do they share something that limits them?

That is a bus, a host bus adapter, a controller or a CPU. Rates of a phase are over the time from the first
I/O of any device to the last. How exactly a phase tells a rate comes from batches of its time, for I/Os
depend on those before. A phase alone and one together are one realisation each: a device may have changed its
state between them. Where each load is there in several phases, their scatter decides
(reports.statistics.ratios).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from kit.core.units import format_factor, format_rate
from kit.store.manifest import Testbed
from kit.store.phase import ClientRow, Phase
from kit.store.tables import DEVICE
from reports.statistics import batch_means
from reports.statistics.ratios import RatioRange, Realisation, ratio

# Devices that share nothing are not slower together.
AS_ALONE_MIN = 0.97


@dataclass(frozen=True)
class Compared:
    """Phases on the same devices with the same load; bytes a second of each device, `before` alone."""

    phases: Sequence[Phase]
    share: RatioRange
    before: Mapping[str, float]
    now: Mapping[str, float]

    @property
    def is_slower(self) -> bool | None:
        """In these phases; None where that is open."""
        return self.share.inside(0, AS_ALONE_MIN, of_this_run=True)


def sentences(intervals: pl.DataFrame, phases: Sequence[Phase], testbed: Testbed) -> Iterator[str]:
    """One for the phases on several devices whose load each of them had alone, too.

    `intervals`: `phase`, `layer`, `time_ns` and `count` (kit.store.latency).
    """
    return (_sentence(each, _shared(each.phases[0], testbed)) for each in compared(intervals, phases))


def limited(intervals: pl.DataFrame, phases: Sequence[Phase]) -> list[str]:
    """Names of the phases whose devices were slower together than alone."""
    return [phase.name for each in compared(intervals, phases) if each.is_slower for phase in each.phases]


def compared(intervals: pl.DataFrame, phases: Sequence[Phase]) -> Iterator[Compared]:
    on_devices = [phase for phase in phases if phase.block_bytes and phase.on_devices]
    groups: dict[tuple[object, ...], list[Phase]] = {}
    for phase in on_devices:
        groups.setdefault((_load(phase), frozenset(row.host for row in phase.clients)), []).append(phase)
    for (load, hosts), at_once in groups.items():
        assert isinstance(hosts, frozenset)
        alone = [groups.get((load, frozenset([host])), []) for host in sorted(hosts)]
        rounds = [*zip(*alone, strict=False)]
        if len(hosts) < 2 or not rounds:
            continue
        now, before = [_rates([phase]) for phase in at_once], [_rates(each) for each in rounds]
        if all(rate for rates in (*now, *before) for rate in rates.values()):
            sides = [
                [_figure(intervals, of, rates) for of, rates in zip(each, known, strict=True)]
                for each, known in ((rounds, before), ([[phase] for phase in at_once], now))
            ]
            yield Compared(at_once, ratio(sides[0], sides[1]), _mean(before), _mean(now))


def _rates(phases: Sequence[Phase]) -> dict[str, float]:
    """Bytes a second of each device over the time of all devices of its phase; 0 if it is not known."""
    return {row.host: _rate(phase, row) for phase in phases for row in phase.clients}


def _rate(phase: Phase, row: ClientRow) -> float:
    begin, end = _span(phase)
    return row.ios * (phase.block_bytes or 0) / (end - begin) * 1e9 if end > begin else 0.0


def _span(phase: Phase) -> tuple[int, int]:
    begun = [each.first_ns for each in phase.clients if each.first_ns is not None]
    ended = [each.last_ns for each in phase.clients if each.last_ns is not None]
    return (min(begun), max(ended)) if begun and ended else (0, 0)


def _mean(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {host: sum(rates[host] for rates in rounds) / len(rounds) for host in rounds[0]}


def _figure(intervals: pl.DataFrame, phases: Sequence[Phase], rates: Mapping[str, float]) -> Realisation:
    """The sum of the rates, and how exactly the I/Os of its phases tell it."""
    total, errors = sum(rates.values()), []
    for phase in phases:
        begin, end = _span(phase)
        width = phase.interval_ns
        # Whole intervals alone: the first and the last are in part before and after the load.
        first, last = -(-(begin - phase.start_ns) // width), (end - phase.start_ns) // width
        span = phase.start_ns + first * width, phase.start_ns + last * width
        cells = intervals.filter(
            (pl.col("phase") == phase.name)
            & (pl.col("layer") == DEVICE)
            & pl.col("time_ns").is_between(*span, "left")
        )
        figure = batch_means.rate(cells, span, width)
        if figure is None or figure.reach is None:
            return Realisation(math.log(total), None)
        errors.append(figure.reach * sum(rates[row.host] for row in phase.clients) / total)
    return Realisation(math.log(total), math.hypot(*errors))


def _sentence(of: Compared, shared: str) -> str:
    found, wanted = (sum(rates.values()) for rates in (of.now, of.before))
    moved = {"read": "read", "write": "wrote"}.get(of.phases[0].op or "", "moved")
    words = of.share.words("phase" if of.share.decides else "run")
    text = (
        f"{', '.join(phase.name for phase in of.phases)}: all {len(of.now)} devices at once {moved} "
        f"{format_rate(found)}, {format_factor(of.share.value)} what each does alone, {format_rate(wanted)} "
        f"together ({words})"
    )
    if of.is_slower is None:
        less = f"Whether that is less than {format_factor(AS_ALONE_MIN, 2)} is open"
        return f"{text}. {less}: measure longer, or in more phases."
    if not of.is_slower:
        return f"{text}."
    slowest = min(of.now, key=lambda name: of.now[name] / of.before[name])
    why = f"They share something that limits them, {shared}"
    if not of.share.decides:
        why = (
            f"In this run they were slower: they share something that limits them, {shared}, or a device had "
            "changed its state; several phases of each load tell"
        )
    before, now = (format_rate(each[slowest]) for each in (of.before, of.now))
    return f"{text}. {why}. {slowest} fell most, from {before} to {now}."


def _shared(phase: Phase, testbed: Testbed) -> str:
    """What the devices share as the testbed has it, or what that may be."""
    devices = {row.host for row in phase.clients}
    buses = [each.bus for each in testbed.devices if each.name in devices]
    named = dict.fromkeys(f"{bus.name} of {format_rate(bus.per_s)}" for bus in buses if bus)
    if not named:
        return "such as a bus, a controller or the CPU"
    return f"which the testbed has: the {'bus' if len(named) == 1 else 'buses'} {' and '.join(named)}"


def _load(phase: Phase) -> tuple[object, ...]:
    return phase.target, phase.op, phase.job, phase.block_bytes, phase.outstanding, phase.is_random
