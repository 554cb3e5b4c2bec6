"""Counters as Linux 6.12 has them on a machine with two cores of two threads each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kit.hosts.local import LocalHost
from kit.instruments.machine import thermal_throttling
from kit.instruments.machine.thermal_throttling import Throttling, ThrottlingChange
from tests.fakes import ScriptedHost, tail

SECOND = 1_000_000_000
CPUS = ("cpu0", "cpu1", "cpu2", "cpu3")
PACKAGE = tuple(f"{cpu}/package" for cpu in CPUS)
UNKNOWN = "of unknown duration"
NAMES = ("core_throttle_count", "package_throttle_count", "core_throttle_total_time_ms",
         "package_throttle_total_time_ms")  # fmt: skip


def files(count: int = 3, time_ms: int = 120) -> dict[str, str]:
    return {
        f"{cpu}/thermal_throttle/{name}": f"{count if name.endswith('count') else time_ms}\n"
        for name in NAMES
        for cpu in CPUS
    }


def quiet() -> Throttling:
    return thermal_throttling.parse(tail(files()))


def moved(counts: Mapping[str, int] = {}, times_ms: Mapping[str, int] = {}) -> Throttling:
    """Later counters; the changes by CPU and level."""
    before = quiet()
    return Throttling(
        {key: value + counts.get(key, 0) for key, value in before.counts.items()},
        {key: value + times_ms.get(key, 0) for key, value in before.times_ms.items()},
    )


def test_counters_and_temperatures_are_read() -> None:
    text = tail(files() | {"/sys/class/hwmon/hwmon1/temp1_input": "51000\n"})
    text += "\n==> /sys/class/hwmon/hwmon12/temp1_input <==\n64000\n"
    observed = thermal_throttling.parse(text)
    assert observed.counts == {f"{cpu}/{level}": 3 for cpu in CPUS for level in ("core", "package")}
    assert observed.times_ms == {key: 120 for key in observed.counts}
    assert observed.hottest_mdegc == 64000


@pytest.mark.parametrize(
    ("counts", "times_ms", "change", "text"),
    [
        ({}, {}, ThrottlingChange(0, 0, 0), ""),
        # Each CPU counts an event of the package.
        (
            dict.fromkeys(PACKAGE, 1),
            dict.fromkeys(PACKAGE, 7),
            ThrottlingChange(1, 0, 7),
            "for 7 ms (1 events)",
        ),
        # The second event has not ended.
        (
            {"cpu0/core": 1, "cpu2/core": 1},
            {"cpu0/core": 5},
            ThrottlingChange(1, 1, 5),
            f"{UNKNOWN} (1 events)",
        ),
        # It began before the phase.
        ({}, {"cpu0/core": 5000}, ThrottlingChange(0, 0, 5000), "for 5000 ms (0 events)"),
    ],
)
def test_throttling_of_a_phase(
    counts: dict[str, int], times_ms: dict[str, int], change: ThrottlingChange, text: str
) -> None:
    assert thermal_throttling.change(quiet(), moved(counts, times_ms)) == change
    time, unknown = thermal_throttling.checks(change, "server", 10 * SECOND)
    assert (time.found, time.ok) == (change.time_ms, change.time_ms <= 100)
    assert (unknown.found, unknown.ok) == (change.unmeasured, not change.unmeasured)
    described = thermal_throttling.describe(change, "server")
    assert described == (f"thermal throttling of server {text}" if text else "")


@pytest.mark.parametrize(("time_ms", "ok"), [(1, True), (100, True), (101, False), (9_000, False)])
def test_more_than_one_percent_of_the_phase_fails(time_ms: int, ok: bool) -> None:
    time, _ = thermal_throttling.checks(ThrottlingChange(1, 0, time_ms), "server", 10 * SECOND)
    assert (time.expected, time.found, time.tolerance, time.ok) == (0, time_ms, 100, ok)
    assert "thermal_throttle" in time.source and "server" in time.name


@pytest.mark.parametrize("more", [0, 1])
def test_without_times_any_event_fails(more: int) -> None:
    before = replace(quiet(), times_ms={})
    change = thermal_throttling.change(before, replace(moved({"cpu3/core": more}), times_ms={}))
    assert change == ThrottlingChange(more, more, None)
    [check] = thermal_throttling.checks(change, "server", SECOND)
    assert check.ok is not bool(more) and check.found == more


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (Throttling({}, {}), Throttling({}, {}), "no such counters"),
        (quiet(), Throttling({}, {}), "not the same CPUs"),
        (Throttling({}, {}), quiet(), "not the same CPUs"),
        (quiet(), replace(quiet(), times_ms={}), "not the same CPUs"),
        (quiet(), replace(quiet(), counts={k: v for k, v in quiet().counts.items() if "cpu3" not in k}),
         "not the same CPUs"),
        (quiet(), moved({"cpu0/core": -1}), "went back"),
        (quiet(), moved(times_ms={"cpu0/package": -120}), "went back"),
    ],
)  # fmt: skip
def test_other_counters_before_and_after_are_not_available(
    before: Throttling, after: Throttling, why: str
) -> None:
    with pytest.raises(ValueError, match=f"^not available: .*{why}"):
        thermal_throttling.change(before, after)


@pytest.mark.parametrize("text", ["", "\n", "tail: cannot open", "==> ", "==> x <==", "\0\x1b[2J", "1\n2\n"])
def test_a_host_without_such_files_has_no_counters(text: str) -> None:
    assert thermal_throttling.parse(text) == Throttling({}, {})


@pytest.mark.parametrize("value", ["", "x", "-1", "1 2", "1\n2", "0x1", "1e3", "9" * 21, "٣", "\x1b[2J"])
@pytest.mark.parametrize("name", ["core_throttle_count", "package_throttle_total_time_ms"])
def test_a_malformed_counter_is_an_error(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="which is not a count"):
        thermal_throttling.parse(tail(files() | {f"cpu1/thermal_throttle/{name}": f"{value}\n"}))


@pytest.mark.parametrize("value", ["", "x", "-300", "9" * 21])
def test_a_malformed_temperature_is_ignored(value: str) -> None:
    observed = thermal_throttling.parse(tail(files() | {"/sys/class/hwmon/hwmon1/temp1_input": value}))
    assert observed == quiet()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_command_finds_the_files(shell: str, tmp_path: Path) -> None:
    """The real tools, with another tree for /sys."""
    for name, text in files().items():
        path = tmp_path / "devices/system/cpu" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "devices/system/cpu/cpu0/thermal_throttle/core_throttle_max_time_ms").write_text("9\n")
    (tmp_path / "devices/system/cpu/cpuidle").mkdir()
    for number, (chip, value) in enumerate({"nvme": "99000", "coretemp": "48000"}.items()):
        path = tmp_path / f"class/hwmon/hwmon{number}"
        path.mkdir(parents=True)
        (path / "name").write_text(f"{chip}\n")
        (path / "temp1_input").write_text(f"{value}\n")
    script = thermal_throttling._SCRIPT.replace("/sys/", f"{os.fspath(tmp_path)}/")
    done = subprocess.run([shell, "-c", script], capture_output=True, text=True, check=True)
    observed = thermal_throttling.parse(done.stdout.replace(os.fspath(tmp_path), "/sys"))
    assert observed == replace(quiet(), hottest_mdegc=48000)


def test_this_machine_can_be_read() -> None:
    observed = thermal_throttling.read(LocalHost())
    assert observed.counts.keys() >= observed.times_ms.keys()


def test_reading_needs_no_root() -> None:
    # A command that begins with env needs no sudo (kit.hosts.sudo).
    client = ScriptedHost({"env": tail(files())}, default=AssertionError("not as the user"))
    assert thermal_throttling.read(client) == quiet()
