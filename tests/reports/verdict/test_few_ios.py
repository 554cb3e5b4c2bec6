"""Expectations that have too few I/Os to be judged, or none: what is said, and what it makes of a run."""

import polars as pl
import pytest

from kit.config.overrides import with_sets
from kit.config.workload_base import WORKLOADS, read_source
from kit.session.presentation import code_of
from kit.store.load.open_loop import CapacitySearch
from kit.store.phase import Phase
from kit.store.summary import Summary
from reports.verdict.remedies import longer
from tests.reports import synthetic
from tests.reports.synthetic import summarise

FRAME = synthetic.latency()
WISH = {"phase": "read", "op": "read", "tier": "l2arc", "min_count": 1, "inside": False}


def seen(min_count, changed=lambda manifest: None, **limits):
    """A run of 1200 writes by the log device in 12 s, of which `min_count` are expected."""
    manifest = synthetic.manifest()
    wish = {**WISH, "phase": "write-slog", "op": "write", "tier": "slog", "min_count": min_count, **limits}
    manifest["expect"] = [wish]
    changed(manifest)
    return Summary.from_json(summarise(FRAME, manifest), "summary.json")


def also_slow(manifest):
    manifest["expect"] = [*manifest["expect"], {**WISH, "p50_us_max": 1.0}]


def also_doubted(manifest):
    manifest["problems"] = [{"code": "host-health", "text": "the server slept"}]


@pytest.mark.parametrize(
    ("min_count", "limits", "change", "verdict", "usable", "ids"),
    [
        (1200, {}, None, "valid", True, set()),
        (1201, {}, None, "unknown", True, {"FEW-IOS"}),
        (1, {"p999_us_max": 1e6}, None, "unknown", True, {"FEW-IOS"}),
        (1, {"ratio_to": {"phase": "read", "op": "read", "tier": "dram"}, "p99_ratio_max": 99}, None, "valid",
         True, set()),
        # Too few I/Os hide no limit that is known to be broken, whether of the row or of another.
        (10**6, {"p50_us_max": 1.0}, None, "invalid", True,
         {"FEW-IOS", "EXPECT:write-slog:write:slog:p50_us_max"}),
        (10**6, {}, also_slow, "invalid", True, {"FEW-IOS", "EXPECT:read:read:l2arc:p50_us_max"}),
        (10**6, {}, also_doubted, "unknown", False, {"FEW-IOS", "HOST-HEALTH"}),
        # Another tier than the expected one answered.
        (1, {"tier": "pool"}, None, "invalid", True, {"EXPECT:write-slog:write:pool:min_count"}),
    ],
)  # fmt: skip
def test_too_few_ios_are_no_failure_of_the_server(min_count, limits, change, verdict, usable, ids):
    summary = seen(min_count, change or (lambda manifest: None), **limits)
    assert (summary.verdict, summary.is_usable) == (verdict, usable)
    assert {each.id for each in summary.causes} == ids
    assert code_of(summary) == {"valid": 0, "invalid": 1, "unknown": 3}[verdict]


@pytest.mark.parametrize(
    ("needed", "duration"),
    [(1201, "14s"), (12_000, "140s"), (10**7, "2000min")],
)
def test_too_few_ios_say_how_long_the_phase_has_to_be(needed, duration):
    """A tenth longer than the rate says, in two digits, rounded up: a key that --set takes."""
    (reason,) = seen(needed).reasons
    setting = f"phase.write-slog.duration={duration}"
    assert reason == (
        f"write-slog: synchronous writes: too few I/Os for the statistic: 1,200 of at least {needed:,}; "
        f"the phase needs about {duration} here: --set {setting}."
    )
    with_sets(read_source(WORKLOADS / "top-speeds.toml"), [setting])


def test_of_a_search_for_a_capacity_each_look_has_to_be_longer():
    """The duration of such a phase is that of a look, and the search has as many looks as it needs."""
    phase = Phase.model_construct(
        name="writes", start_ns=0, end_ns=10**10, capacity=CapacitySearch(p99_max_ns=1, end="unknown")
    )
    assert longer(phase, 2.5) == "each look needs 3 times phase.writes.duration and capacity.ios (--set)"


def test_rows_of_a_phase_say_the_same_duration():
    def more(manifest):
        manifest["expect"] = [{**WISH, "tier": tier, "min_count": 3000} for tier in ("dram", "l2arc", "disk")]

    said = {reason.rpartition("=")[2] for reason in seen(1, more).reasons}
    assert len(said) == 1 and len(seen(1, more).reasons) == 3


@pytest.mark.parametrize("problem", ["the server is lost", ""])
def test_of_phases_that_did_not_run_nothing_is_expected(problem):
    def stopped(manifest):
        manifest["expect"] = [{**WISH, "phase": phase} for phase in ("read", "write-slog", "write-pool")]
        manifest["phases"] = manifest["phases"][:1]
        manifest["problems"] = synthetic.problems(problem) if problem else []

    frame = FRAME.filter(pl.col("phase") == "read")
    manifest = synthetic.manifest(frame)
    stopped(manifest)
    result = summarise(frame, manifest)
    assert result["reasons"] == [*([problem] if problem else []), "Not measured: write-slog, write-pool."]
    assert result["verdict"] == "unknown" and [each["ok"] for each in result["expect"]] == [True, None, None]
    manifest["phases"] = []
    assert not any("I/Os" in each for each in summarise(frame.clear(), manifest)["reasons"])
