"""What is said of devices together, of arrays, and of what a faster log device saves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from numpy.random import Generator as Random

from kit.store.manifest import Manifest
from kit.store.parts.split import PhaseSplit, SplitRow
from kit.store.phase import Phase
from kit.store.tables import LATENCY_SCHEMA
from reports.devices import stripes, together
from reports.features.split import judge as split
from reports.statistics.quantiles import Floats
from tests.truth.made_up import MS, SECOND, phase_of, state_of
from tests.truth.trials import Trial


def _device_phase(name: str, hosts: Sequence[str], latency_ms: Floats, start_ns: int, **more: Any) -> Phase:
    """`latency_ms`: of the I/Os of each of its hosts, one after the other."""
    end_ns = start_ns + int(latency_ms.sum() * MS)
    ios = len(latency_ms)
    clients = [
        {
            "host": host,
            "ios": ios,
            "first_ns": start_ns,
            "last_ns": end_ns,
            "skew_ns": 0,
            "clock_offset_ns": 0,
            "clock_error_ns": 0,
        }
        for host in hosts
    ]
    values = {
        "target": "device:data", "op": "write", "job": "w.fio", "block_bytes": 1 << 17, "outstanding": 1,
        "is_random": True, "clients": clients, **more,
    }  # fmt: skip
    return phase_of(name, start_ns, end_ns, 100 * MS, **values)


def _together(
    random: Random, lasts: float, spread: float, moment: float, sides: int, shared: float = 1
) -> together.Compared:
    phases, frames = [], []
    hosts = [f"d{number}" for number in range(4)]
    loads = [([host], 1.0) for host in hosts] + [(hosts, shared)]
    for number, (mine, factor) in enumerate(loads * sides):
        level = moment * random.standard_normal() + state_of(random, 4000, lasts, spread)
        latency_ms = 2 * factor * np.exp(level + 0.1 * random.standard_normal(4000))
        phase = _device_phase(f"p{number}", mine, latency_ms, number * 60 * SECOND)
        phases.append(phase)
        time_ns = phase.start_ns + (np.cumsum(latency_ms) * MS).astype(np.int64) // (100 * MS) * 100 * MS
        frames.append(
            pl.DataFrame({"phase": phase.name, "layer": "device", "time_ns": time_ns, "count": len(mine)})
        )
    [found] = together.compared(pl.concat(frames), phases)
    return found


def _shares(*given: Any) -> Callable[[Random], bool]:
    """That they share something, without a doubt."""

    def says(random: Random) -> bool:
        found = _together(random, *given)
        return bool(found.is_slower and found.share.decides)

    return says


def _slower(*given: Any) -> Callable[[Random], bool]:
    return lambda random: bool(_together(random, *given).is_slower)


def _drives(random: Random, number: int, apart: float) -> list[Floats]:
    levels = 2 * np.exp(apart * random.standard_normal(number))
    return [level * random.gamma(4.0, 0.25, 400) for level in levels]


def _stripes(records: Sequence[Floats], in_array: Sequence[Floats]) -> stripes.Stripes:
    """What is said of drives with such latencies (ms) alone and in an array, which waits for the slowest."""
    phases = [
        _device_phase(f"alone-d{n}", [f"d{n}"], each, 0, in_order_ns=[int(ms * MS) for ms in each])
        for n, each in enumerate(records)
    ]
    waited = np.maximum.reduce(in_array)
    members = [f"d{number}" for number in range(len(records))]
    of = {"array": {"level": "raid0", "chunk_bytes": 1 << 17, "members": members}, "target": "array"}
    in_order = {"in_order_ns": [int(ms * MS) for ms in waited], "block_bytes": len(records) << 17}
    array = _device_phase("array", ["array"], waited, 0, **of, **in_order)
    found = stripes.stripes_of(pl.DataFrame(schema=LATENCY_SCHEMA), [*phases, array])
    assert found, "an array and its drives"
    return found


def _collecting(random: Random, number: int, in_turn: bool) -> list[Floats]:
    """Drives that take 5 times as long in a sixth of the time, where they collect garbage."""
    cycle, slow = 60, 10
    begins = np.arange(number) * slow if in_turn else random.integers(0, cycle, number)
    slows = (np.arange(600) + begins[:, None]) % cycle < slow
    return list(np.where(slows, 5.0, 1.0) * np.exp(0.1 * random.standard_normal((number, 600))))


def _outside(random: Random, in_turn: bool) -> bool:
    """Whether the array is said to be outside of what six equal drives alone do."""
    with patch.object(stripes, "UP_TO", 6):
        found = _stripes(_collecting(random, 6, False), _collecting(random, 6, in_turn))
    text = " ".join(stripes.sentences_of(found))
    assert ("changed state" in text) == ("do not meet by chance" in text), text
    return "outside" in text


def _loss(random: Random, apart: float) -> bool:
    """Whether the stated range of 32 drives, each like one of 7, holds what they lose in lock step."""
    records = _drives(random, 7, apart)
    found = _stripes(records, [random.permutation(each) for each in records])
    most = found.scales[-1]
    low, high = (max(0.0, 1 - rate / most.mean) for rate in (most.high, most.low))
    # Of other requests of the same drives: each stripe has 7 of them and 25 that are like one of them.
    again = np.array([record.mean() * random.gamma(4.0, 0.25, 4000) for record in records])
    which = np.hstack([np.tile(np.arange(7), (4000, 1)), random.integers(0, 7, (4000, 25))])
    stripe = again[which, random.integers(0, 4000, which.shape)].max(axis=1)
    mean = 32 * float(np.mean(1 / again.mean(axis=1)))
    return bool(low - 0.0005 <= 1 - 32 / stripe.mean() / mean <= high + 0.0005)


_SHARE = "devices share something that limits them"
_DEVICES = [
    *(
        Trial(
            _SHARE,
            f"nothing shared, {name}",
            _shares(*given),
            at_most=0.025,
            cases=60,
            few=2 * (given[-1] == 1 and not given[0]),
            promise="docs/verdict.md, stripes",
        )
        for name, given in {
            "one phase of each, independent I/Os": (0, 0, 0, 1),
            "one phase of each, AR 0.99": (100, 0.2, 0, 1),
            "one phase of each, moments differ by 5 %": (0, 0, 0.05, 1),
            "3 phases of each, moments differ by 5 %": (0, 0, 0.05, 3),
        }.items()
    ),
    Trial(
        _SHARE,
        "3 phases of each, together x1.3, moments differ by 2 %",
        _shares(0, 0, 0.02, 3, 1.3),
        at_least=0.95,
        cases=20,
    ),
    Trial(
        "devices were slower together in this run",
        "AR 0.99, nothing shared",
        _slower(100, 0.2, 0, 1),
        at_most=0.05,
        cases=60,
    ),
    *(
        Trial(
            "32 drives would lose a to b",
            f"7 drives that differ by {apart:.0%}, lock step",
            functools.partial(_loss, apart=apart),
            at_least=least / 40,
            cases=40,
            promise="docs/verdict.md, stripes",
        )
        for apart, least in ((0, 35), (0.03, 36), (0.1, 36))
    ),
    Trial(
        "an array is outside of what its drives alone say",
        "6 drives collect garbage in a sixth of the time, each when it will",
        functools.partial(_outside, in_turn=False),
        at_most=0.1,
        cases=100,
        promise="docs/verdict.md, stripes",
    ),
    Trial(
        "an array is outside of what its drives alone say, or their slow times do not meet by chance",
        "they collect it in turn, so that one always does",
        functools.partial(_outside, in_turn=True),
        at_least=0.9,
        cases=100,
        promise="docs/verdict.md, stripes",
    ),
]


def _saves(random: Random) -> bool:
    """Whether what a device without any time saves lies within what is stated."""
    nfs, software, device = random.uniform(2, 50), random.uniform(0, 300), random.uniform(20, 8000)
    before = device * random.choice([0.0, random.uniform(0, 2)])
    timer = random.choice([0.0, 0.05, 0.1]) * device
    parts = {"nfs": nfs, "zil": software + timer, "log_wait": before, "log_write": device}
    parts_ns = {name: round(us * 1e6) for name, us in parts.items()}
    made = {"op": "write", "tier": "slog", "ios": 1000, "unjoined": 0, "sum_ns": sum(parts_ns.values())}
    row = SplitRow.from_json({**made, "parts": parts_ns}, "row")
    phase = phase_of("why", 0, SECOND, SECOND, split=PhaseSplit(of="x", rows=(row,)).as_json())
    [found] = split.describe(Manifest(phases=(phase,)), [])
    [saving] = found.savings
    assert saving.own_share is not None and saving.share is not None
    truth = 1 - (nfs + software) / sum(parts.values())
    return saving.own_share - 1e-6 <= truth <= saving.share + 1e-6


_SPLIT = [
    Trial(
        "a faster log device would save its own time to at most x %",
        "software, timer and block before",
        _saves,
        at_least=1.0,
        cases=300,
        few=20,
        promise="docs/why-slow.md",
    )
]

TRIALS: list[Trial] = [*_DEVICES, *_SPLIT]
