"""Limits of a workload."""

import numpy as np
import polars as pl
import pytest

from kit.config.workload import read_workload
from kit.config.workload_base import WORKLOADS
from kit.core.errors import ConfigError
from kit.store.latency import Latency
from kit.store.summary import Row
from reports.verdict import expectations
from tests.reports import synthetic
from tests.reports.synthetic import junit_suite, render, summarise
from tests.truth import made_up

ROW = {
    "phase": "read", "layer": "nfs-server", "op": "read", "tier": "l2arc", "count": 500, "share": 0.25,
    "p50_us": 150.0, "p95_us": 170.0, "p99_us": 190.0, "p999_us": None,
    "range_us": [130, 180], "published": None,
}  # fmt: skip
FRAME = synthetic.latency()
WISH = {"phase": "read", "op": "read", "tier": "l2arc", "min_count": 1, "inside": False}


def judge(manifest, *rows):
    """The expectations as summary.json has them, and what is not met."""
    rows = [Row.from_json({"min_us": 0.0, "max_us": 0.0, **row}, "row") for row in rows]
    made, outcomes = expectations.judge(synthetic.parsed(manifest), rows, Latency.of(FRAME))
    return [each.as_json() for each in made], [each for each in outcomes if each.decides]


def judged(**limits):
    (each,), reasons = judge({"expect": [{**WISH, **limits}]}, ROW)
    assert each["reasons"] == [*map(str, reasons)] and bool(each["ok"]) == (not reasons)
    return each


@pytest.mark.parametrize(("name", "met", "unmet"), [
    ("p50_us_max", 150.0, 130.0), ("p95_us_max", 170.0, 142.0), ("p99_us_max", 190.0, 10.0),
    # Of the frame 28.5 % are its own, of the row 25 %.
    ("share_min", 0.25, 0.32), ("share_max", 0.32, 0.25), ("share_max", 1.0, 0.0),
])  # fmt: skip
def test_a_limit(name, met, unmet):
    assert judged(**{name: met})["ok"]
    failed = judged(**{name: unmet})
    assert not failed["ok"] and "limit" in failed["reasons"][0]
    assert failed["limits"] == [
        {"name": name, "limit": unmet, "found": ROW[name.removesuffix("_max").removesuffix("_min")],
         "ok": False, "reason": failed["reasons"][0].partition(": ")[2]}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("counts", "open_"),
    [
        # Above 100 us: 5 of 1000 in the bin that holds the limit, and nothing beyond.
        ([(98_304, 100_352, 1000, 1)], True),
        ([(65_536, 67_584, 985, 1), (98_304, 100_352, 5, 1), (131_072, 135_168, 10, 1)], True),
        ([(65_536, 67_584, 50, 20), (131_072, 135_168, 1, 1)], False),
        # One window says nothing of how windows differ.
        ([(65_536, 67_584, 999, 1), (131_072, 135_168, 1, 1)], True),
        # As many slow ones, all in one of the windows: I/Os that depend on each other tell less.
        ([(65_536, 67_584, 100, 20), (131_072, 135_168, 1, 8)], False),
        ([(65_536, 67_584, 100, 20), (131_072, 135_168, 8, 1)], True),
    ],
)
def test_a_percentile_is_held_against_its_limit_by_what_the_run_leaves_open(counts, open_):
    rows = [
        (second * synthetic.SECOND, "read", "nfs-server", "lab", "read", "l2arc", lo, hi, count)
        for lo, hi, count, seconds in counts
        for second in range(seconds)
    ]
    frame = synthetic.table(rows)
    manifest = synthetic.manifest(frame)
    manifest["expect"] = [{**WISH, "p99_us_max": 100.0}]
    result = summarise(frame, manifest)
    (limit,) = result["expect"][0]["limits"]
    assert limit["ok"] is (None if open_ else True) and ("too near to the limit" in limit["reason"]) == open_
    (outcome,) = (each for each in result["outcomes"] if each["id"].endswith(":p99_us_max"))
    assert outcome.get("makes", "valid") == ("unknown" if open_ else "valid")


