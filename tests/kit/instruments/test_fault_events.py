"""Faults on the time axis, and a server that died."""

from __future__ import annotations

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.instruments import fault_events
from kit.instruments.base import Measured


class Fake:
    """The devices' server with a count of crashes."""

    def __init__(self, crashes: int) -> None:
        self._crashes = crashes

    def crashes(self) -> int:
        return self._crashes

    def faults(self) -> list[tuple[int, str]]:
        return []


def test_faults_are_events_in_the_experiments_time() -> None:
    faults = [(100 + 4 * 1500, "log0 stall 5")]
    (event,) = fault_events.fault_events(faults, 100, Clock("virtual", 4))
    assert event.as_json() == {
        "time_ns": 1500,
        "end_ns": None,
        "kind": "fault",
        "text": "fault: log0 stall 5",
    }


def test_a_crash_in_a_phase_is_a_problem_of_it() -> None:
    phase = Measured("read", 512, 1, 0, 1, {}, 0, Clock())
    for crashes, problems in ((0, []), (1, ["the server of the emulated devices died"])):
        instrument = fault_events.FaultEvents(Fake(crashes))
        instrument.begin()
        instrument.end()
        assert instrument.report(phase).problems == problems


def test_a_crash_ends_the_run() -> None:
    fault_events.check_alive(None)
    fault_events.check_alive(Fake(0))
    with pytest.raises(HostError, match="died 2 times") as caught:
        fault_events.check_alive(Fake(2))
    assert caught.value.exit_code == 5
