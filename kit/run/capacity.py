"""A phase that is looked at with one rate after the other ([capacity]); its entry is of the last look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kit.capacity.search import RateLook, search
from kit.config.tables.capacity_table import Capacity
from kit.config.tables.phase_table import Phase
from kit.core.units import commas, format_latency
from kit.run.phase import PhaseResult
from kit.store.load.open_loop import CapacitySearch, OpenLoop
from kit.store.phase import Phase as StoredPhase
from kit.store.phase import Problem

# As many intervals as a heat map has columns, several times over.
_MOST_INTERVALS = 2000
MS = 10**6


def lasting(phase: Phase, duration_ns: int) -> Phase:
    """The phase so long, and its intervals so long that they are not too many."""
    interval_ns = max(phase.interval, -(-duration_ns // _MOST_INTERVALS // MS) * MS)
    return phase.model_copy(update={"duration": duration_ns, "interval": interval_ns})


def drop_files(raw: Path, but: set[Path]) -> None:
    """Remove what an attempt has left in `raw`."""
    for path in set(raw.iterdir()) - but:
        with suppress(OSError):
            path.unlink()


def is_searched(phase: Phase) -> bool:
    """Whether the rate of the phase is what is asked."""
    return phase.open is not None and phase.open.rate is None


def measured(
    phase: Phase,
    capacity: Capacity,
    attempt: Callable[[Phase, int], PhaseResult],
    raw: Path,
    tell: Callable[[str], None],
) -> PhaseResult:
    """`attempt`, `raw`: see kit.run.attempts.measured. `tell`: gets a sentence about each look."""
    limit_ns = (phase.open and phase.open.p99_max) or capacity.p99_max
    looks = search(capacity.model_copy(update={"p99_max": limit_ns}))
    look, number, problems = next(looks), 0, list[Problem]()
    while True:
        number, before = number + 1, set(raw.iterdir())
        result = attempt(at_rate(phase, look), number)
        problems += _problems(look, result.entry)
        if (load := result.entry.open) is None or result.interrupted or result.failed:
            why = f"the look at {commas(look.rate)} a second failed"
            value = CapacitySearch(p99_max_ns=limit_ns, end="unknown", why=why)
            break
        tell(_said(phase, load))
        try:
            look = looks.send(load)
        except StopIteration as end:
            value = end.value
            break
        drop_files(raw, before)
    update = {"capacity": value, "problems": tuple(dict.fromkeys(problems))}
    return replace(result, entry=result.entry.model_copy(update=update))


def at_rate(phase: Phase, look: RateLook) -> Phase:
    """The phase as it is for one look."""
    assert phase.open is not None
    duration = max(phase.duration, -int(-look.ios * 10**9 // look.rate))
    opened = phase.open.model_copy(update={"rate": look.rate})
    return lasting(phase.model_copy(update={"open": opened}), duration + -duration % MS)


def _problems(look: RateLook, entry: StoredPhase) -> Iterator[Problem]:
    """Of each look, also of those whose entry is not stored."""
    yield from entry.problems
    for check in entry.checks:
        if not check.closes:
            yield Problem(code="load", text=f"at {commas(look.rate)} a second: {check}")


def _said(phase: Phase, load: OpenLoop) -> str:
    intended, actual = (load.rank_ns(0.99, intended=kind) for kind in (True, False))
    of = f"{phase.name}: {commas(load.rate_per_s)} a second, {commas(load.due)} I/Os"
    p99 = format_latency(intended / 1e3) if intended else "more than the limit"
    return (
        f"{of}: p99 {p99}, {load.above / load.due:.2%} above the limit (of issued I/Os p99 "
        f"{format_latency((actual or 0) / 1e3)})"
    )
