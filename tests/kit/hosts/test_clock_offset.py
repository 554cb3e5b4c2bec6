"""kit.hosts.clock_offset: the true offset is within the reported error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError
from kit.hosts.clock_offset import Clocks, Offset, Trip, combined, difference, estimate, read_clock_ns
from kit.hosts.local import LocalHost
from tests.fakes import Command, ScriptedHost

pytestmark = pytest.mark.any_python

TIMES = st.integers(0, 10**15)
WAYS = st.integers(0, 10**9)
TRUTHS = st.integers(-(10**15), 10**15)


@st.composite
def trips(draw: st.DrawFn) -> tuple[list[Trip], int]:
    """Round trips to a clock that is `truth` ahead of the local one, and `truth`."""
    truth = draw(TRUTHS)
    drawn = draw(st.lists(st.tuples(TIMES, WAYS, WAYS), min_size=1, max_size=6))
    return [Trip(sent, sent + out + truth, sent + out + back) for sent, out, back in drawn], truth


@given(trips())
def test_the_error_is_at_most_half_of_the_fastest_round_trip(observed: tuple[list[Trip], int]) -> None:
    made, truth = observed
    offset = estimate(made)
    assert abs(offset.ns - truth) <= offset.error_ns
    assert offset.error_ns <= min(trip.received_ns - trip.sent_ns for trip in made) / 2 + 1


@given(trips(), trips())
def test_errors_of_two_hosts_add_up(first: tuple[list[Trip], int], second: tuple[list[Trip], int]) -> None:
    observed = difference(estimate(first[0]), estimate(second[0]))
    assert abs(observed.ns - (first[1] - second[1])) <= observed.error_ns


@given(TRUTHS, TRUTHS, st.floats(0, 1))
def test_a_clock_that_drifts_is_within_the_error_at_all_times_between(
    begin: int, end: int, part: float
) -> None:
    observed = combined(Offset(begin, 10), Offset(end, 20))
    then = begin + int((end - begin) * part)
    assert abs(observed.ns - then) <= observed.error_ns


def host_with_clock(name: str, boot: str, ahead_ns: int = 0) -> ScriptedHost:
    """A host of an ordinary user: a boot id, and this machine's clock set `ahead_ns` forward."""

    def now(command: Command) -> str:
        return f"now at {read_clock_ns(LocalHost()) + ahead_ns} nsecs\n"

    return ScriptedHost(
        {"cat": f"{boot}\n", "head": (1, "", "Permission denied"), "env": now},
        name=name,
        default=AssertionError("no such command"),
    )


def test_hosts_of_one_kernel_have_one_clock_and_others_are_measured() -> None:
    server = host_with_clock("server", "a")
    same, other = host_with_clock("same", "a", 10**12), host_with_clock("other", "b", 7 * 10**12)
    clocks = Clocks(server)
    for _ in range(3):
        observed = clocks.offsets([same, other])
        assert observed["same"] == Offset(0, 0)
        assert 0 < observed["other"].error_ns
        assert abs(observed["other"].ns - 7 * 10**12) <= observed["other"].error_ns
    # The boot id is read once, and no clock of the same kernel.
    assert [argv[0] for argv in same.calls] == ["cat"]


def test_one_machine_per_kernel() -> None:
    server, same = host_with_clock("server", "a"), host_with_clock("same", "a")
    other, third = host_with_clock("other", "b"), host_with_clock("third", "b")
    observed = Clocks(server).machines([server, same, other, third])
    assert observed == [server, other]


def test_a_host_without_a_readable_clock_is_named() -> None:
    with pytest.raises(HostError, match="client7: its monotonic clock cannot be read"):
        read_clock_ns(ScriptedHost(default="?", name="client7"))
