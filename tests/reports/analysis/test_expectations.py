"""Limits of a workload, and the JUnit file."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.config.toml import load
from kit.config.workload import Workload
from kit.core.errors import ConfigError
from kit.store.summary import Summary
from reports.analysis import expectations
from reports.output.junit import junit
from tests.reports import synthetic
from tests.reports.synthetic import render, summarise

ROW = {
    "phase": "read", "layer": "nfs-server", "op": "read", "tier": "l2arc", "count": 500, "share": 0.25,
    "p50_us": 150.0, "p95_us": 170.0, "p99_us": 190.0, "p999_us": None,
    "range_us": [130, 180], "published": None,
}  # fmt: skip
FRAME = synthetic.latency()
WISH = {"phase": "read", "op": "read", "tier": "l2arc", "min_count": 1, "inside": False}


def judged(**limits):
    manifest = synthetic.parsed({"expect": [{**WISH, **limits}]})
    (each,), reasons = expectations.judge(manifest, [ROW], FRAME)
    assert each["reasons"] == reasons and each["ok"] == (not reasons)
    return each


@pytest.mark.parametrize(("name", "met", "unmet"), [
    ("p50_us_max", 150.0, 149.9), ("p95_us_max", 170.0, 169.0), ("p99_us_max", 190.0, 10.0),
    ("share_min", 0.25, 0.2501), ("share_max", 0.25, 0.2499),
])  # fmt: skip
def test_a_limit(name, met, unmet):
    assert judged(**{name: met})["ok"]
    failed = judged(**{name: unmet})
    assert not failed["ok"] and "expected" in failed["reasons"][0]
    assert failed["limits"] == [
        {"name": name, "limit": unmet, "found": ROW[name.removesuffix("_max").removesuffix("_min")],
         "ok": False, "reason": failed["reasons"][0].partition(": ")[2].partition(": ")[2]}
    ]  # fmt: skip


def test_a_withheld_percentile_is_not_met_and_says_so():
    failed = judged(p999_us_max=1e9)
    assert "withheld" in failed["reasons"][0] and "500 I/Os" in failed["reasons"][0]
    assert "3688" in failed["reasons"][0]


def test_a_tier_without_ios():
    wish = {**WISH, "tier": "disk", "p50_us_max": 5.0, "share_max": 0.5}
    (each,), reasons = expectations.judge(synthetic.parsed({"expect": [wish]}), [ROW], FRAME)
    assert not each["ok"] and len(reasons) == 2 and each["limits"][1]["found"] == 0


def test_what_clients_see_is_judged_where_no_server_was_traced():
    row = {**ROW, "layer": "client", "tier": "all"}
    wish = {**WISH, "tier": "all", "layer": "client", "p99_us_max": 180.0}
    for tracing in ({}, {"tracing": {"kind": "none"}}):
        manifest = {**tracing, "expect": [wish, WISH]}
        (of_clients, on_a_tier), reasons = expectations.judge(synthetic.parsed(manifest), [row, ROW], FRAME)
        assert of_clients["ok"] is False and "p99 is 190 us" in reasons[0]
        assert on_a_tier["ok"] is (None if tracing else True)


# Of the L2ARC reads of FRAME, 50 in 55 are from 139.264 to 143.36 us, the others from there to 147.456.
HALF_IN = {"reference": "r", "range_us": [100.0, 145.408], "inside": False}
IN = (50 + 5 / 2) / 55


def inside(published, **wish):
    row = {**ROW, "min_us": 139.264, "max_us": 147.456, "published": published}
    manifest = synthetic.parsed({"expect": [{**WISH, "inside": True, **wish}]})
    (each,), _ = expectations.judge(manifest, [row], FRAME)
    return each


def test_the_share_inside_takes_the_place_of_the_range():
    assert "95 % within" in inside(HALF_IN)["reasons"][0]
    met = inside(HALF_IN, inside_share_min=IN - 1e-9)
    assert met["ok"] and met["limits"][0]["found"] == pytest.approx(IN) and not met["reasons"]
    unmet = inside(HALF_IN, inside_share_min=0.96)
    assert unmet["limits"][0]["ok"] is unmet["ok"] is False
    (reason,) = unmet["reasons"]
    assert reason.endswith("95.45% of the I/Os are within 100-145.408 us, at least 96.00% were expected.")


def test_the_share_inside_is_judged_where_inside_is():
    assert inside(HALF_IN, inside=False, inside_share_min=1.0) == {**inside(HALF_IN, inside=False)}
    assert "no published range" in inside(None, inside_share_min=0.5)["reasons"][0]


def test_a_share_inside_without_any_io():
    wish = {**WISH, "tier": "disk", "inside": True, "inside_share_min": 0.0, "min_count": 0}
    (each,), reasons = expectations.judge(synthetic.parsed({"expect": [wish]}), [ROW], FRAME)
    assert not each["ok"] and "no I/O that could be inside" in reasons[0]


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


def parsed(result):
    return ET.fromstring(junit(Summary.from_json(result, "summary.json"))).find("testsuite")


def test_junit_of_a_valid_run():
    suite = parsed(limited()[2])
    assert suite.attrib == {
        "name": "top-speeds",
        "failures": "0",
        "errors": "0",
        "skipped": "0",
        "tests": "9",
    }
    assert len(suite) == 9 and not any(list(case) for case in suite)


def test_junit_of_an_unmet_limit():
    suite = parsed(limited(p99_us_max=1.0)[2])
    (failure,) = suite.findall("testcase/failure")
    assert suite.get("failures") == "1" and "p99 is" in failure.get("message") and "p99 is" in failure.text


def test_junit_of_an_unknown_verdict():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    manifest["problems"] = ["the server rebooted"]
    manifest["expect"][0]["min_count"] = 10**9
    suite = parsed(summarise(frame, manifest))
    (error,) = suite.findall("testcase/error")
    assert "the server rebooted" in error.text
    assert (suite.get("errors"), suite.get("failures"), suite.get("skipped")) == ("1", "1", "4")


@given(st.text())
def test_junit_of_any_text(text):
    wish = {"phase": text, "op": "read", "tier": text, "ok": False, "reasons": [text]}
    check = {"name": text, "source": text, "expected": 1, "found": 0, "tolerance": 0, "ok": False}
    accounted = [{"phase": text, "checks": [check]}]
    result = synthetic.summary_of(
        workload=text, verdict="unknown", reasons=[text], expect=[wish], accounted=accounted
    )
    suite = parsed(result.as_json())
    assert len(suite) == 3 and suite.get("errors") == "2" and suite.get("failures") == "1"


def test_junit_text_is_no_markup():
    attack = "\x00\x1b[31m\ufffe</failure><testcase name='x'/>]]>&\"<"
    wish = {"phase": "p", "op": "read", "tier": attack, "ok": False, "reasons": [attack]}
    suite = parsed(synthetic.summary_of(workload="w", verdict="invalid", expect=[wish]).as_json())
    assert len(suite) == 2
    assert suite.find("testcase/failure").text == "[31m</failure><testcase name='x'/>]]>&\"<"


@pytest.mark.parametrize(("line", "key"), [
    ("p99_us_max = 0", "p99_us_max"), ("p50_us_max = -3", "p50_us_max"), ("p999_us_max = nan", "p999_us_max"),
    ("share_min = 1.1", "share_min"), ("share_max = -0.1", "share_max"), ('p99_us_max = "5us"', "p99_us_max"),
    ("share_min = 0.5\nshare_max = 0.4", "share_min"), ("p98_us_max = 5", "p98_us_max"),
    ("inside_share_min = 1.1", "inside_share_min"), ("inside_share_min = 90", "inside_share_min"),
    ("inside = false\ninside_share_min = 0.9", "inside is false"),
])  # fmt: skip
def test_limits_that_cannot_be(tmp_path, line, key):
    from kit.config.workload_source import WORKLOADS

    text = (WORKLOADS / "top-speeds.toml").read_text("utf-8")
    path = tmp_path / "mine.toml"
    extra = '\n[[expect]]\nphase = "read"\nop = "read"\ntier = "dram"\n'
    path.write_text(text + extra + "p95_us_max = 12.5\nshare_min = 0.1\n")
    expect = load(path, Workload).expect[-1]
    assert (expect.p95_us_max, expect.share_min, expect.p99_us_max) == (12.5, 0.1, None)
    path.write_text(text + extra + line + "\n")
    with pytest.raises(ConfigError, match=key) as caught:
        load(path, Workload)
    assert "mine.toml" in str(caught.value)
