"""kit.lab.expected_duration: what a run is expected to take, and what a machine learns from its runs."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import find_workload
from kit.lab import expected_duration
from kit.plan.plan import Plan, make_plan


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", os.fspath(tmp_path))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (2.1, 1.8, 9.0))
    return tmp_path / "hsp" / "pace.json"


def plan(path: Path, testbed: Path = LAB_TESTBED) -> Plan:
    return make_plan(read_workload(path), read_testbed(testbed), path, testbed)


@pytest.fixture
def demo() -> Plan:
    return plan(find_workload("top-speeds"))


def learn(demo: Plan, pace: float, waited: float = 0.1) -> None:
    expected_s = expected_duration.expected_s(demo, aged=True)
    assert expected_s is not None
    observed_s = expected_s / (expected_duration.read_pace() or 1.0) * pace
    expected_duration.learn(demo, observed_s, observed_s * waited, aged=True)


def test_more_work_takes_longer(demo: Plan, tmp_path: Path) -> None:
    def expected_s(text: str) -> float:
        file = tmp_path / "w.toml"
        file.write_text('format = 1\nname = "w"\ntitle = "W"\nbase = "top-speeds"\n' + text)
        return expected_duration.expected_s(plan(file), aged=True) or 0.0

    whole = expected_s("")
    assert whole == expected_duration.expected_s(demo, aged=True)
    assert whole < (expected_duration.expected_s(demo, aged=False) or 0.0)
    assert expected_s('[[phase]]\nname = "read"\n') < whole
    assert expected_s('[[phase]]\nname = "read"\n') > expected_s(
        '[[phase]]\nname = "read"\nduration = "2s"\n'
    )
    assert expected_s("job.numjobs = 8\n") > whole


def test_an_array_is_one_load_and_not_one_for_each_of_its_members(tmp_path: Path) -> None:
    """Of 1 and of 7 members, with the chunks of `hsp run stripes`: what it costs is what md sends to them."""
    (tmp_path / "s.fio").write_text((find_workload("stripes").parent / "stripes-chunks.fio").read_text())

    def expected_s(members: int) -> float:
        file = tmp_path / "w.toml"
        file.write_text(
            'format = 1\nname = "w"\ntitle = "W"\nprecondition = "none"\n'
            '[[phase]]\nname = "a"\ntitle = "A"\ntarget = "array"\njob = "s.fio"\nduration = "2s"\n'
            f'array = {{ level = "raid0", chunk = "128KiB", members = {members} }}\n'
            f'options = {{ bs = "{128 * members}k" }}\n'
        )
        made = plan(file, LAB_TESTBED.with_name("stripes-testbed.toml"))
        return expected_duration.expected_s(made, aged=True) or 0.0

    # Measured: the guest's CPU was busy for 0.53 and 2.0 s of 16, and waited for the drives in the others.
    assert 2 < expected_s(7) - expected_s(1) < 10


def test_ageing_is_named_by_device(demo: Plan) -> None:
    anew_s, aged_s = (expected_duration.expected_s(demo, aged=aged) for aged in (False, True))
    of_devices = expected_duration.ageing_s(demo)
    assert set(of_devices) == {"cache0", "log0"}
    assert anew_s is not None and sum(of_devices.values()) == pytest.approx(anew_s - (aged_s or 0.0))
    testbed = Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml"
    assert expected_duration.ageing_s(plan(find_workload("top-speeds"), testbed)) == {}


def test_only_the_lab_that_counts_instructions_is_foretold() -> None:
    testbed = Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml"
    assert expected_duration.expected_s(plan(find_workload("top-speeds"), testbed), aged=True) is None


def test_the_first_run_is_believed_and_later_ones_in_part(demo: Plan) -> None:
    before = expected_duration.expected_s(demo, aged=True) or 0.0
    assert expected_duration.read_pace() is None
    learn(demo, 2.0)
    assert expected_duration.read_pace() == 2.0
    assert expected_duration.expected_s(demo, aged=True) == pytest.approx(2 * before)
    learn(demo, 0.5)
    assert expected_duration.read_pace() == pytest.approx(1.0)
    for _ in range(20):
        learn(demo, 1.3)
    assert expected_duration.read_pace() == pytest.approx(1.3, abs=0.01)


def test_what_is_no_whole_run_is_not_believed(demo: Plan, state: Path) -> None:
    learn(demo, 0.05)
    learn(demo, 1e6)
    assert not state.exists()


@pytest.mark.parametrize("load", [(8.0, 1.0, 1.0), (2.0, 6.0, 1.0)])
def test_a_run_beside_other_work_says_nothing_of_the_pace(
    demo: Plan, monkeypatch: pytest.MonkeyPatch, load: tuple[float, float, float]
) -> None:
    learn(demo, 1.1)
    monkeypatch.setattr(os, "getloadavg", lambda: load)
    learn(demo, 5.0)
    assert expected_duration.read_pace() == 1.1


def test_a_run_in_which_processes_waited_for_a_cpu_is_not_believed(demo: Plan) -> None:
    """Three that want two CPUs: the load is no higher than a lab's may be, and the guest is half as fast."""
    learn(demo, 1.1)
    learn(demo, 2.0, waited=0.9)
    assert expected_duration.read_pace() == 1.1
    learn(demo, 1.1, waited=math.nan)
    assert expected_duration.read_pace() == 1.1


@pytest.mark.parametrize(
    ("text", "waited_s"),
    [
        ("some avg10=96.66 avg60=96.32 avg300=85.79 total=672804919\nfull avg10=0.00 total=0\n", 672.804919),
        ("", math.nan),
        ("full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", math.nan),
    ],
)
def test_the_kernel_says_how_long_processes_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, waited_s: float
) -> None:
    monkeypatch.setattr(expected_duration, "_PRESSURE", tmp_path / "cpu")
    assert math.isnan(expected_duration.waited_s())
    (tmp_path / "cpu").write_text(text)
    assert expected_duration.waited_s() == pytest.approx(waited_s, nan_ok=True)


def test_an_expected_time_says_what_it_rests_on(demo: Plan) -> None:
    assert "not known yet" in expected_duration.pace_words()
    learn(demo, 1.5)
    assert "1.5 times" in expected_duration.pace_words()


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"pace": "1"}', '{"pace": 0.0}', '{"pace": 1e9}', "\x00"]
)
def test_a_damaged_file_is_as_none(demo: Plan, state: Path, content: str) -> None:
    state.parent.mkdir()
    state.write_text(content)
    assert expected_duration.read_pace() is None
    learn(demo, 3.0)
    assert expected_duration.read_pace() == 3.0


def test_a_directory_that_cannot_be_written_is_no_error(demo: Plan, state: Path) -> None:
    state.parent.write_text("")
    learn(demo, 3.0)
    assert expected_duration.read_pace() is None
