"""kit.store.load.replayed: when a replay is not the captured load."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.errors import ConfigError
from kit.store.load.replayed import Replayed


def latencies(ios: int) -> dict[str, Any]:
    return {"sum_ns": 10 * ios, "min_ns": 10, "max_ns": 10, "bins": [(10, ios)]}


def replayed(done: int = 1000, **keys: Any) -> Replayed:
    value = {
        "captured": 1000, "lost": 0, "left_out": 0, "forced": 0, "commits": 0, "speed": 2, "threads": 64,
        "elapsed_ns": 10**9, "late_ns": 10**6, "due": done, "unstarted": 0, "late_ios": 0,
        "intended": latencies(done), "late": latencies(done),
    }  # fmt: skip
    return Replayed.from_json(value | keys, "here")


@pytest.mark.parametrize(("late", "unstarted", "is_late"), [(10, 0, False), (11, 0, True), (10, 1, True)])
def test_more_than_one_percent_late_is_a_problem_that_says_what_to_do(
    late: int, unstarted: int, is_late: bool
) -> None:
    found = replayed(1000 - unstarted, due=1000, unstarted=unstarted, late_ios=late)
    texts = [*found.problems()]
    assert any("999 of 1,000 captured I/Os were replayed" in text for text in texts) == bool(unstarted)
    assert any("--speed" in text and "replay.threads" in text for text in texts) == is_late
    assert "1.1 %" in " ".join(texts) if is_late else not texts


def test_clients_are_together_one_replay() -> None:
    parts = [replayed(600, late_ios=3, elapsed_ns=5), replayed(400, late_ios=2, elapsed_ns=7)]
    both = Replayed.together(parts)
    assert (both.due, both.late_ios, both.threads, both.elapsed_ns) == (1000, 5, 128, 7)
    assert both.intended.ios == 1000 and not [*both.problems()]


def test_its_sentence_has_all_that_is_not_as_it_was() -> None:
    plain = replayed().sentence()
    assert plain == (
        "1,000 of 1,000 captured I/Os were replayed at speed 2, 1,000 a second; 0.00 % started more than "
        "1 ms late."
    )
    more = replayed(forced=5, commits=6, lost=7, left_out=8).sentence()
    assert all(f" {number} " in more for number in (5, 6, 7, 8))


@pytest.mark.parametrize("change", [{"due": 999}, {"unstarted": 1}, {"late_ios": 1001}, {"speed": 0}])
def test_counts_that_contradict_each_other_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        replayed(**change)
