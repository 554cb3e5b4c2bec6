"""Bands and modes of latency: no teeth of a clock, no step in time, a cause where it was measured."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.core.bins import IntArray
from kit.importers.clock_tick import tick_ns
from kit.store.latency import Latency
from reports.analysis.findings import findings
from reports.statistics import band_detection, levels
from reports.statistics.quantiles import Floats
from tests.reports import synthetic
from tests.truth.trials import Trial

_SECONDS = 60
_MEDIANS_US = (1.5, 6.0, 12.0, 20.0, 40.0, 80.0)
_TICKS_NS = {"1 us": 1000.0, "1.024 us": 1024.0, "ACPI PM, 279 ns": 279.3651, "40 ns": 40.0, "1 ns": 1.0}
# Ticks, and the standard deviation by which their multiples are off.
_OFF = ((1e3, 1), (1e3, 5), (1e3, 8), (1024.0, 3), (1e6, 5), (1e6, 5000))
_PROMISE = 'docs/formats/results.md, "Bands"'
Draw = np.random.Generator


def _one_mode(draw: Draw, number: int = 5000, sigma: float = 0.1) -> Floats:
    median_ns = draw.choice(_MEDIANS_US) * 1e3
    made: Floats = median_ns * np.exp(sigma * draw.standard_normal(number))
    return made


def _read_by(latency: Floats, tick: float) -> IntArray:
    """As a clock with that tick has it, in whole ns."""
    return np.rint(np.rint(latency / tick) * tick).astype(np.int64)


def _cells(time_ns: IntArray, latency_ns: IntArray) -> pl.DataFrame:
    return synthetic.binned(
        time_ns, latency_ns, phase="read", layer="nfs-server", host="lab", op="read", tier="dram"
    )


def _bands(latency_ns: IntArray, known: bool) -> int:
    """How many bands are found; `known`: as by `hsp import`, from the latencies one by one."""
    frame = _cells(np.zeros_like(latency_ns), latency_ns)
    bins = frame.select("lo_ns", "hi_ns", "count").sort("lo_ns").rows()
    return len(band_detection.find(bins, tick_ns(latency_ns) if known else None).bands)


def _teeth(tick: float, known: bool, draw: Draw, sigma: float | None = None) -> bool:
    """`sigma`: of a narrow mode that is anywhere from 1.5 to 100 us."""
    if sigma is None:
        return _bands(_read_by(_one_mode(draw), tick), known) > 1
    median_ns = 1e3 * np.exp(draw.uniform(np.log(1.5), np.log(100)))
    return _bands(_read_by(median_ns * np.exp(sigma * draw.standard_normal(5000)), tick), known) > 1


def _off(latency: Floats, tick: float, jitter_ns: float, draw: Draw) -> IntArray:
    """As a clock with that tick has it, each off by some nanoseconds."""
    read = _read_by(latency, tick) + jitter_ns * draw.standard_normal(latency.size)
    return np.maximum(np.rint(read), 1).astype(np.int64)


def _teeth_off(tick: float, jitter_ns: float, known: bool, sigma: float, draw: Draw) -> bool:
    """One mode, anywhere from 1.5 to 100 ticks of a clock."""
    median_ns = tick * np.exp(draw.uniform(np.log(1.5), np.log(100)))
    made = median_ns * np.exp(sigma * draw.standard_normal(5000))
    return _bands(_off(made, tick, jitter_ns, draw), known) > 1


def _two_off(tick: float, jitter_ns: float, known: bool, draw: Draw) -> bool:
    """Two modes, six standard deviations and at least five ticks apart."""
    low = np.maximum(_one_mode(draw, 2500) * tick / 1e3, 6 * tick)
    both = np.concatenate([low, 1.85 * _one_mode_at(draw, low)])
    return _bands(_off(both, tick, jitter_ns, draw), known) == 2


def _two_narrow(known: bool, draw: Draw) -> bool:
    """Two narrow modes of a clock of nanoseconds, anywhere from 1.5 to 100 us, ten deviations apart."""
    at = np.exp(draw.uniform(np.log(1.5e3), np.log(1e5)))
    both = np.concatenate([at * np.exp(0.02 * draw.standard_normal(2500) + shift) for shift in (0, 0.2)])
    return _bands(np.rint(both).astype(np.int64), known) == 2


def _two_are_found(tick: float, known: bool, draw: Draw) -> bool:
    """Two modes, six standard deviations and at least five ticks apart."""
    low = np.maximum(_one_mode(draw, 2500), 6 * tick)
    return _bands(_read_by(np.concatenate([low, 1.85 * _one_mode_at(draw, low)]), tick), known) == 2


def _one_mode_at(draw: Draw, like: Floats) -> Floats:
    made: Floats = np.median(like) * np.exp(0.1 * draw.standard_normal(like.size))
    return made


def _in_time(kind: str, draw: Draw) -> str:
    """What is said of 160 and 240 us: "modes", "step" or "levels"."""
    number = int(draw.choice([500, 5000]))
    part = draw.uniform(0.1, 0.9)
    at = np.sort(draw.random(number))
    if kind == "step":
        slow = at > part
    else:
        slow = _sticky(draw, float(kind), part, number)
    latency = np.where(slow, 240e3, 160e3) * np.exp(0.05 * draw.standard_normal(number))
    cells = _cells((at * _SECONDS).astype(np.int64) * 10**9, latency.astype(np.int64))
    sums = cells.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns").rows()
    found = levels.find(cells, band_detection.find(sums).borders_ns)
    return "modes" if found is None else "step" if found.changes == 1 else "levels"


def _sticky(draw: Draw, stays: float, part: float, number: int) -> npt.NDArray[np.bool_]:
    """Which I/Os are slow; each is like the one before it with the probability `stays`."""
    fresh = draw.random(number) >= stays
    fresh[0] = True
    drawn = draw.random(number) < part
    last = np.maximum.accumulate(np.where(fresh, np.arange(number), 0))
    return drawn[last]


def _cause(modes_us: Callable[[Draw], list[float]], shares: list[float], draw: Draw) -> bool:
    """Whether the finding on reads from DRAM names paths of the code."""
    counts = draw.multinomial(4000, shares)
    latency = np.concatenate(
        [
            at * 1e3 * np.exp(0.01 * draw.standard_normal(n))
            for at, n in zip(modes_us(draw), counts, strict=True)
        ]
    )
    frame = _cells(draw.integers(0, 12, latency.size) * 10**9, latency.astype(np.int64))
    manifest = synthetic.manifest(frame) | {"expect": []}
    summary = synthetic.summary.summarise(Latency.of(frame), synthetic.parsed(manifest))
    listed = findings(Latency.of(frame), synthetic.parsed(manifest), summary)
    return any("in the lab they are" in each.text for each in listed)


def _coincidence(draw: Draw, feed_s: float, *, caused: bool = False) -> bool:
    """Whether an event stands beside the one slow read; feeds of the L2ARC take `feed_s` of each 20 s.

    `caused`: the read is slow in the middle of a feed, else at any time.
    """
    second, shift = 10**9, draw.uniform(0, 20)
    feeds = [
        {"time_ns": int(at * second), "end_ns": int((at + feed_s) * second), "kind": "l2arc-feed", "text": ""}
        for at in np.arange(-20 + shift, 120, 20)
    ]
    at_s = 20 + shift + feed_s / 2 if caused else draw.uniform(0, 120)
    time_ns = np.append(draw.integers(0, 1200, 4000), int(at_s * 10)) * (second // 10)
    latency_ns = np.append(5e5 * np.exp(0.1 * draw.standard_normal(4000)), 5e7).astype(np.int64)
    frame = _cells(time_ns, latency_ns)
    manifest = synthetic.manifest(frame, 120) | {"expect": []}
    of_read = manifest["phases"][0]
    of_read["events"] = [each for each in feeds if each["end_ns"] >= 0]
    of_read["interval_ns"] = second // 10
    summary = synthetic.summary.summarise(Latency.of(frame), synthetic.parsed(manifest))
    listed = findings(Latency.of(frame), synthetic.parsed(manifest), summary)
    (text,) = (each.text for each in listed if each.kind == "outlier")
    return "while there was" in text


def _elsewhere(draw: Draw) -> list[float]:
    return sorted(np.exp(draw.uniform(np.log(10), np.log(1000), 3)).tolist())


TRIALS: list[Trial] = [
    *(
        Trial(
            claim=f"several bands, {'imported' if known else 'by the counts alone'}",
            data=f"one mode of 1.5 to 80 us, ticks of {name}",
            says=functools.partial(_teeth, tick, known),
            at_most=0.01, cases=1000, few=15, promise=_PROMISE,
        )
        for known in (True, False)
        for name, tick in _TICKS_NS.items()
    ),
    *(
        Trial(
            claim="several bands, by the counts alone",
            data=f"one narrow mode (sigma {sigma}) of 1.5 to 100 us, ticks of {name}",
            says=functools.partial(_teeth, tick, False, sigma=sigma),
            at_most=0.01, cases=200, few=8 * (name == "1 us"), promise=_PROMISE,
        )
        for sigma in (0.01, 0.02, 0.03)
        for name, tick in _TICKS_NS.items()
    ),
    *(
        Trial(
            claim=f"two bands, {'imported' if known else 'by the counts alone'}",
            data=f"two modes, ticks of {name}",
            says=functools.partial(_two_are_found, tick, known),
            at_least=0.95, cases=500, few=6, promise=_PROMISE,
        )
        for known in (True, False)
        for name, tick in _TICKS_NS.items()
    ),
    *(
        Trial(
            claim=f"several bands, {'imported' if known else 'by the counts alone'}",
            data=f"one mode (sigma {sigma}), ticks of {tick:g} ns that are off by {jitter:g} ns",
            says=functools.partial(_teeth_off, tick, jitter, known, sigma),
            at_most=0.01, cases=300, few=8 * (jitter == 5 and sigma == 0.1), promise=_PROMISE,
        )
        for known in (True, False)
        for tick, jitter in _OFF
        for sigma in (0.02, 0.1)
    ),
    *(
        Trial(
            claim=f"two bands, {'imported' if known else 'by the counts alone'}",
            data=f"two modes, ticks of {tick:g} ns that are off by {jitter:g} ns",
            says=functools.partial(_two_off, tick, jitter, known),
            at_least=0.95, cases=300, few=4 * (jitter == 5), promise=_PROMISE,
        )
        for known in (True, False)
        for tick, jitter in _OFF
    ),
    *(
        Trial(
            claim=f"two bands, {'imported' if known else 'by the counts alone'}",
            data="two narrow modes (sigma 0.02) of 1.5 to 100 us, 20 % apart, a clock of 1 ns",
            says=functools.partial(_two_narrow, known),
            at_least=0.95, cases=300, few=4, promise=_PROMISE,
        )
        for known in (True, False)
    ),
    *(
        Trial(
            claim="levels in time",
            data=f"two modes at the same times, each I/O like the one before with {stays}",
            says=lambda draw, stays=stays: _in_time(stays, draw) != "modes",  # type: ignore[misc]
            at_most=limit, cases=500, few=few, promise=_PROMISE,
        )
        for stays, limit, few in (("0", 0.01, 10), ("0.6", 0.02, 10))
    ),
    Trial(
        claim="a step", data="160 us, then 240 us, 10 to 90 % of the time each",
        says=lambda draw: _in_time("step", draw) == "step",
        at_least=0.98, cases=500, few=10, promise=_PROMISE,
    ),
    Trial(
        claim="a cause of DRAM's modes", data="three modes from 10 to 1000 us",
        says=functools.partial(_cause, _elsewhere, [0.08, 0.89, 0.03]),
        at_most=0.01, cases=200, few=4, promise="docs/decisions/0022-modes-in-the-lab.md",
    ),
    Trial(
        claim="a cause of DRAM's modes", data="those of the lab",
        says=functools.partial(_cause, lambda draw: [4.27, 5.7, 8.27], [0.08, 0.89, 0.03]),
        at_least=0.95, cases=200, few=4, promise="docs/decisions/0022-modes-in-the-lab.md",
    ),
    *(
        # The read may lie anywhere in its interval of 100 ms, and took 50 ms.
        Trial(
            claim="an event stands beside an outlier", data=f"{feed_s:g} of 20 s have it, it any time",
            says=functools.partial(_coincidence, feed_s=feed_s), at_most=limit, cases=400, few=10,
            promise="docs/report.md",
        )
        for feed_s, limit in ((1, 0.06), (3, 0.16), (5, 0.0), (16, 0.0))
    ),
    Trial(
        claim="an event stands beside an outlier", data="1 of 20 s has it, where the outlier is",
        says=functools.partial(_coincidence, feed_s=1, caused=True), at_least=1.0, cases=100, few=5,
        promise="docs/report.md",
    ),
]  # fmt: skip
