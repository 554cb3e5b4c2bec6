"""Faults on the time axis, and crashes of the devices' server."""

from __future__ import annotations

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.instruments import fault_events
from kit.instruments.base import MeasuredPhase


class Devices:
    """The devices' server with a count of crashes and a fault."""

    def __init__(self, crashes: int) -> None:
        self._crashes = crashes

    def crashes(self) -> int:
        return self._crashes

    def faults(self) -> list[tuple[int, str]]:
        return [(100 + 4 * 1500, "log0 stall 5")]


@pytest.mark.parametrize(("crashes", "problems"), [(0, []), (1, ["the server of the emulated devices died"])])
def test_faults_are_events_and_a_crash_is_a_problem(crashes: int, problems: list[str]) -> None:
    instrument = fault_events.FaultEvents(Devices(crashes))
    instrument.begin()
    instrument.end()
    report = instrument.report(MeasuredPhase({"read": 512}, 1, 0, 1, {}, 100, Clock("virtual", 4)))
    assert report.problems == problems
    assert [event.as_json() for event in report.events] == [
        {
            "time_ns": 1500, "end_ns": None, "kind": "fault", "text": "fault: log0 stall 5",
            "fault": {"declared": False, "what": "log0 stall 5"},
        }
    ]  # fmt: skip


def test_a_crash_ends_the_run() -> None:
    fault_events.check_alive(None)
    fault_events.check_alive(Devices(0))
    with pytest.raises(HostError, match="died 2 times") as caught:
        fault_events.check_alive(Devices(2))
    assert caught.value.exit_code == 5
