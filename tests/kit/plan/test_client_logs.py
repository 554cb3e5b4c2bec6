"""kit.plan.client_logs: what clients record in a phase that leaves it to the plan."""

from __future__ import annotations

from typing import Any

import pytest

from kit.config.testbed import LAB_TESTBED, Testbed, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import WORKLOADS
from kit.core.clock import Clock
from kit.plan.client_logs import resolved

SECOND = 10**9
LAB = read_testbed(LAB_TESTBED)


class _Hosts:
    """The parts of a testbed of real hosts that are looked at."""

    is_lab = False

    def __init__(self, clock: Clock) -> None:
        self.clock = clock


def recorded(testbed: Any, **changes: Any) -> str:
    workload = read_workload(WORKLOADS / "top-speeds.toml")
    phase = workload.phase[0].model_copy(update={"interval": SECOND, "ios": None, **changes})
    (first,) = resolved(workload.model_copy(update={"phase": (phase,)}), testbed).phase
    return first.log


@pytest.mark.parametrize(
    ("seconds", "on_hosts", "in_lab"),
    [
        (10, "every-io", "every-io"),
        (11, "histograms", "every-io"),
        (900, "histograms", "every-io"),
        (901, "histograms", "histograms"),
    ],
)
def test_long_phases_are_counted(seconds: int, on_hosts: str, in_lab: str) -> None:
    assert recorded(_Hosts(Clock()), duration=seconds * SECOND) == on_hosts
    assert recorded(LAB, duration=seconds * SECOND) == in_lab


def test_a_phase_that_may_become_long_is_counted() -> None:
    assert recorded(_Hosts(Clock()), duration=SECOND, ios=100) == "histograms"
    assert recorded(_Hosts(Clock()), duration=SECOND, ios=100, duration_max=10 * SECOND) == "every-io"
    assert recorded(LAB, duration=SECOND, ios=100) == "every-io"


@pytest.mark.parametrize("testbed", [LAB, _Hosts(Clock())])
def test_a_phase_that_may_be_continued_is_counted(testbed: Testbed | _Hosts) -> None:
    assert recorded(testbed, duration=SECOND, resumable=True) == "histograms"


@pytest.mark.parametrize("log", ["every-io", "histograms"])
@pytest.mark.parametrize("seconds", [1, 60])
def test_what_the_workload_says_stays(log: str, seconds: int) -> None:
    assert recorded(_Hosts(Clock()), duration=seconds * SECOND, log=log) == log


def test_what_cannot_be_counted_is_logged() -> None:
    assert recorded(_Hosts(Clock()), duration=600 * SECOND, interval=10**6) == "every-io"
    assert recorded(_Hosts(Clock(kind="virtual", dilation=6)), duration=60 * SECOND) == "every-io"
