"""Power losses and FLUSH: what was looked at."""

from __future__ import annotations

import heapq
from functools import partial

import numpy as np

from kit.run.power.records import Acknowledged, RecordLayout, judge
from kit.store.manifest import Manifest, PowerLoss
from reports.features.power_loss import judge as power_loss
from reports.features.slog.write_cache import judge as judge_timing
from reports.verdict.flushes import flush_outcomes
from tests.reports.slog import slog_test
from tests.reports.verdict.test_flushes import of_vdevs
from tests.truth.trials import Trial

_BOUND, _SLOG = "docs/power-loss.md, the bound", "docs/slog.md, four sentences"
_FLUSHES = "docs/verdict.md, FLUSHES"
_LAYOUT = RecordLayout("file", 7, 1, (4096, 4096, 4096))
_PROOF = [{"device": "log0", "counter": "unsafe_shutdowns", "before": 1, "after": 2}]
_CONTROL = {"acknowledged": 9, "looked_at": 9, "lost": 9}


def bound(random: np.random.Generator, *, cuts: int, share: float) -> bool:
    """Whether the bound is above the true share of power losses that lose data."""
    lost = random.random(cuts) < share
    moments = [{"acknowledged": 96, "looked_at": 96, "lost": int(each), "proof": _PROOF} for each in lost]
    value = {
        "moments": moments,
        "scope": "device",
        "asked": cuts,
        "control": "no-sync",
        "control_moments": [_CONTROL],
    }
    told = power_loss.judge(PowerLoss.from_json(value, "power_loss")).told
    return bool(told and told.bound and told.bound.high >= share)


def looked_at(random: np.random.Generator, *, writes: int) -> bool:
    """Whether more records count as looked at than there are places, or than can be found lost."""
    acknowledged = [
        Acknowledged(worker, number, 0)
        for worker in range(3)
        for number in range(1, 1 + int(random.integers(1, writes)))
    ]
    moment = judge(_LAYOUT, acknowledged, [[[0]] * _LAYOUT.slots] * 3)
    return moment.looked_at != moment.lost or (moment.looked_at or 0) > 3 * _LAYOUT.slots


def waits(random: np.random.Generator, *, way_us: float, medium_us: float, cache: str = "write back") -> bool:
    """Of a device whose every command takes `way_us`: whether it is said to wait for its medium."""

    def us(_: int) -> float:
        return way_us * float(np.exp(0.02 * random.standard_normal()))

    test = slog_test(cache, us, lambda _: us(0) + medium_us, idle_us=us(0), read_us=us(0))
    return judge_timing(test).code in ("not-protected", "cache-off")


def leg_is_behind(random: np.random.Generator, *, requests: int, slower: float, dropped: float = 0) -> bool:
    """FLUSHES of a mirror whose second leg is `slower`; with `dropped`: so many of its FLUSHes do not come.

    Each of `requests` commits waits for a FLUSH of both legs, and then begins another. Those that come to a
    leg while one is on its way share the next (Linux block/blk-flush.c).
    """
    mean_us, count, free_us = (100.0, 100.0 * slower), [0, 0], [0.0, 0.0]
    begins_us, commits = [[-1.0], [-1.0]], 400
    ready_us = list(100 * random.random(requests))
    for _ in range(commits):
        now = heapq.heappop(ready_us)
        ends = []
        for leg in (0, 1):
            begin = max(now, free_us[leg])
            # One that waits already takes this one along.
            if begins_us[leg][-1] < now or begins_us[leg][-1] == -1:
                begins_us[leg].append(begin)
                free_us[leg] = begin + mean_us[leg] * random.lognormal(0, 0.3)
                count[leg] += leg == 0 or random.random() >= dropped
            ends.append(free_us[leg])
        heapq.heappush(ready_us, max(ends) + random.exponential(20))
    stored = of_vdevs("log", {"xy": "mirror"}, x=count[0], y=count[1]).as_json()
    (phase,) = stored["phases"]
    phase["outstanding"] = requests
    phase["checks"][0] |= {"expected": commits, "found": commits}
    return any(each.makes != "valid" for each in flush_outcomes(Manifest.from_json(stored, "manifest")))


TRIALS: list[Trial] = [
    *[
        Trial(
            "a leg of a mirror got too few FLUSHes",
            f"all came, {requests} requests, one leg is {slower} times as slow",
            partial(leg_is_behind, requests=requests, slower=slower),
            at_most=0.0,
            cases=300,
            few=5 if requests == 16 else 0,
            promise=_FLUSHES,
        )
        for requests in (1, 4, 16)
        for slower in (1, 30)
    ],
    *[
        Trial(
            "a leg of a mirror got too few FLUSHes",
            f"{dropped:.1%} of those of a leg did not come, {requests} requests",
            partial(leg_is_behind, requests=requests, slower=1, dropped=dropped),
            at_least=1.0,
            cases=300,
            few=5 if requests == 16 else 0,
            promise=_FLUSHES,
        )
        for requests, dropped in ((1, 0.6), (4, 0.95), (16, 0.995))
    ],
    *[
        Trial(
            "the share of power losses that lose data is below the bound",
            f"{share:.1%} of {cuts} lose",
            partial(bound, cuts=cuts, share=share),
            at_least=0.96,
            few=50,
            promise=_BOUND,
        )
        for cuts, share in ((20, 0.1391), (60, 0.0487), (20, 0.05), (300, 0.01))
    ],
    Trial(
        "a record counts as looked at",
        "that another has replaced",
        partial(looked_at, writes=1000),
        at_most=0.0,
        few=20,
        promise=_BOUND,
    ),
    *[
        Trial(
            "it waits for its medium",
            f"protected, each command takes {us} us",
            partial(waits, way_us=us, medium_us=0),
            at_most=0.01,
            few=10,
            promise=_SLOG,
        )
        for us in (10, 230, 400)
    ],
    *[
        Trial(
            "it waits for its medium",
            f"a page takes {us} us, each command 20 us",
            partial(waits, way_us=20, medium_us=us),
            at_least=1.0,
            few=10,
            promise=_SLOG,
        )
        for us in (75, 100, 650)
    ],
]
