"""kit.instruments.machine.clock_steps: only steps and suspends count, not slewing or errors of readings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError
from kit.hosts.local import LocalHost
from kit.hosts.sudo import PRIVILEGED
from kit.instruments.machine import clock_steps
from kit.instruments.machine.clock_steps import ClockChange, WallClock
from tests.fakes import Answer, ScriptedHost

SECOND = 1_000_000_000
# /proc/timer_list of Linux 6.18; most timers are left out.
TIMER_LIST = """\
Timer List Version: v0.10
HRTIMER_MAX_CLOCK_BASES: 8
now at 53943089398437 nsecs

cpu: 0
 clock 0:
  .base:       00000000e67f2fa4
  .index:      0
  .resolution: 1 nsecs
  .offset:     0 nsecs
active timers:
 #0: <00000000cf808afc>, hrtimer_wakeup, S:01
 # expires at 53943090802145-53943090852145 nsecs [in 1403708 to 1453708 nsecs]
 clock 1:
  .base:       000000002668b442
  .index:      1
  .resolution: 1 nsecs
  .offset:     1795236245616451279 nsecs
active timers:
 clock 2:
  .base:       000000004f9fb2da
  .index:      2
  .resolution: 1 nsecs
  .offset:     25000000 nsecs
active timers:
 clock 3:
  .base:       00000000c68dc4b8
  .index:      3
  .resolution: 1 nsecs
  .offset:     1795236282616451279 nsecs
active timers:
  .expires_next   : 53943090802145 nsecs
cpu: 1
 clock 1:
  .index:      1
  .offset:     7 nsecs
"""
READ = WallClock(1795236245616451279, 25000000)
OFFSETS = st.integers(-(10**18), 2 * 10**18)


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        (TIMER_LIST, READ),
        # The wall clock is before the host's start.
        (TIMER_LIST.replace("1795236245616451279", str(2**64 - 5)), WallClock(-5, 25000000)),
        ("", None),
        ("Timer List Version: v0.10", None),
        (TIMER_LIST.split(" clock 1:")[0], None),
        (TIMER_LIST.split(" clock 2:")[0], None),
        ("\n".join(line for line in TIMER_LIST.splitlines() if ".offset" not in line), None),
        ("\n".join(line for line in TIMER_LIST.splitlines() if ".index" not in line), None),
        (TIMER_LIST.replace("1795236245616451279", "soon").replace("     7 nsecs", " x"), None),
        (TIMER_LIST.replace("1795236245616451279", "9" * 40).replace("     7 nsecs", " x"), None),
        ("\0" * 50, None),
    ],
)
def test_the_timer_list(text: str, clock: WallClock | None) -> None:
    assert clock_steps.parse_timer_list(text) == clock


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("clocks 100 5000100 1100 200\n", WallClock(5000000, 1000, 100)),
        ("Welcome!\nclocks 100 -50 100 100\n", WallClock(-150, 0, 0)),
        ("clocks 100 5000100 1100 99\n", None),
        ("clocks 100 5000100 1100\n", None),
        ("clocks 1 2 3 x\n", None),
        (f"clocks 1 2 3 {'9' * 30}\n", None),
        ("clocks \u0661 2 3 4\n", None),
        ("", None),
    ],
)
def test_readings_of_the_program(text: str, clock: WallClock | None) -> None:
    assert clock_steps.parse_readings(text) == clock


@given(OFFSETS, OFFSETS, st.integers(0, 10**13), st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_step_has_its_size_or_is_within_the_error(
    real: int, step: int, slept: int, error_before: int, error_after: int
) -> None:
    before = WallClock(real, 0, error_before)
    change = clock_steps.change(before, WallClock(real + step + slept, slept, error_after))
    error = error_before + error_after
    assert change.step_ns in (0, step) and change.slept_ns in (0, slept)
    assert change.step_ns == step or abs(step) <= error
    assert change.slept_ns == slept or slept <= error


@given(OFFSETS, st.data())
def test_readings_of_an_unchanged_clock_are_no_step(real: int, data: st.DataObject) -> None:
    """The clocks are read at any time between the first and the last reading."""
    clocks = []
    for _ in range(2):
        began, *times, ended = sorted(data.draw(st.lists(st.integers(0, 10**12), min_size=4, max_size=4)))
        text = f"clocks {began} {times[0] + real} {times[1] + 77} {ended}\n"
        clock = clock_steps.parse_readings(text)
        assert clock
        clocks.append(clock)
    exact = WallClock(real, 77)
    assert clock_steps.change(clocks[0], clocks[1]) == ClockChange(0, 0)
    assert clock_steps.change(exact, clocks[1]) == clock_steps.change(clocks[0], exact) == ClockChange(0, 0)


@pytest.mark.parametrize(
    ("step_ns", "step_us", "ok"),
    [
        (0, 0, True),
        (999, 0, True),
        (-999, 0, True),
        (-300_000_000, -300_000, True),
        (SECOND, 1_000_000, True),  # a leap second
        (-SECOND - 900_000, -1_000_900, True),
        (1_002 * 1_000_000, 1_002_000, False),
        (-3600 * SECOND, -3_600_000_000, False),
    ],
)
def test_up_to_a_second_passes(step_ns: int, step_us: int, ok: bool) -> None:
    check = clock_steps.check(ClockChange(step_ns, 0), "client3")
    assert (check.expected, check.found, check.ok) == (0, step_us, ok)
    assert "client3" in check.name and "CLOCK_REALTIME" in check.source


def client(timer_list: Answer, python: Answer) -> ScriptedHost:
    answers = {"head": timer_list, "env": python}
    assert not answers.keys() & PRIVILEGED
    return ScriptedHost(answers, name="client3", default=AssertionError("no such command"))


DENIED = (1, "", "head: cannot open '/proc/timer_list' for reading: Permission denied")


@pytest.mark.parametrize(
    ("timer_list", "python", "clock", "programs"),
    [(TIMER_LIST, "", READ, ["head"]), (DENIED, "clocks 1 9 1 3\n", WallClock(8, 0, 2), ["head", "env"])],
)
def test_only_an_ordinary_user_needs_an_interpreter(
    timer_list: Answer, python: str, clock: WallClock, programs: list[str]
) -> None:
    host = client(timer_list, python)
    assert clock_steps.read(host) == clock
    assert [argv[0] for argv in host.calls] == programs


def test_a_host_without_both_sources_is_named() -> None:
    with pytest.raises(HostError, match="client3: its wall clock cannot be read"):
        clock_steps.read(client("garbage", "Traceback"))


def test_both_sources_of_this_machine_agree() -> None:
    here = LocalHost()
    program = clock_steps.parse_readings(here.run(clock_steps._PYTHON).stdout)
    assert program and program.error_ns < SECOND
    assert clock_steps.change(clock_steps.read(here), program) == ClockChange(0, 0)
