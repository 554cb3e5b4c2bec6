"""kit.plan.durations: how long phases last on the clock of a testbed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import Workload, read_workload
from kit.config.workload_base import WORKLOADS
from kit.plan.durations import resolved
from kit.plan.plan import make_plan

SECOND = 10**9
NAS = read_testbed(Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml")
LAB = read_testbed(LAB_TESTBED)


def of(**changes: Any) -> Workload:
    workload = read_workload(WORKLOADS / "top-speeds.toml")
    phase = workload.phase[0].model_copy(update={"duration": SECOND, "ios": 100, **changes})
    return workload.model_copy(update={"phase": (phase,)})


@pytest.mark.parametrize(
    ("changes", "on_hosts_s"),
    [
        ({}, 10),
        ({"duration": 40 * SECOND}, 40),
        ({"duration_max": 4 * SECOND}, 4),
        ({"ios": None}, 1),
        ({"resumable": True}, 1),
        ({"during": ("scrub",)}, 1),
    ],
)
def test_a_real_clock_has_two_txgs(changes: dict[str, Any], on_hosts_s: int) -> None:
    workload = of(**changes)
    assert resolved(workload, NAS).phase[0].duration == on_hosts_s * SECOND
    assert resolved(workload, LAB).phase[0].duration == workload.phase[0].duration


def test_what_is_continued_is_not_measured_again() -> None:
    assert resolved(of(resumable=True), NAS).phase[0].ios is None
    assert resolved(of(), NAS).phase[0].ios == 100


@pytest.mark.parametrize(("length", "seconds"), [("smoke", 1), ("sanity", 3), ("full", 10)])
def test_shorter_lengths_are_shorter(length: str, seconds: int) -> None:
    workload = of(duration=10**6).model_copy(update={"length": length})
    assert resolved(workload, NAS).phase[0].duration == seconds * SECOND


def test_caches_have_the_time_to_get_warm_on_a_real_clock() -> None:
    """Three reads of each record at 200 reads a second of two disks; a minute on both sides of an import."""
    path = WORKLOADS / "l2arc-life.toml"
    life = read_workload(path)
    on_nas, in_lab = (make_plan(life, bed, path, LAB_TESTBED).workload for bed in (NAS, LAB))
    cold, after = on_nas.phase
    seconds = 3 * (on_nas.file_set.size // (32 << 10)) / 200
    assert cold.duration == pytest.approx(seconds * SECOND) and after.duration == 180 * SECOND
    assert on_nas.event[0].at / after.duration == pytest.approx(life.event[0].at / life.phase[1].duration)
    assert [phase.duration for phase in in_lab.phase] == [phase.duration for phase in life.phase]
    assert in_lab.event == life.event
