"""A small part of `tox -e truth`: the promises that are cheap to try."""

from __future__ import annotations

import pytest

from tests.truth.areas import AREAS
from tests.truth.trials import Trial, share

pytestmark = pytest.mark.slow

FEW = [
    pytest.param(trial, id=f"{area}: {trial.claim}, {trial.data}")
    for area, trials in AREAS.items()
    for trial in trials
    if trial.few
]


@pytest.mark.parametrize("trial", FEW)
def test_the_promise_holds(trial: Trial) -> None:
    found = share(trial, trial.few)
    assert found.holds, (found.said, found.cases, found.range)


def test_each_trial_promises_something() -> None:
    for trials in AREAS.values():
        for trial in trials:
            assert trial.at_most < 1 or trial.at_least > 0, trial.claim


@pytest.mark.parametrize("area", AREAS)
def test_each_trial_can_be_drawn(area: str) -> None:
    for trial in AREAS[area]:
        if not trial.few:
            share(trial, 1)
