"""Faults on the time axis, and a server that died."""

from __future__ import annotations

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.run import fault_events


class Fake:
    """Stands for the devices' server; only its count of crashes is asked for."""

    def __init__(self, crashes: int) -> None:
        self._crashes = crashes

    def crashes(self) -> int:
        return self._crashes

    def faults(self) -> list[tuple[int, str]]:
        return []

    def mark(self) -> int:
        return 0

    def restore(self) -> None: ...


def test_faults_of_the_phase_are_events_in_the_experiments_time() -> None:
    phase = {"start_ns": 1000, "end_ns": 2000}
    faults = [(100 + 4 * 500, "early"), (100 + 4 * 1500, "log0 stall 5"), (100 + 4 * 2500, "late")]
    (event,) = fault_events.fault_events(faults, phase, 100, Clock("virtual", 4))
    assert event == {"time_ns": 1500, "end_ns": None, "kind": "fault", "text": "fault: log0 stall 5"}


def test_a_crash_ends_the_run() -> None:
    fault_events.check_alive(None)
    fault_events.check_alive(Fake(0))
    with pytest.raises(HostError, match="died 2 times") as caught:
        fault_events.check_alive(Fake(2))
    assert caught.value.exit_code == 5
