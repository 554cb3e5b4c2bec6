"""Power losses and FLUSH: what was looked at."""

from __future__ import annotations

from functools import partial

import numpy as np

from kit.run.power_records import Acknowledged, RecordLayout, judge
from kit.store.manifest import PowerLoss
from reports.features.power_loss import judge as power_loss
from reports.verdict.write_cache import judge as judge_timing
from tests.reports.slog import slog_test
from tests.truth.trials import Trial

_BOUND, _SLOG = "docs/power-loss.md, the bound", "docs/slog.md, four sentences"
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


TRIALS: list[Trial] = [
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
