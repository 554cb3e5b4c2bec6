"""Devices that a load went to all at once, beside each alone: do they share something that limits them?

That is a bus, a host bus adapter, a controller or a CPU. Rates of a phase are over the time from the first
I/O of any device to the last. How well a rate is known: each device has its I/Os one after another, so the
relative error of n of them is that of their mean latency, its coefficient of variation / sqrt(n).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from kit.core.units import format_decimal_bytes
from kit.store.manifest import Testbed
from kit.store.phase import ClientRow, Phase
from kit.store.tables import DEVICE

# Devices that share nothing are not slower together.
AS_ALONE_MIN = 0.97
_Z_95 = 1.96


@dataclass(frozen=True)
class Rate:
    """Bytes a second of a device, and the standard error of that."""

    value: float
    error: float


def sentences(latency: pl.DataFrame, phases: Sequence[Phase], testbed: Testbed) -> Iterator[str]:
    """One for each phase on several devices whose load each of them had alone, too."""
    return (
        _sentence(phase, before, now, _shared(phase, testbed))
        for phase, before, now in _compared(latency, phases)
    )


def limited(latency: pl.DataFrame, phases: Sequence[Phase]) -> list[str]:
    """Names of the phases whose devices were slower together than alone: they share what limits them."""
    compared = list(_compared(latency, phases))
    shares = [(phase.name, *_share(before, now)) for phase, before, now in compared]
    return [name for name, share, reach in shares if share + reach < AS_ALONE_MIN]


def _compared(
    latency: pl.DataFrame, phases: Sequence[Phase]
) -> Iterator[tuple[Phase, dict[str, Rate], dict[str, Rate]]]:
    """Each such phase, with the rates of its devices alone and together."""
    on_devices = [phase for phase in phases if phase.block_bytes and phase.on_devices]
    for phase in on_devices:
        alone = _alone(phase, on_devices)
        if len(phase.clients) < 2 or not all(row.host in alone for row in phase.clients):
            continue
        before = {row.host: _rate(latency, alone[row.host], row.host) for row in phase.clients}
        now = {row.host: _rate(latency, phase, row.host) for row in phase.clients}
        if all(rate.value for rate in (*before.values(), *now.values())):
            yield phase, before, now


def _share(before: dict[str, Rate], now: dict[str, Rate]) -> tuple[float, float]:
    """The rate together as a share of that alone, and half of its 95 % range."""
    found, wanted = (sum(rate.value for rate in rates.values()) for rates in (now, before))
    errors = [rate.error / found for rate in now.values()] + [rate.error / wanted for rate in before.values()]
    return found / wanted, _Z_95 * found / wanted * math.hypot(*errors)


def _sentence(phase: Phase, before: dict[str, Rate], now: dict[str, Rate], shared: str) -> str:
    found, wanted = (sum(rate.value for rate in rates.values()) for rates in (now, before))
    share, reach = _share(before, now)
    moved = {"read": "read", "write": "wrote"}.get(phase.op or "", "moved")
    text = (
        f"{phase.name}: all {len(now)} devices at once {moved} {_per_s(found)}, {share:.1%} "
        f"(± {100 * reach:.1f}) of what each does alone, {_per_s(wanted)} together"
    )
    if share + reach < AS_ALONE_MIN:
        slowest = min(now, key=lambda name: now[name].value / before[name].value)
        return (
            f"{text}. They share something that limits them, {shared}. "
            f"{slowest} fell most, from {_per_s(before[slowest].value)} to {_per_s(now[slowest].value)}."
        )
    if share - reach < AS_ALONE_MIN:
        text += (
            f". These are too few I/Os to tell whether that is less than {AS_ALONE_MIN:.0%}: measure longer"
        )
    return f"{text}."


def _shared(phase: Phase, testbed: Testbed) -> str:
    """What the devices share as the testbed has it, or what that may be."""
    devices = {row.host for row in phase.clients}
    buses = [each.bus for each in testbed.devices if each.name in devices]
    named = dict.fromkeys(f"{bus.name} of {_per_s(bus.per_s)}" for bus in buses if bus)
    if not named:
        return "such as a bus, a controller or the CPU"
    return f"which the testbed has: the {'bus' if len(named) == 1 else 'buses'} {' and '.join(named)}"


def _rate(latency: pl.DataFrame, phase: Phase, device: str) -> Rate:
    """Over the time of all devices of the phase; 0 if it is not known."""
    row: ClientRow = next(each for each in phase.clients if each.host == device)
    begun = [each.first_ns for each in phase.clients if each.first_ns is not None]
    ended = [each.last_ns for each in phase.clients if each.last_ns is not None]
    seconds = (max(ended) - min(begun)) / 1e9 if begun and ended else 0.0
    if seconds <= 0 or not row.ios:
        return Rate(0.0, 0.0)
    value = row.ios * (phase.block_bytes or 0) / seconds
    return Rate(value, value * _variation(latency, phase.name, device) / math.sqrt(row.ios))


def _variation(latency: pl.DataFrame, phase: str, device: str) -> float:
    """Standard deviation / mean of the latencies, by the middles of their bins; 1 if there are none."""
    mine = (pl.col("phase") == phase) & (pl.col("layer") == DEVICE) & (pl.col("host") == device)
    middle, count = (pl.col("lo_ns") + pl.col("hi_ns")) / 2, pl.col("count")
    of_device = latency.filter(mine & (count > 0))
    if of_device.is_empty():
        return 1.0
    ios, total, squares = of_device.select(
        count.sum(), (middle * count).sum().alias("sum"), (middle**2 * count).sum().alias("squares")
    ).row(0)
    mean = total / ios
    return float(math.sqrt(max(0.0, squares / ios - mean**2)) / mean)


def _alone(phase: Phase, others: Sequence[Phase]) -> dict[str, Phase]:
    """The phase of each device alone with the same load."""
    return {
        other.clients[0].host: other
        for other in others
        if len(other.clients) == 1 and _load(other) == _load(phase)
    }


def _load(phase: Phase) -> tuple[object, ...]:
    return phase.target, phase.op, phase.job, phase.block_bytes, phase.outstanding, phase.is_random


def _per_s(bytes_per_s: float) -> str:
    return f"{format_decimal_bytes(round(bytes_per_s))}/s"