def test_a_median_in_the_bin_of_its_limit_is_open():
    """4000 I/Os of 303 us, and one of 200: their bin begins below 300."""
    at = np.arange(4001) % 12 * synthetic.SECOND
    labels = {"phase": "read", "layer": "nfs-server", "host": "lab", "op": "read", "tier": "l2arc"}
    frame = synthetic.binned(at, np.array([303_000] * 4000 + [200_000]), **labels)
    manifest = synthetic.manifest(frame) | {"expect": [{**WISH, "p50_us_max": 300.0}]}
    (limit,) = summarise(frame, manifest)["expect"][0]["limits"]
    assert limit["ok"] is None and "too near to the limit" in limit["reason"], limit


def test_a_withheld_percentile_is_not_judged_and_says_how_many_it_takes():
    open_ = judged(p999_us_max=1e9)
    assert open_["ok"] is open_["limits"][0]["ok"] is None and "withheld" in open_["limits"][0]["reason"]
    assert open_["reasons"] == [
        "read: reads from the SSD cache: too few I/Os for the statistic: 500 of at least 3,688."
    ]


def test_a_tier_without_ios():
    wish = {**WISH, "tier": "disk", "p50_us_max": 5.0, "share_max": 0.5}
    (each,), reasons = judge({"expect": [wish]}, ROW)
    assert not each["ok"] and len(reasons) == 2 and each["limits"][1]["found"] == 0


def test_what_clients_see_is_judged_where_no_server_was_traced():
    row = {**ROW, "layer": "client", "tier": "all"}
    wish = {**WISH, "tier": "all", "layer": "client", "p99_us_max": 180.0}
    for tracing in ({}, {"tracing": {"kind": "none"}}):
        manifest = {**tracing, "expect": [wish, WISH]}
        (of_clients, on_a_tier), reasons = judge(manifest, row, ROW)
        assert of_clients["ok"] is False and "p99 of reads is 190 µs, limit 180 µs" in str(reasons[0])
        assert on_a_tier["ok"] is (None if tracing else True)


# Of the L2ARC reads of FRAME, 50 in 55 are from 139.264 to 143.36 us, the others from there to 147.456.
HALF_IN = {"reference": "r", "range_us": [100.0, 145.408], "inside": False}
IN = (50 + 5 / 2) / 55


def inside(published, **wish):
    row = {**ROW, "min_us": 139.264, "max_us": 147.456, "published": published}
    (each,), _ = judge({"expect": [{**WISH, "inside": True, **wish}]}, row)
    return each


def test_the_share_inside_takes_the_place_of_the_range():
    assert "95 % of reads from the SSD cache took" in inside(HALF_IN)["reasons"][0]
    met = inside(HALF_IN, inside_share_min=0.85)
    assert met["ok"] and met["limits"][0]["found"] == pytest.approx(IN) and not met["reasons"]
    whole = {**HALF_IN, "range_us": [100.0, 143.36]}
    unmet = inside(whole, inside_share_min=0.96)
    assert unmet["limits"][0]["ok"] is unmet["ok"] is False
    (reason,) = unmet["reasons"]
    assert reason.endswith("90.91 % of reads from the SSD cache took 100 to 143 µs, limit at least 96 %.")


@pytest.mark.parametrize("limits", [
    # The published range cuts a bin; 660 I/Os leave 88 to 93 % open.
    {"inside_share_min": 0.96}, {"inside_share_min": IN}, {"share_min": 0.28}, {"share_max": 0.29},
])  # fmt: skip
def test_a_limit_on_a_share_is_open_where_the_run_leaves_it_open(limits):
    open_ = inside(HALF_IN, **limits) if "inside_share_min" in limits else judged(**limits)
    assert open_["ok"] is open_["limits"][0]["ok"] is None
    assert "unknown: " in open_["reasons"][0] and "of I/Os like these it is" in open_["reasons"][0]


def test_the_share_inside_is_judged_where_inside_is():
    assert inside(HALF_IN, inside=False, inside_share_min=1.0) == {**inside(HALF_IN, inside=False)}
    assert "no published range" in inside(None, inside_share_min=0.5)["reasons"][0]


