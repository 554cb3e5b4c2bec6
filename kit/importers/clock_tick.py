"""The tick of the clock that measured latencies, from the latencies as the source has them, in whole ns.

It is the unit of the source or its last digit, or the tick of a coarser clock behind it: 1.024 us, 40 ns
(25 MHz), 279.365 ns (ACPI PM), also where its multiples are off by some nanoseconds. Stored as `tick_ns` with
an import: bands are not looked for below it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kit.core.clock import JITTER, ODD_TICKS_NS, TICKS_NS
from kit.importers.histogram_accumulator import IntArray

Floats = npt.NDArray[np.float64]
# Latencies of a block that are looked at.
_MOST = 4096
# A tick that so many different latencies would fit by chance more often than this is none.
_CHANCE, _CHANCE_OF_REST = 0.01, 0.05
# Of fewer I/Os no band is said (reports.statistics.band_detection).
_FEWEST = 30
# A tick that is no whole number: what two readings of a clock, each rounded to whole ns, may add.
_ROUNDED_NS = 2
_LEAST_TICK_NS = 4 * _ROUNDED_NS
_BY_SEARCH = 1e-6
# Of finer ticks, jitter is rounding.
_LEAST_JITTERED = 10 * _ROUNDED_NS
# Multiples beyond tell no more, and need a finer search.
_MOST_TICKS = 300
_MOST_VALUES = 128


def tick_ns(latency_ns: IntArray, unit_ns: int = 1) -> float:
    """The tick in ns, at least 1; `unit_ns`: of the numbers in the source, which may have decimals.

    1, too, where the latencies are too few to tell.
    """
    values = np.unique(latency_ns[:_MOST])
    values = values[values > 0]
    if latency_ns.size < _FEWEST or values.size < 2:
        return 1.0
    common = int(np.gcd.reduce(values))
    base = _decade(unit_ns, common)
    # Decimal digits first: of 6 and 8 us alone the tick is 1 us, not 2.
    digits = _decade(10**9, common) // base
    for factor, chance in ((digits, _CHANCE), (common // base // digits, _CHANCE_OF_REST)):
        if factor > 1 and (values.size - 1) * math.log(factor) > -math.log(chance):
            base *= factor
    exact = float(base) if base > 1 else _fitted(values)
    return exact if exact != base else _jittered(values, base)


def _jittered(values: IntArray, base: int) -> float:
    """The largest tick whose multiples the latencies, in steps of `base`, are off by little; else `base`.

    Around 0 the latencies are off by no more than around its other multiples: short ones have no tick.
    """
    for tick in TICKS_NS:
        multiples = np.rint(values / tick)
        off = np.abs(values - tick * multiples)
        teeth = np.unique(multiples[multiples > 0]).size
        jitter = float(off[multiples > 0].max(initial=0.0))
        if tick < _LEAST_JITTERED * base or not 1 < teeth < values.size or jitter > JITTER * tick:
            continue
        by_chance = (2 * math.ceil(jitter / base) + 1) * base / tick
        if off.max() <= 2 * jitter + _ROUNDED_NS and teeth * math.log(by_chance) < math.log(_CHANCE):
            return tick
    return float(base)


def _decade(most: int, common: int) -> int:
    """The largest of `most`, a power of ten, and smaller ones that divides `common`."""
    while common % most:
        most //= 10
    return most


def _fitted(values: IntArray) -> float:
    """A tick that is no whole number of ns; 1 where the latencies have none."""
    gaps = np.diff(values)
    gaps = gaps[gaps > _ROUNDED_NS]
    least = int(gaps.min()) if gaps.size else 0
    values = values[values <= _MOST_TICKS * least]
    if least < _LEAST_TICK_NS or not values.size:
        return 1.0
    values = values[:: -(-values.size // _MOST_VALUES)]
    step = _ROUNDED_NS / 4 * least / float(values[-1])
    searched = np.arange(least - _ROUNDED_NS, least + _ROUNDED_NS + step, step)
    found = float(searched[int(_off(values, searched).argmin())])
    chances = {**dict.fromkeys(ODD_TICKS_NS, _CHANCE), found: _BY_SEARCH}
    # The largest first: what fits 279 ns fits a quarter of it.
    for tick in sorted(chances, reverse=True):
        held = np.unique(np.rint(values / tick)).size
        fits = float(_off(values, np.array([tick]))[0]) <= _ROUNDED_NS
        if fits and held * math.log((2 * _ROUNDED_NS + 1) / tick) < math.log(chances[tick]):
            return tick
    return 1.0


def _off(values: IntArray, ticks: Floats) -> Floats:
    """How far, at most, `values` are from a multiple of each of `ticks`, in ns."""
    off: Floats = np.abs(values - ticks[:, None] * np.rint(values / ticks[:, None])).max(axis=1)
    return off
