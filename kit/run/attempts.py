"""A phase that asks for I/Os (`ios`) is measured again, longer, where its tiers answered fewer.

The second duration follows from the rate of the first, whose I/Os are dropped: a load that ends as soon as
there are enough would be longest where the server happened to be slow. Another attempt reads other blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl

from kit.config.tables.capacity_table import Capacity
from kit.config.tables.phase_table import Phase
from kit.core.units import commas, format_duration_s
from kit.rules.operations import is_either
from kit.run import capacity
from kit.run.capacity import MS
from kit.run.phase import PhaseResult
from kit.store.labels import EITHER_LOG
from kit.store.tables import SERVER

MOST = 3
# Rates differ from one attempt to the next.
_MORE = 1.25
# Of so many I/Os a tier that answered not one is not short of time: another tier answers.
_ENOUGH = 1000


def measured(
    phase: Phase,
    attempt: Callable[[Phase, int], PhaseResult],
    raw: Path,
    tell: Callable[[str], None],
    wanted: Capacity | None = None,
) -> PhaseResult:
    """The result of the last attempt. `attempt` measures the phase, with its number from 1.

    `raw`: where it leaves files; those of the attempts before the last are removed. `tell`: gets a sentence
    about each of those. `wanted`: what a phase with an open loop looks for, with one rate after the other.
    """
    if wanted and capacity.is_searched(phase):
        return capacity.measured(phase, wanted, attempt, raw, tell)
    for number in range(1, MOST + 1):
        before = set(raw.iterdir())
        result = attempt(phase, number)
        short = shortest(phase, result) if number < MOST else None
        if short is None:
            return result
        phase, text = longer(phase, *short)
        if not text:
            return result
        tell(text)
        capacity.drop_files(raw, before)
    raise AssertionError("the last attempt returns")


def shortest(phase: Phase, result: PhaseResult) -> tuple[str, int] | None:
    """Of what answered too few I/Os, that with the fewest, and how many; None if all answered enough."""
    if phase.ios is None or result.interrupted or result.failed or result.entry.problems:
        return None
    counts = dict(answered(phase, result))
    if sum(counts.values()) >= min(phase.ios, _ENOUGH):
        # What has answered none of so many has no share that could be measured.
        counts = {name: ios for name, ios in counts.items() if ios}
    name = min(counts, key=lambda name: counts[name], default="")
    return (name, counts[name]) if name and counts[name] < phase.ios else None


def answered(phase: Phase, result: PhaseResult) -> Iterator[tuple[str, int]]:
    """I/Os by tier that the phase asks for; by operation where the kernel was not asked for tiers."""
    of_server = result.latency.filter((pl.col("layer") == SERVER) & (pl.col("op") != "commit"))
    if of_server.height and phase.tiers:
        either = is_either(phase, result.entry.block_bytes_by_op)
        for names in [EITHER_LOG] if either else [(tier,) for tier in phase.tiers]:
            yield " or ".join(names), int(of_server.filter(pl.col("tier").is_in(names))["count"].sum())
        return
    frame = of_server if of_server.height else result.latency
    for op in result.entry.block_bytes_by_op:
        yield f"{op}s", int(frame.filter(pl.col("op") == op)["count"].sum())


def longer(phase: Phase, name: str, ios: int) -> tuple[Phase, str]:
    """The phase for as long as it needs at this rate, and a sentence; "" if it cannot be longer."""
    assert phase.ios is not None, "it asks for I/Os"
    needed = phase.duration * phase.ios * _MORE / ios if ios else math.inf
    duration = int(min(needed, phase.longest))
    duration -= duration % (100 * MS if duration > 1000 * MS else MS)
    if duration <= phase.duration:
        return phase, ""
    text = (
        f"Phase {phase.name} was measured again, for {format_duration_s(duration / 1e9)}: in "
        f"{format_duration_s(phase.duration / 1e9)} there were {commas(ios)} I/Os of {name}, and "
        f"{commas(phase.ios)} are asked for."
    )
    return capacity.lasting(phase, duration), text
