"""What to change in a workload, so that a phase has the I/Os that were expected. Keys are those of --set."""

from __future__ import annotations

import math

from kit.core.units import format_duration_ns
from kit.store.phase import Phase

# The key of a phase that says how long it takes at least.
_DURATION = "duration"
# A rate is not the same in the next run.
_SPARE = 1.1
_OF_TIER = {
    "dram": "make tunables.zfs_arc_max larger, or working_set.size smaller",
    "l2arc": "make warmup.l2arc_min larger, or warmup.duration longer, and look at the cache device",
    "disk": "make working_set.size larger than what ARC and L2ARC hold together",
    "special": (
        "of reads: make the special devices (pool.special_size) larger, or dataset.properties."
        "special_small_blocks; of writes: OpenZFS 2.4 has its log there, earlier ones have not"
    ),
    "slog": "look at the log device, and at sync and logbias of the dataset",
    "pool": (
        'take the log device away with remove = "log" in the phase; with special vdevs, which have the log '
        'from OpenZFS 2.4 on, write tiers = ["special", "pool"]'
    ),
}


def longer(phase: Phase, times: float) -> str:
    """How long the phase has to be for `times` as many I/Os, at the rate that it had.

    A search for a capacity has as many looks as it needs: each is made longer.
    """
    if phase.capacity:
        factor = math.ceil(times * _SPARE)
        return f"each look needs {factor} times phase.{phase.name}.{_DURATION} and capacity.ios (--set)"
    asked_ns = (phase.end_ns - phase.start_ns) * times * _SPARE
    # Two digits, rounded up.
    step_ns = 10 ** max(len(str(int(asked_ns))) - 2, 0)
    duration = format_duration_ns(math.ceil(asked_ns / step_ns) * step_ns)
    return f"the phase needs about {duration} here: --set phase.{phase.name}.{_DURATION}={duration}"


def of_tier(tier: str) -> str:
    """How the tier gets I/Os."""
    return _OF_TIER.get(tier, "look at what the load does")
