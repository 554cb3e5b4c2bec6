"""The preset of a machine: which files it is about, in which order, and what is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.core.errors import HostError
from kit.hosts import latency_preset
from kit.hosts.sudo import local_host

CPU = "/sys/devices/system/cpu"
SERVER = {
    f"{CPU}/cpufreq/policy0/scaling_governor": "powersave",
    f"{CPU}/cpufreq/policy0/energy_performance_preference": "balance_power",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/cpufreq/boost": "1",
    f"{CPU}/cpu0/cpuidle/state0/latency": "0",
    f"{CPU}/cpu0/cpuidle/state0/disable": "0",
    f"{CPU}/cpu0/cpuidle/state1/latency": "10",
    f"{CPU}/cpu0/cpuidle/state1/disable": "0",
    f"{CPU}/cpu0/cpuidle/state2/latency": "11",
    f"{CPU}/cpu0/cpuidle/state2/disable": "1",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "a link of a policy",
    "/sys/block/sda/queue/scheduler": "mq-deadline",
}


def values(files: list[latency_preset.PresetFile]) -> list[tuple[str, str, str]]:
    return [(each.path.removeprefix(f"{CPU}/"), each.before, each.value) for each in files]


def test_the_preset_is_what_the_host_has_of_it_the_energy_preference_before_the_governor() -> None:
    files = latency_preset.files_to_set(SERVER)
    assert values(files) == [
        ("cpufreq/policy0/energy_performance_preference", "balance_power", "performance"),
        ("cpufreq/policy0/scaling_governor", "powersave", "performance"),
        ("intel_pstate/no_turbo", "0", "1"),
        ("cpu0/cpuidle/state2/disable", "1", "1"),
        ("/sys/block/sda/queue/scheduler", "mq-deadline", "none"),
    ]
    assert files[3].of_all == f"{CPU}/cpu*/cpuidle/state2/disable"
    assert latency_preset.lacking(files) == ""
    assert all(re.match(latency_preset.PRESET_PATH, each.path) for each in files)


def test_what_a_host_does_not_have_is_left_out_and_named() -> None:
    boost = {f"{CPU}/cpufreq/boost": "1"}
    files = latency_preset.files_to_set(boost)
    assert values(files) == [("cpufreq/boost", "1", "0")]
    assert latency_preset.lacking(files) == (
        "no frequency governor (cpufreq), no idle state that takes more than 10 us to wake from"
    )
    # What the workload sets itself is neither set nor missed.
    assert latency_preset.files_to_set(SERVER, {"governor", "scheduler"})[1].name == "turbo"
    assert "governor" not in latency_preset.lacking(files, {"governor"})


def test_a_cpu_keeps_a_state_that_is_no_busy_loop() -> None:
    """Of 0, 40 and 133 us it keeps 40; where nothing takes a time, nothing is disabled."""
    of = lambda *latencies: {  # noqa: E731
        f"{CPU}/cpu7/cpuidle/state{n}/{name}": text
        for n, us in enumerate(latencies)
        for name, text in (("latency", us), ("disable", "0"))
    }
    paths = [each.path for each in latency_preset.files_to_set(of("0", "40", "133"))]
    assert paths == [f"{CPU}/cpu7/cpuidle/state2/disable"]
    assert latency_preset.files_to_set(of("0", "0")) == []


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (f"{CPU}/cpu0/cpuidle/state2/latency", "-1"),
        (f"{CPU}/cpu0/cpuidle/state2/disable", ""),
        (f"{CPU}/cpufreq/policy0/scaling_governor", "two words"),
        ("/sys/block/sda/queue/scheduler", "x\x1b[2J"),
    ],
)
def test_a_value_of_which_nobody_knows_the_way_back_is_refused(path: str, content: str) -> None:
    with pytest.raises(HostError, match=re.escape(path)) as caught:
        latency_preset.files_to_set({**SERVER, path: content})
    assert "\x1b" not in caught.value.message


def test_of_this_machine_the_preset_is_read_as_it_is() -> None:
    """Nothing is set: what grep finds is what the files have."""
    here = local_host()
    found = latency_preset.read_preset(here, ())
    assert found == {path: Path(path).read_text().strip() for path in found}
    listed = [*Path(CPU).glob("cpu*/cpuidle/state*/latency"), *Path(CPU).glob("cpufreq/*/scaling_governor")]
    assert set(map(str, listed)) <= set(found)
    latency_preset.check_preset(here, {each.path: each.before for each in latency_preset.files_to_set(found)})
