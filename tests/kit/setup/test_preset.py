"""A run with `tune`: what it stores of each machine, says, and finds changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import HostError
from kit.run.execute import Execution
from tests.fakes import Answer
from tests.kit.recovery import strikes
from tests.kit.recovery.strikes import CPU, Kind, Struck, new_world, write
from tests.machines.host import StatefulHost
from tests.machines.world import Wire, World, differences

READ = ("read", 'job = "read.fio"', 'tiers = ["dram"]')
PRESET = '[host]\ntune = "latency"\n'
GOVERNOR = f"{CPU}/cpufreq/policy1/scaling_governor"


def run(world: World, folder: Path, patch: pytest.MonkeyPatch, keys: str = PRESET) -> Execution:
    patch.setattr(strikes, "new_world", world.copy)
    struck = Struck(write(Kind((READ,), more=keys), folder / "workload"), folder, patch)
    outcome = struck.execute(Wire(world))
    assert outcome
    return outcome


def stored(outcome: Execution) -> list[tuple[str, ...]]:
    settings = outcome.record.manifest.host_settings
    return [
        (each.on, each.name, each.path.removeprefix(f"{CPU}/"), each.before, each.set) for each in settings
    ]


def test_the_manifest_has_what_was_set_and_the_values_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world()
    world.machines["c1"].tree[GOVERNOR] = "performance\n"
    world.machines["nas"].tree["/sys/block/sddata0/queue/scheduler"] = "none\n"
    pristine = world.copy()
    outcome = run(world, tmp_path, monkeypatch)
    assert outcome.failure is None and outcome.left == [] and differences(pristine, world) == []
    frequency = [
        (
            "energy_preference",
            "cpufreq/policy*/energy_performance_preference",
            "balance_power",
            "performance",
        ),
        ("governor", "cpufreq/policy*/scaling_governor", "powersave", "performance"),
    ]
    others = [
        ("turbo", "intel_pstate/no_turbo", "0", "1"),
        ("c-states", "cpu*/cpuidle/state2/disable", "0", "1"),
    ]
    queues = [
        (
            "scheduler",
            f"/sys/block/sd{name}/queue/scheduler",
            "none" if name == "data0" else "mq-deadline",
            "none",
        )
        for name in ("cache0", "data0", "data1", "log0")
    ]
    # Of c0 and c1 together.
    governors = ("governor", "cpufreq/policy*/scaling_governor", "performance, powersave", "performance")
    assert stored(outcome) == [
        *(("server", *each) for each in (*frequency, *others, *queues)),
        *(("clients", *each) for each in (frequency[0], governors, *others)),
    ]
    assert not [each for each in outcome.record.manifest.problems if each.code == "settings-changed"]


def test_what_a_machine_does_not_have_is_a_note_and_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world()
    tree = world.machines["c0"].tree
    for path in [each for each in tree if each.startswith(CPU)]:
        del tree[path]
    outcome = run(world, tmp_path, monkeypatch)
    assert outcome.failure is None
    assert [note for note in outcome.record.manifest.notes if note.startswith("host.tune: ")] == [
        "host.tune: c0 has no frequency governor (cpufreq), no switch for turbo, no idle state that takes "
        "more than 10 us to wake from: that part of it stayed as before."
    ]


def test_a_key_beside_the_preset_is_the_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run(
        new_world(), tmp_path, monkeypatch, f'{PRESET}governor = "powersave"\nscheduler = "kyber"\n'
    )
    assert outcome.failure is None
    kinds = {(on, name, value) for on, name, _, _, value in stored(outcome)}
    assert {each for each in kinds if each[1] in ("governor", "scheduler")} == {
        ("server", "governor", "powersave"), ("server", "scheduler", "kyber"),
        ("clients", "governor", "performance"),
    }  # fmt: skip


@pytest.mark.parametrize(("key", "path"), [("nas", f"{CPU}/intel_pstate/no_turbo"), ("c1", GOVERNOR)])
def test_a_value_that_the_kernel_does_not_take_ends_the_run_and_all_is_as_before(
    key: str, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tee: Any = StatefulHost._do_tee

    def stubborn(host: StatefulHost, words: list[str]) -> Answer:
        taken = [each for each in words if (host.key, each) != (key, path)]
        answer: Answer = tee(host, taken) if taken else ""
        return answer if taken == words else (1, "", "Operation not permitted")

    monkeypatch.setattr(StatefulHost, "_do_tee", stubborn)
    world = new_world()
    pristine = world.copy()
    outcome = run(world, tmp_path, monkeypatch)
    assert isinstance(outcome.failure, HostError)
    assert f"on {key}: {path} was set to " in outcome.failure.message and outcome.left == []
    assert differences(pristine, world) == []


def test_an_unclear_value_is_refused_before_anything_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world()
    world.machines["nas"].tree[f"{CPU}/cpu1/cpuidle/state2/disable"] = "maybe so\n"
    pristine = world.copy()
    outcome = run(world, tmp_path, monkeypatch)
    assert (
        isinstance(outcome.failure, HostError) and "state2/disable is 'maybe so'" in outcome.failure.message
    )
    assert differences(pristine, world) == [] and outcome.record.manifest.host_settings == ()


def test_what_somebody_else_changes_on_a_client_is_a_problem_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, load = new_world(), strikes.load

    def meddle(*arguments: Any) -> Any:
        world.machines["c1"].tree[GOVERNOR] = "schedutil\n"
        return load(*arguments)

    monkeypatch.setattr(strikes, "load", meddle)
    outcome = run(world, tmp_path, monkeypatch)
    problems = [each.text for each in outcome.record.manifest.problems if each.code == "settings-changed"]
    assert problems[0] == (
        f"host: {CPU}/cpufreq/policy*/scaling_governor of c1 was performance and is schedutil "
        "at the end of the run"
    )
    assert world.machines["c1"].tree[GOVERNOR] == "schedutil\n"
    assert world.machines["c1"].tree[GOVERNOR.replace("1", "0")] == "powersave\n"
