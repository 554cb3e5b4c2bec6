"""kit.instruments.host_health: what the machines of a phase tell, in the entry of the manifest."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.clock import Clock
from kit.instruments import clock_steps, host_health, thermal_throttling
from kit.instruments.base import Check, Measured, Missing
from kit.instruments.clock_steps import WallClock
from kit.instruments.host_health import Change, Machine
from kit.instruments.thermal_throttling import Throttling
from tests.fakes import ScriptedHost

SECOND = 1_000_000_000
COOL = Throttling({"cpu0/core": 1}, {"cpu0/core": 10}, 40_000)
HOT = Throttling({"cpu0/core": 2}, {"cpu0/core": 510}, 99_000)
CLOCK = WallClock(10**18, 0)


def entry(observed: list[Change], duration_ns: int = 10 * SECOND) -> dict[str, Any]:
    """What the report of a phase puts into the manifest."""
    phase = Measured("read", 512, duration_ns, 100, 900, {}, 0, Clock())
    report = host_health.report(observed, phase)
    return {
        "checks": [check.as_json() for check in report.checks if isinstance(check, Check)],
        "unavailable": [check.as_json() for check in report.checks if isinstance(check, Missing)],
        "events": report.events,
        "problems": report.problems,
        **report.entry,
    }


def filled(before: Machine, after: Machine, duration_ns: int = 10 * SECOND) -> dict[str, Any]:
    return entry(host_health.changes({"s": before}, {"s": after}), duration_ns)


def broken(found: dict[str, Any]) -> list[str]:
    return [check["name"] for check in found["checks"] if not check["ok"]]


def test_nothing_happened() -> None:
    found = filled(Machine(COOL, CLOCK), Machine(COOL, CLOCK))
    assert len(found["checks"]) == 3 and broken(found) == []
    assert found["events"] == found["problems"] == found["unavailable"] == []
    assert found["machines"] == [
        {"host": "s", "throttled": 0, "throttled_ms": 0, "hottest_mdegc": [40_000, 40_000],
         "clock_step_ns": 0, "slept_ns": 0}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("duration_ns", "names"),
    [(50 * SECOND, []), (49 * SECOND, ["CPU of s held back by heat, in ms"])],
)
def test_heat_is_on_the_time_axis_and_beyond_a_share_it_decides(duration_ns: int, names: list[str]) -> None:
    found = filled(Machine(COOL, CLOCK), Machine(HOT, CLOCK), duration_ns)
    assert broken(found) == names
    [event] = found["events"]
    assert (event["kind"], event["time_ns"], event["end_ns"]) == ("throttling", 100, 900)
    assert event["text"] == "CPU of s held back by heat for 500 ms (1 times)"
    assert found["machines"][0]["hottest_mdegc"] == [40_000, 99_000]


@pytest.mark.parametrize(
    ("step_ns", "names"),
    [(-250_000_000, []), (2 * SECOND, ["wall clock of s set forward, in us"])],
)
def test_a_step_is_on_the_time_axis_and_beyond_a_second_it_decides(step_ns: int, names: list[str]) -> None:
    found = filled(Machine(COOL, CLOCK), Machine(COOL, WallClock(CLOCK.real_ns + step_ns, 0)))
    assert broken(found) == names and found["problems"] == []
    [event] = found["events"]
    assert event["kind"] == "clock-step"
    assert event["text"] == f"wall clock of s set by {step_ns / 1e9:+.6f} s"


def test_a_host_that_slept_is_a_problem_and_no_step() -> None:
    found = filled(Machine(COOL, CLOCK), Machine(COOL, WallClock(CLOCK.real_ns + SECOND, SECOND)))
    assert broken(found) == []
    assert found["problems"] == ["s slept for 1.000 s during the phase"]
    assert [event["kind"] for event in found["events"]] == ["suspend"]


@pytest.mark.parametrize("place", [0, 1])
def test_what_a_machine_does_not_tell_is_neither_passed_nor_failed(place: int) -> None:
    told = [Machine(COOL, CLOCK), Machine(HOT, CLOCK)]
    told[place] = Machine("not available: heat", "not available: time")
    found = filled(*told)
    assert found["checks"] == found["events"] == found["problems"] == []
    assert [(check["source"], check["why"]) for check in found["unavailable"]] == [
        (thermal_throttling.SOURCE, "not available: heat"),
        (clock_steps.SOURCE, "not available: time"),
    ]
    assert found["machines"][0]["throttled"] is None and found["machines"][0]["slept_ns"] is None


def test_a_guest_has_a_clock_and_no_counters_of_heat() -> None:
    bare = Machine(Throttling({}, {}), CLOCK)
    found = filled(bare, bare)
    assert [check["source"] for check in found["checks"]] == [clock_steps.SOURCE]
    [missing] = found["unavailable"]
    assert missing["name"] == "CPU of s held back by heat"
    assert missing["why"] == "not available: this host does not count it"


def test_hosts_that_answer_nonsense_or_not_at_all_are_told_of() -> None:
    garbage = "==> cpu0/thermal_throttle/core_throttle_count <==\nmany\n"
    hosts = [
        ScriptedHost(name="silent"),
        ScriptedHost(name="odd", default=garbage),
        ScriptedHost(name="lost"),
    ]
    hosts[2].lost = True
    found = host_health.read(hosts)
    assert found["silent"].throttling == Throttling({}, {})
    assert found["odd"].throttling == (
        "not available: cpu0/thermal_throttle/core_throttle_count has 'many', which is no count"
    )
    assert found["lost"] == Machine(*["not available: lost: the connection broke"] * 2)
    assert len(hosts[2].calls) == 1
    assert all("its wall clock cannot be read" in str(found[name].wall) for name in ("silent", "odd"))
    whole = entry(host_health.changes(found, found))
    assert whole["checks"] == [] and len(whole["unavailable"]) == 6
    assert [one["host"] for one in whole["machines"]] == ["silent", "odd", "lost"]


def test_changes_are_in_the_order_of_the_hosts() -> None:
    one = {"b": Machine(COOL, CLOCK), "a": Machine(COOL, CLOCK)}
    found = host_health.changes(one, dict(sorted(one.items())))
    assert [type(change) for change in found] == [Change, Change]
    assert [change.host for change in found] == ["b", "a"]