def test_a_share_inside_without_any_io():
    wish = {**WISH, "tier": "disk", "inside": True, "inside_share_min": 0.0, "min_count": 0}
    (each,), reasons = judge({"expect": [wish]}, ROW)
    assert not each["ok"] and "no I/O that could be inside" in str(reasons[0])


def of_run(manifest_change=lambda manifest: None, **limits):
    """A limit on the writes of write-slog: one interval a second, each with I/Os up to 147.456 us."""
    manifest = synthetic.manifest()
    manifest["expect"] = [{**WISH, "phase": "write-slog", "op": "write", "tier": "slog", **limits}]
    manifest_change(manifest)
    result = summarise(FRAME, manifest)
    (each,) = result["expect"]
    (limit,) = each["limits"]
    verdict = {True: "valid", False: "invalid", None: "unknown"}[limit["ok"]]
    assert each["ok"] is limit["ok"] and result["verdict"] == verdict
    assert (not limit["reason"]) == (each["ok"] is True)
    return limit, result


def with_extremes(manifest):
    key = {"layer": "nfs-server", "host": "lab", "op": "write", "tier": "slog"}
    manifest["phases"][1]["extremes"] = [{**key, "min_ns": 140_000, "max_ns": 145_000}]


@pytest.mark.parametrize(
    ("change", "limit", "ok", "words"),
    [
        (with_extremes, 145.0, True, ""),
        (with_extremes, 144.9, False, "the longest of synchronous writes took 145 µs, limit 144.9 µs."),
        # Without the exact one: the bin from 143.36 to 147.456 us.
        (lambda manifest: None, 147.456, True, ""),
        (lambda manifest: None, 145.0, None, "took 143.36 µs to 147.456 µs"),
        (lambda manifest: None, 143.0, False, "limit 143 µs."),
    ],
)
def test_a_limit_on_the_longest(change, limit, ok, words):
    found, result = of_run(change, max_us_max=limit)
    assert found["ok"] is ok and words in found["reason"]
    assert found["found"] == (145.0 if change is with_extremes else 147.456)
    if ok is not True:
        cases = junit_suite(result).findall(f"testcase/{'failure' if ok is False else 'error'}")
        assert any(words in case.text for case in cases)


@pytest.mark.parametrize(
    ("limit", "ok", "words"),
    [
        (2000, True, ""),
        (1999, None, "the longest time without is from 0.14336 to 2000 ms; a shorter interval"),
    ],
)
def test_a_limit_on_stalls(limit, ok, words):
    found, _ = of_run(stall_ms_max=limit)
    assert found["ok"] is ok and words in found["reason"]
    assert (found["found"], found["at_most"]) == (0.14336, 2000.0)


def test_a_stall_that_is_known():
    def stalled(manifest):
        manifest["expect"][0] |= {"phase": "read", "op": "read", "tier": "disk"}
        # With one I/O on its way at a time the longest latency would be a bound of its own.
        manifest["phases"][0] |= {"interval_ns": 10**6, "end_ns": 11_001_000_000, "outstanding": 2}

    # Reads of disks take 5.2 ms: too short to have lasted from one second to the next.
    found, _ = of_run(stalled, stall_ms_max=2.0)
    assert found["ok"] is None and (found["found"], found["at_most"]) == (0.0, 2000.0)
    frame = synthetic.latency()
    late = {"hi_ns": pl.col("hi_ns") + 10**9, "lo_ns": pl.col("lo_ns") + 10**9}
    frame = frame.with_columns(
        **{k: pl.when(pl.col("tier") == "disk").then(v).otherwise(k) for k, v in late.items()}
    )
    manifest = synthetic.manifest()
    manifest["expect"] = [{**WISH, "stall_ms_max": 900.0}]
    stalled(manifest)
    (limit,) = summarise(frame, manifest)["expect"][0]["limits"]
    assert limit["ok"] is False and (limit["found"], limit["at_most"]) == (999.0, 1001.0)
    assert limit["reason"] == "no I/O ended at the layer nfs-server for at least 999 ms, limit 900 ms."


TO_POOL = {"phase": "write-pool", "tier": "pool"}
RATIO = 5046.272 / 141.312  # of the middles of the bins with the medians


