"""A phase that is looked at with one rate after the other: what its looks are, and what is stored of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from kit.capacity.search import RateLook
from kit.config.tables.capacity_table import Capacity
from kit.config.tables.phase_table import Phase
from kit.run import attempts
from kit.run.capacity import at_rate
from kit.run.phase import PhaseResult
from kit.store.phase import Check, Problem
from tests.kit.capacity.test_search import look_of
from tests.truth.made_up import phase_of

PHASE = Phase.model_validate({
    "name": "p", "title": "P", "target": "device:log", "open": {"op": "read"}, "duration": "10s",
    "interval": "500ms",
})  # fmt: skip
WANTED = Capacity.model_validate({"p99_max": "1ms"})


def measured(raw: Path, fails_at: float = 1e9) -> tuple[PhaseResult, list[str]]:
    """Of a server that keeps 1,000 a second; a look at `fails_at` or more has no counts."""
    said: list[str] = []

    def attempt(phase: Phase, number: int) -> PhaseResult:
        assert phase.open and phase.open.rate
        rate = float(phase.open.rate)
        raw.joinpath(f"counts.{number}").write_text("")
        load = look_of(RateLook(rate, 5000, "ramp"), 0.001 if rate <= 1000 else 0.2)
        bad = Check.of_counts("NFS-CALLS", "calls", "nfsd", 10, 10 + (number == 2))
        made = {"open": None if rate >= fails_at else load, "checks": (bad,)}
        made["problems"] = (Problem(code="load", text="one"),) if number == 1 else ()  # type: ignore[assignment]
        entry = phase_of("p", 0, 10**9, 10**8).model_copy(update=made)
        return PhaseResult(entry, pl.DataFrame(), False, False)

    return attempts.measured(PHASE, attempt, raw, said.append, WANTED), said


def test_the_entry_has_the_answer_and_what_was_wrong_with_any_look(tmp_path: Path) -> None:
    result, said = measured(tmp_path)
    found = result.entry.capacity
    assert found and found.end == "found" and found.rate_per_s and found.rate_per_s <= 1000
    assert result.entry.problems[0].text == "one"
    assert "at 200 a second: calls (nfsd): expected 10, found 11" in result.entry.problems[1].text
    assert len([*tmp_path.iterdir()]) == 1, "files of the last look alone"
    assert said[0].startswith("p: 100 a second") and len(said) > len(found.steps)


def test_a_look_that_fails_ends_the_search(tmp_path: Path) -> None:
    found = measured(tmp_path, fails_at=400)[0].entry.capacity
    assert found and found.end == "unknown" and "the look at 400 a second failed" in found.why


def test_a_look_lasts_as_long_as_its_ios_need() -> None:
    slow, quick = (at_rate(PHASE, RateLook(rate, 5000, "ramp")) for rate in (3.0, 10_000.0))
    assert (quick.duration, quick.interval) == (PHASE.duration, PHASE.interval)
    assert slow.duration >= 5000 / 3 * 1e9 and slow.duration <= 2000 * slow.interval
    assert slow.open and slow.open.rate == 3
