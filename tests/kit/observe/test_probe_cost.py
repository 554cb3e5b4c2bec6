"""What the tracer's probes cost, from what a window prints."""

from __future__ import annotations

import pytest

from kit.core.bins import bin_index
from kit.observe import probe_cost
from kit.observe.probe_cost import ProbeCost
from kit.trace.output import Snapshot, Trace
from tests.fakes import ScriptedHost
from tests.kit.observe.test_tracer_use import ANSWERS, PLACE

NFSD = "io 0 0\nproc3 22 0 0 0 0 0 0 {reads} 100" + " 0" * 14 + "\n"
# A program with two descriptors, and a link of another one, which has no sums.
PROGRAMS = (
    "prog_id:\t7\nrun_time_ns:\t{ns}\nrun_cnt:\t12\nprog_id:\t7\nrun_time_ns:\t{ns}\nrun_cnt:\t12\n"
    "prog_id:\t9\nprog_id:\t8\nrun_time_ns:\t500\nrun_cnt:\t1\n"
)


def window(before: str, after: str, ns: int) -> dict[str, str]:
    parts = (before, PROGRAMS.format(ns=1_000_000), after, PROGRAMS.format(ns=1_000_000 + ns), "")
    return ANSWERS | {"sh -c": "--hsp--\n".join(parts)}


def seen(answers: dict[str, str], mean_ns: float, *, local: bool = False) -> ProbeCost:
    cost, host = ProbeCost(), ScriptedHost(answers)
    probe_cost.look(cost, host, PLACE, lambda: mean_ns, local=local)
    kind = "local" if local else "nfs"
    for argv in host.called("sh"):
        assert argv == ("sh", "-c", probe_cost.WINDOW, "sh", PLACE.directory, "4711", kind)
    return cost


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("nfs", NFSD.format(reads=5000), NFSD.format(reads=15_000)),
        ("local", "reads 4 5000\nwrites 4 20\n", "reads 4 15000\nwrites 4 20\n"),
    ],
)
def test_it_is_the_time_of_the_programs_by_the_requests_of_the_window(
    kind: str, before: str, after: str
) -> None:
    # 20 ms for 10,000 requests of 50 us.
    cost = seen(window(before, after, 20_000_000), 50_000, local=kind == "local")
    assert (cost.windows, cost.calls, cost.run_ns) == (1, 10_000, 20_000_000)
    assert cost.part == pytest.approx(0.04) and cost.of_cpu == pytest.approx(0.02)
    assert cost.is_over(0.03) and not cost.is_over(0.05)
    assert cost.sentence().startswith(
        "The tracer's probes ran 2.0 % of one CPU's time (1 window of 1 s): at most 2 µs of each read and "
        "write, 4.0 % of its mean latency."
    )
    assert "after 20 s: its probes took at most 4.0 % of the mean latency, limit 3 %" in cost.over(20, 0.03)


def test_few_requests_and_short_runs_are_no_reason_to_end() -> None:
    few = seen(window(NFSD.format(reads=10), NFSD.format(reads=30), 20_000_000), 50_000)
    assert few.part is None and not few.is_over(0.0) and "too few reads and writes" in few.sentence()
    # A scrub runs programs, too: 5 ms in a second, beside 100 requests.
    short = seen(window(NFSD.format(reads=0), NFSD.format(reads=100), 5_000_000), 50_000)
    assert short.part == pytest.approx(1) and not short.is_over(0.05)


@pytest.mark.parametrize("gone", ["process", "window"])
def test_without_a_count_nothing_is_said(gone: str) -> None:
    answers = window(NFSD.format(reads=0), NFSD.format(reads=100), 1)
    key = f"cat {PLACE.ready}" if gone == "process" else "sh -c"
    cost = seen(answers | {key: ""}, 50_000)
    assert not cost.windows and "not known" in cost.sentence() and not cost.is_over(0)


def test_the_mean_is_that_of_all_classes() -> None:
    counts = {
        ("read", 1, -1): {int(bin_index([10_000])[0]): 3},
        ("write", 2, 1): {int(bin_index([50_000])[0]): 1},
    }
    trace = Trace(snapshots=[Snapshot(1, {}), Snapshot(2, counts)])
    assert probe_cost.mean_ns_of(trace) == pytest.approx(20_000, rel=0.07)
    assert probe_cost.mean_ns_of(Trace()) == 0