@pytest.mark.parametrize(
    ("limits", "ok", "words"),
    [
        ({"ratio_to": TO_POOL, "p50_ratio_max": 0.03}, True, ""),
        ({"ratio_to": TO_POOL, "p99_ratio_min": 0.02}, True, ""),
        ({"ratio_to": TO_POOL, "p50_ratio_max": 0.01}, False,
         "that of synchronous writes to disk (write-pool) (142 µs and 5.05 ms), limit at most 0.01 times."),
        ({"ratio_to": TO_POOL, "p50_ratio_min": 1}, False, "limit at least 1 times."),
        ({"ratio_to": {"phase": "read"}, "p50_ratio_max": 9}, None,
         "no ratio to synchronous writes (read): synchronous writes (read) have no I/O."),
    ],
)  # fmt: skip
def test_a_limit_on_a_ratio(limits, ok, words):
    found, _ = of_run(**limits)
    assert found["ok"] is ok and words in found["reason"]
    if "p50_ratio_max" in limits and ok is not None:
        assert found["found"] == pytest.approx(1 / RATIO, rel=0.02)
        assert found["to"] == {"phase": "write-pool", "op": "write", "tier": "pool"}


@pytest.mark.parametrize(("limits", "ok"), [
    # p50 of these writes is in a bin of 139.264 to 143.36 us, of those to the pool in 4980.736 to 5111.808.
    ({"p50_us_max": 143.4}, True), ({"p50_us_max": 142.0}, None), ({"p50_us_max": 139.2}, False),
    ({"p99_us_max": 147.5}, True), ({"p99_us_max": 146.0}, None), ({"p99_us_max": 143.3}, False),
    ({"ratio_to": TO_POOL, "p50_ratio_max": 0.0288}, True),
    ({"ratio_to": TO_POOL, "p50_ratio_max": 0.028}, None),
    ({"ratio_to": TO_POOL, "p50_ratio_min": 0.0288}, False),
    ({"ratio_to": TO_POOL, "p99_ratio_max": 0.0287}, None),
])  # fmt: skip
def test_a_limit_is_held_against_the_edges_of_a_bin(limits, ok):
    """All I/Os may be at its upper edge: its middle does not show that they are below a limit in it."""
    found, _ = of_run(**limits)
    assert found["ok"] is ok and any(words in found["reason"] for words in ("unknown", "too near")) == (
        ok is None
    )


