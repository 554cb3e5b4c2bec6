"""kit.instruments.machine.host_health: the health of machines in the manifest's entry of a phase."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.clock import Clock
from kit.instruments.base import MeasuredPhase
from kit.instruments.machine import clock_steps, host_health, thermal_throttling
from kit.instruments.machine.clock_steps import WallClock
from kit.instruments.machine.host_health import MachineHealth
from kit.instruments.machine.thermal_throttling import Throttling
from kit.store.phase import Check, Missing
from tests.fakes import ScriptedHost

SECOND = 1_000_000_000
COOL = Throttling({"cpu0/core": 1}, {"cpu0/core": 10}, 40_000)
HOT = Throttling({"cpu0/core": 2}, {"cpu0/core": 510}, 99_000)
CLOCK = WallClock(10**18, 0)


def entry(
    before: dict[str, MachineHealth], after: dict[str, MachineHealth], duration_ns: int = 10 * SECOND
) -> dict[str, Any]:
    """The entry of the manifest."""
    phase = MeasuredPhase({"read": 512}, duration_ns, 100, 900, {}, 0, Clock())
    report = host_health.report(before, after, phase)
    return {
        "checks": [check.as_json() for check in report.checks if isinstance(check, Check)],
        "unavailable": [check.as_json() for check in report.checks if isinstance(check, Missing)],
        "events": report.events,
        "problems": report.problems,
        **report.entry,
    }


def filled(before: MachineHealth, after: MachineHealth, duration_ns: int = 10 * SECOND) -> dict[str, Any]:
    return entry({"s": before}, {"s": after}, duration_ns)


def broken(observed: dict[str, Any]) -> list[str]:
    return [check["name"] for check in observed["checks"] if not check["ok"]]


def test_nothing_happened() -> None:
    observed = filled(MachineHealth(COOL, CLOCK), MachineHealth(COOL, CLOCK))
    assert len(observed["checks"]) == 3 and broken(observed) == []
    assert observed["events"] == observed["problems"] == observed["unavailable"] == []
    assert list(observed["machines"]) == [
        {"host": "s", "throttled": 0, "throttled_ms": 0, "hottest_mdegc": (40_000, 40_000),
         "clock_step_ns": 0, "slept_ns": 0}
    ]  # fmt: skip


THROTTLED = ("throttling", "thermal throttling of s for 500 ms (1 events)")


def after(step_ns: int, slept_ns: int = 0) -> MachineHealth:
    return MachineHealth(COOL, WallClock(CLOCK.real_ns + step_ns + slept_ns, slept_ns))


@pytest.mark.parametrize(
    ("later", "duration_s", "names", "event", "problems"),
    [
        (MachineHealth(HOT, CLOCK), 50, [], THROTTLED, []),
        (MachineHealth(HOT, CLOCK), 49, ["thermal throttling of s, in ms"], THROTTLED, []),
        (after(-250_000_000), 10, [], ("clock-step", "wall clock of s set by -0.250000 s"), []),
        (after(2 * SECOND), 10, ["wall clock step of s, in us"],
         ("clock-step", "wall clock of s set by +2.000000 s"), []),
        (after(0, slept_ns=SECOND), 10, [], ("suspend", "s slept for 1.000 s"),
         ["s slept for 1.000 s during the phase"]),
    ],
)  # fmt: skip
def test_changes_are_events_failed_checks_and_problems(
    later: MachineHealth, duration_s: int, names: list[str], event: tuple[str, str], problems: list[str]
) -> None:
    observed = filled(MachineHealth(COOL, CLOCK), later, duration_s * SECOND)
    assert broken(observed) == names and observed["problems"] == problems
    assert [(e.kind, e.text, e.time_ns, e.end_ns) for e in observed["events"]] == [(*event, 100, 900)]
    assert observed["machines"][0]["hottest_mdegc"] == (40_000, later.throttling.hottest_mdegc)  # type: ignore[union-attr]


@pytest.mark.parametrize("place", [0, 1])
def test_values_that_are_not_available_neither_pass_nor_fail(place: int) -> None:
    readings = [MachineHealth(COOL, CLOCK), MachineHealth(HOT, CLOCK)]
    readings[place] = MachineHealth("not available: heat", "not available: time")
    observed = filled(*readings)
    assert observed["checks"] == observed["events"] == observed["problems"] == []
    assert [(check["source"], check["why"]) for check in observed["unavailable"]] == [
        (thermal_throttling.SOURCE, "not available: heat"),
        (clock_steps.SOURCE, "not available: time"),
    ]
    assert observed["machines"][0]["throttled"] is None and observed["machines"][0]["slept_ns"] is None


def test_a_guest_has_a_clock_and_no_throttling_counters() -> None:
    bare = MachineHealth(Throttling({}, {}), CLOCK)
    observed = filled(bare, bare)
    assert [check["source"] for check in observed["checks"]] == [clock_steps.SOURCE]
    [missing] = observed["unavailable"]
    assert missing["name"] == "thermal throttling of s"
    assert missing["why"] == "not available: this host has no such counters"


def test_hosts_with_malformed_or_no_answers_are_not_available() -> None:
    garbage = "==> cpu0/thermal_throttle/core_throttle_count <==\nmany\n"
    hosts = [
        ScriptedHost(name="silent"),
        ScriptedHost(name="odd", default=garbage),
        ScriptedHost(name="lost"),
    ]
    hosts[2].lost = True
    observed = host_health.read(hosts)
    assert observed["silent"].throttling == Throttling({}, {})
    assert observed["odd"].throttling == (
        "not available: cpu0/thermal_throttle/core_throttle_count has 'many', which is not a count"
    )
    assert observed["lost"] == MachineHealth(*["not available: lost: the connection broke"] * 2)
    assert len(hosts[2].calls) == 1
    assert all("its wall clock cannot be read" in str(observed[name].wall) for name in ("silent", "odd"))
    whole = entry(observed, observed)
    assert whole["checks"] == [] and len(whole["unavailable"]) == 6
    assert [machine["host"] for machine in whole["machines"]] == ["silent", "odd", "lost"]


def test_machines_are_in_the_order_of_the_hosts() -> None:
    before = {"b": MachineHealth(COOL, CLOCK), "a": MachineHealth(COOL, CLOCK)}
    observed = entry(before, dict(sorted(before.items())))
    assert [machine["host"] for machine in observed["machines"]] == ["b", "a"]
