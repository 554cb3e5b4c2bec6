"""What a run without a look at its server can say, and that it says what it cannot."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import polars as pl
import pytest

from kit.core.errors import ConfigError
from kit.session.presentation import code_of
from kit.store.latency import Latency
from kit.store.summary import Summary
from reports.output.junit import junit
from reports.published import references
from reports.verdict import appliance
from tests.reports import drawn, synthetic
from tests.reports.synthetic import render, summarise


def run() -> tuple[pl.DataFrame, dict[str, Any]]:
    """The synthetic run, without what its server saw."""
    latency = synthetic.latency().filter(pl.col("layer") == "client")
    manifest = synthetic.manifest()
    manifest["appliance"] = {
        "export": "nas:/pool/export",
        "not_seen": ["which tier answered <b>"],
        "not_done": ["tunables were not set: zfs_arc_max=64MiB"],
        "skipped": [{"phase": "write-pool", "reason": "it takes the log device out of the pool"}],
    }
    manifest["expect"] = []
    for phase in manifest["phases"]:
        counted = [check for check in phase["checks"] if check["id"].startswith("NFS-")]
        of_clients = {"source": "/proc/self/mountstats of lab/client0", "instrument": "mount-statistics"}
        phase["checks"] = [check | of_clients for check in counted]
        phase |= {"server_ios": None, "lost_events": None, "expected_tiers": [], "tiers": []}
    return latency, manifest


def test_what_closes_has_one_reason_and_is_unknown() -> None:
    summary = summarise(*run())
    assert summary["verdict"] == "unknown"
    [reason] = summary["reasons"]
    total = sum(phase["client_ios"] for phase in run()[1]["phases"])
    assert "could not be looked into" in reason and f"each of their {total:,} I/Os" in reason
    assert summary["accounting"]["server_ios"] is None and summary["accounting"]["client_ios"] == total
    assert not summary["tracebacks"]


def test_bands_of_another_load_have_no_published_range_and_the_page_says_why() -> None:
    latency, manifest = run()
    for phase in manifest["phases"]:
        phase["block_bytes"] = 4096
    of = synthetic.parsed(manifest)
    rows = Latency.of(latency)
    summary = synthetic.summary.summarise(rows, of)
    assert [entry.published for entry in summary.bands] == [None] * 3
    html = synthetic.report_page.render(rows, of, synthetic.described(rows, of, summary))
    assert '<p class="soft">No published range: measured with 512 B, this phase has 4 KiB.</p>' in html


def test_an_expectation_of_the_clients_decides_where_nothing_else_is_wrong() -> None:
    latency, manifest = run()
    wish = {"phase": "read", "layer": "client", "op": "read", "tier": "all", "min_count": 1, "inside": False}
    manifest["expect"] = [{**wish, "p50_us_max": 1e9}]
    assert (summarise(latency, manifest)["verdict"], manifest["problems"]) == ("unknown", [])
    manifest["expect"] = [{**wish, "p50_us_max": 0.001}]
    summary = summarise(latency, manifest)
    assert summary["verdict"] == "invalid" and "p50 of reads is" in summary["reasons"][-1]
    manifest["problems"] = synthetic.problems("not undone: x")
    assert summarise(latency, manifest)["verdict"] == "unknown"


@pytest.mark.parametrize(("most_us", "chip"), [(1e9, "Tiers unknown"), (0.001, "Failed")])
def test_the_chip_says_what_is_unknown_unless_a_limit_is_not_met(most_us: float, chip: str) -> None:
    latency, manifest = run()
    wish = {"phase": "read", "layer": "client", "op": "read", "tier": "all", "min_count": 1, "inside": False}
    manifest["expect"] = [{**wish, "p50_us_max": most_us}]
    of, rows = synthetic.parsed(manifest), Latency.of(latency)
    described = synthetic.described(rows, of, synthetic.summary.summarise(rows, of))
    assert f'id="verdict">{chip}</span>' in synthetic.report_page.render(rows, of, described)


def test_what_does_not_close_is_told_as_well() -> None:
    latency, manifest = run()
    manifest["phases"][0]["checks"][0] |= {"ok": False, "name": "NFS READ calls that were answered"}
    manifest["phases"][1]["client_ios"] += 1
    first, *others = summarise(latency, manifest)["reasons"]
    assert first == appliance.UNSEEN
    assert any("NFS READ calls that were answered" in reason for reason in others)
    assert any("the manifest says" in reason for reason in others)


def test_where_nobody_counted_calls_it_says_so() -> None:
    latency, manifest = run()
    manifest["phases"][2]["checks"] = []
    [reason] = summarise(latency, manifest)["reasons"]
    assert "is not known either" in reason


def test_a_check_of_a_clients_clock_says_nothing_of_its_calls() -> None:
    latency, manifest = run()
    clock = {
        "id": "CLOCK-STEP", "name": "wall clock step of c, in us", "source": "clock", "expected": 0,
        "instrument": "host-health",
    }  # fmt: skip
    manifest["phases"][2]["checks"] = [{**clock, "found": 0, "tolerance": 1_001_000, "ok": True}]
    [reason] = summarise(latency, manifest)["reasons"]
    assert "is not known either" in reason
    manifest["phases"][2]["checks"][0] |= {"found": 2_000_000, "ok": False}
    first, second = summarise(latency, manifest)["reasons"]
    assert first == appliance.UNSEEN and "wall clock step of c" in second


def test_marks_are_drawn_on_the_map_of_the_clients() -> None:
    latency, manifest = run()
    phase = manifest["phases"][0]
    step = {"kind": "clock-step", "text": "wall clock of c set by +0.500000 s"}
    phase["events"] = [{"time_ns": phase["start_ns"], "end_ns": phase["end_ns"], **step}]
    html = render(latency, manifest, summarise(latency, manifest))
    first = next(spec for spec in drawn.specs(html) if spec["title"].endswith(": clients"))
    (mark,) = [trace for trace in first["data"] if trace.get("name") == "clock step"]
    assert step["text"] in mark["text"][0]


def test_a_phase_without_io_and_a_problem_of_the_run_are_reasons() -> None:
    latency, manifest = run()
    manifest["problems"] = synthetic.problems("not undone: x")
    reasons = summarise(latency.filter(pl.col("phase") != "read"), manifest)["reasons"]
    assert "not undone: x" in reasons and any("read: the phase has no I/O" in reason for reason in reasons)


def test_bands_are_those_of_the_clients_against_what_is_published() -> None:
    latency, manifest = run()
    bands = summarise(latency, manifest, references.load("sun-7410-2009"))["bands"]
    [read] = [entry for entry in bands if entry["phase"] == "read"]
    assert read["layer"] == "client" and read["kernel"] is None
    assert len(read["bands"]) > 1 and sum(band["count"] for band in read["bands"]) == read["count"]
    assert {entry["tier"] for band in read["bands"] for entry in band["published"]} >= {"disk", "l2arc"}


@pytest.mark.parametrize("damaged", ["text", [], 3, {"not_seen": 3}, {"not_done": [1]}, {"skipped": ["x"]}])
def test_a_damaged_section_is_refused(damaged: Any) -> None:
    latency, manifest = run()
    manifest["appliance"] = damaged
    with pytest.raises(ConfigError, match=r"manifest\.json: appliance"):
        summarise(latency, manifest)


def test_without_the_section_nobody_counted_at_the_server() -> None:
    latency, manifest = run()
    manifest["appliance"] = None
    found = summarise(latency, manifest)
    assert found["verdict"] == "unknown" and "lacks the server's I/Os" in found["reasons"][0]


def test_the_page_has_the_box_and_no_word_of_missing_tiers() -> None:
    latency, manifest = run()
    html = render(latency, manifest, summarise(latency, manifest))
    assert "What could not be seen" in html and "nas:/pool/export" in html
    assert "which tier answered &lt;b&gt;" in html and "zfs_arc_max=64MiB" in html
    assert "write-pool: it takes the log device out" in html
    assert "No I/O from" not in html and "Every I/O of the clients was found again" not in html
    other = synthetic.latency(), synthetic.manifest()
    assert "What could not be seen" not in render(*other, summarise(*other))


def test_ci_servers_see_expectations_of_clients_judged() -> None:
    latency, manifest = run()
    wish = {"phase": "read", "layer": "client", "op": "read", "tier": "all", "min_count": 1, "inside": False}
    skipped = {**wish, "phase": "write-pool", "op": "write"}
    codes = {}
    for limit in (1e9, 0.001):
        manifest["expect"] = [{**wish, "p50_us_max": limit}, skipped]
        summary = Summary.from_json(summarise(latency, manifest), "summary")
        cases = {case.get("name"): [each.tag for each in case] for case in ET.fromstring(junit(summary))[0]}
        codes[limit] = (code_of(summary), cases["EXPECT:read:read:all:p50_us_max"])
        assert cases["EXPECT:write-pool:write:all:min_count"] == ["skipped"]
    assert codes == {1e9: (3, []), 0.001: (1, ["failure"])}


def test_a_known_failure_of_the_clients_leaves_what_is_unknown_by_nature() -> None:
    latency, manifest = run()
    wish = {"phase": "read", "layer": "client", "op": "read", "tier": "all", "min_count": 1, "inside": False}
    manifest["expect"] = [{**wish, "p50_us_max": 0.001}]
    known = [{"check": f"{check}", "reason": "r"} for check in ("EXPECT:read:*", "APPLIANCE")]
    for entries, code in ((known[:1], 3), (known, 0), (known[1:], 1)):
        manifest["known"] = entries
        assert code_of(Summary.from_json(summarise(latency, manifest), "summary")) == code


@pytest.mark.parametrize(
    ("size_bytes", "op", "told"),
    [
        (72 << 20, "read", True),
        (2 << 30, "mixed", True),
        (3 << 30, "read", False),
        (72 << 20, "write", False),
    ],
)
def test_reads_of_a_set_that_fits_into_any_memory_are_drams_probably(size_bytes, op, told):
    phase = {**synthetic.manifest()["phases"][0], "op": op}
    made = {**synthetic.manifest(), "phases": [phase], "working_set": {"bytes": size_bytes}, "appliance": {}}
    (sentence,) = [*appliance.notes(synthetic.parsed(made))] or [""]
    assert ("DRAM, probably" in sentence) is told
    assert not [*appliance.notes(synthetic.parsed({**made, "appliance": None}))]