@pytest.mark.parametrize(
    ("intervals", "ok", "words"),
    [(30, None, "within this run it is from"), (3, None, "too few to say how exactly")],
)
def test_a_ratio_is_held_against_its_limit_by_what_the_run_leaves_open(intervals, ok, words):
    """p50 of 1:1.05 with a limit of 1.04: I/Os in 30 s that differ by 30 % do not tell it, in 3 s nothing."""
    generator = np.random.default_rng(1)
    frames, phases = [], []
    for number, us in enumerate((100, 105)):
        time = (100 * number + np.arange(900) * intervals // 900) * synthetic.SECOND
        latency = us * 1e3 * np.exp(0.3 * generator.standard_normal(900))
        labels = {"phase": f"p{number}", "layer": "nfs-server", "host": "lab", "op": "write", "tier": "slog"}
        frames.append(synthetic.binned(time, latency.astype(np.int64), **labels))
        begin, end = (each * synthetic.SECOND for each in (100 * number, 100 * number + intervals))
        phases.append(made_up.phase_of(f"p{number}", begin, end, synthetic.SECOND).as_json())
    of = {"phase": "p1", "op": "write", "tier": "slog", "ratio_to": {"phase": "p0"}}
    wish = {**WISH, **of, "p50_ratio_max": 1.04}
    found = summarise(pl.concat(frames), synthetic.manifest() | {"phases": phases, "expect": [wish]})
    (limit,) = found["expect"][0]["limits"]
    assert limit["ok"] is ok and words in limit["reason"] and found["verdict"] == "unknown"


def test_an_open_limit_does_not_hide_one_that_is_not_met():
    manifest = synthetic.manifest()
    wish = {**WISH, "phase": "write-slog", "op": "write", "tier": "slog"}
    manifest["expect"] = [{**wish, "p50_us_max": 142.0, "p99_us_max": 1.0}]
    found = summarise(FRAME, manifest)
    assert (found["expect"][0]["ok"], found["verdict"]) == (False, "invalid")


def test_a_ratio_at_the_clients_and_of_withheld_percentiles():
    wish = {**WISH, "phase": "write-slog", "op": "write", "tier": "all", "layer": "client"}
    manifest = synthetic.manifest()
    manifest["expect"] = [{**wish, "ratio_to": {"phase": "write-pool"}, "p50_ratio_max": 0.05}]
    (each,) = summarise(FRAME, manifest)["expect"]
    assert each["ok"] and each["limits"][0]["to"]["tier"] == "all"
    few = synthetic.latency(1)
    manifest = synthetic.manifest(few, 1)
    manifest["expect"] = [{**WISH, "ratio_to": {"tier": "dram"}, "p99_ratio_max": 90}]
    (limit,) = summarise(few, manifest)["expect"][0]["limits"]
    assert limit["ok"] is None and limit["reason"].endswith(
        "p99 of reads from the SSD cache is withheld, 55 of 368 I/Os."
    )


def test_a_range_that_was_published_for_other_loads_is_not_judged():
    sentence = "No published range: measured with 512 B, this phase has 4 KiB."
    row = {**ROW, "not_published": sentence}
    for share in ({}, {"inside_share_min": 0.9}):
        (each,), reasons = judge({"expect": [{**WISH, "inside": True, **share}]}, row)
        assert each["ok"] and not reasons and each["not_published"] == sentence and not each["limits"]
    (each,), _ = judge({"expect": [WISH]}, row)
    assert "not_published" not in each


def test_limits_are_on_the_page():
    manifest = synthetic.manifest()
    manifest["expect"][3] |= {"stall_ms_max": 1999.0, "p50_us_max": 200.0}
    html = render(FRAME, manifest, summarise(FRAME, manifest))
    assert "p50_us_max = 200.0: met (141.8); stall_ms_max = 1999.0: not known (0.1434 to 2000)" in html


def test_unset_limits_are_none():
    assert judged(p50_us_max=None)["limits"] == []


def limited(**limits):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["expect"][0].update(limits)
    return frame, manifest, summarise(frame, manifest)


def test_an_unmet_limit_makes_a_run_invalid():
    *_, met = limited(p99_us_max=10.0, share_min=0.3)
    assert met["verdict"] == "valid"
    frame, manifest, unmet = limited(p99_us_max=1.0, share_min=0.99)
    assert unmet["verdict"] == "invalid" and len(unmet["reasons"]) == 2
    assert "p99_us_max" in render(frame, manifest, unmet)


@pytest.mark.parametrize(("line", "key"), [
    ("p99_us_max = 0", "p99_us_max"), ("p50_us_max = -3", "p50_us_max"), ("p999_us_max = nan", "p999_us_max"),
    ("share_min = 1.1", "share_min"), ("share_max = -0.1", "share_max"), ('p99_us_max = "5us"', "p99_us_max"),
    ("share_min = 0.5\nshare_max = 0.4", "share_min"), ("p98_us_max = 5", "p98_us_max"),
    ("inside_share_min = 1.1", "inside_share_min"), ("inside_share_min = 90", "inside_share_min"),
    ("inside = false\ninside_share_min = 0.9", "inside is false"),
])  # fmt: skip
def test_limits_that_cannot_be(tmp_path, line, key):

    text = (WORKLOADS / "top-speeds.toml").read_text("utf-8")
    path = tmp_path / "mine.toml"
    extra = '\n[[expect]]\nphase = "read"\nop = "read"\ntier = "dram"\n'
    path.write_text(text + extra + "p95_us_max = 12.5\nshare_min = 0.1\n")
    expect = read_workload(path).expect[-1]
    assert (expect.p95_us_max, expect.share_min, expect.p99_us_max) == (12.5, 0.1, None)
    path.write_text(text + extra + line + "\n")
    with pytest.raises(ConfigError, match=key) as caught:
        read_workload(path)
    assert "mine.toml" in str(caught.value)
