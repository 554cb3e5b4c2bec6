"""Preconditioning of a series: once for each device and settings."""

from __future__ import annotations

import pytest

from kit.config.tables.precondition_table import Precondition
from kit.precondition.device import Preconditioned, Target
from kit.session.shared_site import PreconditionedOnce

RUN = "20260101T000000Z-000001"
TARGET = Target("cache0", "cache", "/dev/sdb", 1 << 30, None)


def settings(fills: int, filled: str = "100%") -> Precondition:
    return Precondition(method="fills", fills=fills, filled=filled)


def test_a_later_run_has_the_outcome_of_the_first() -> None:
    once = PreconditionedOnce()
    assert once.restore(TARGET, settings(2)) is None
    once.keep(TARGET, settings(2), Preconditioned({"device": "cache0", "fills": 2}, 1 << 30), RUN)
    kept = once.restore(TARGET, settings(2))
    assert kept and kept.entry["fills"] == 2
    assert kept.entry["aged_in"]["run"] == RUN and kept.entry["aged_in"]["in_series"]
    assert once.restore(TARGET, settings(3)) is None, "another state is asked for"


def test_a_device_in_another_state_is_brought_back() -> None:
    once = PreconditionedOnce()
    for fills in (2, 3):
        once.keep(TARGET, settings(fills), Preconditioned({"device": "cache0"}, 1 << 30), RUN)
    assert once.restore(TARGET, settings(2)) is None and once.restore(TARGET, settings(3))


def test_what_was_left_unwritten_is_made_so_before_each_run() -> None:
    once = PreconditionedOnce()
    once.keep(TARGET, settings(2, "50%"), Preconditioned({"device": "cache0"}, 1 << 30), RUN)
    assert once.restore(TARGET, settings(2, "50%")) is None


@pytest.mark.parametrize(
    "outcome",
    [Preconditioned({"device": "cache0"}, 1, problems=["hot"]), Preconditioned({"stopped": "budget"}, 1)],
)
def test_what_went_wrong_is_done_again(outcome: Preconditioned) -> None:
    once = PreconditionedOnce()
    once.keep(TARGET, settings(2), outcome, RUN)
    assert once.restore(TARGET, settings(2)) is None
