"""Runs on servers that could not be traced, or not wholly counted: what the report says of them."""

import xml.etree.ElementTree as ET

import polars as pl
import pytest

from kit.core.errors import ConfigError
from kit.store.summary import Summary
from reports.output import junit
from tests.reports import synthetic
from tests.reports.synthetic import summarise

WHY = "The server is not traced (lab has no bpftrace): which tier answered each I/O cannot be seen."
MISSING = {"name": "I/Os of another pool", "source": "iostats", "why": "not available on OpenZFS 2.1"}


@pytest.fixture
def untraced():
    """Manifest and latencies of clients alone; accepted by the testbed."""
    frame = synthetic.latency()
    manifest = synthetic.manifest(frame)
    for phase in manifest["phases"]:
        counts = {"dram": phase["client_ios"], "l2arc": 0, "disk": 0}
        phase["shares"] = {"unit": "requests", "source": "kstat reads", "counts": counts}
        phase |= {"checks": [], "unavailable": [MISSING]}
    manifest["tracing"] = {"kind": "none", "asked_for": True, "reason": "the testbed says so"}
    manifest["notes"] = [WHY]
    return manifest, frame.filter(pl.col("layer") == "client")


def test_expectations_on_tiers_are_not_judged_and_nothing_is_counted_as_passed(untraced):
    found = summarise(untraced[1], untraced[0])
    assert found["verdict"] == "valid", found["reasons"]
    assert found["notes"] == [WHY]
    assert {wish["ok"] for wish in found["expect"]} == {None}
    assert not any(wish["limits"] for wish in found["expect"])
    [words] = found["reasons"]
    assert "58 of 58 checks hold" in words
    assert "9 checks cannot be made on these hosts" in words
    assert "5 expectations on tiers could not be judged" in words
    assert [phase["shares"]["counts"]["l2arc"] for phase in found["accounting"]["phases"]] == [0, 0, 0]


def test_who_did_not_ask_for_it_gets_an_unknown_verdict_with_the_cause_first(untraced):
    manifest, frame = untraced
    manifest["problems"] = synthetic.problems(WHY)
    found = summarise(frame, manifest)
    assert (found["verdict"], found["reasons"]) == ("unknown", [WHY])


def _without_shares(manifest, frame):
    for phase in manifest["phases"]:
        del phase["shares"]
    return frame


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_without_shares, "the phase has no I/O"),
        (lambda manifest, frame: synthetic.latency(), "of a server that was not traced"),
        (lambda manifest, frame: frame.clear(), "has neither the server's I/Os nor the clients'"),
        (lambda manifest, frame: frame.head(3), "I/Os of the clients, the manifest says"),
        (lambda manifest, frame: manifest["phases"][0].update(server_ios=7) or frame, "the server saw 7"),
    ],
)
def test_what_does_not_close_is_unknown(untraced, change, words):
    manifest, frame = untraced
    found = summarise(change(manifest, frame), manifest)
    assert found["verdict"] == "unknown"
    assert any(words in reason for reason in found["reasons"]), found["reasons"]


def test_the_page_has_the_note_first_and_a_table_of_shares(untraced, tmp_path):
    manifest, frame = untraced
    run = synthetic.write(tmp_path, manifest, frame)
    text = _drawn(run, frame, manifest)
    assert text.index("lab has no bpftrace") < text.index('class="hero"')
    assert "5 expectations were not judged: the server was not traced." in text and "0 of 5" not in text
    assert 'id="shares"' in text and "Which tier answered each I/O could not be seen" in text
    assert "not available on OpenZFS 2.1" in text and "neither passed nor failed" in text
    assert "not judged" in text


def test_a_run_that_was_traced_has_none_of_it(tmp_path):
    frame = synthetic.latency()
    manifest = synthetic.manifest(frame)
    text = _drawn(synthetic.write(tmp_path, manifest, frame), frame, manifest)
    assert 'id="shares"' not in text and "neither passed nor failed" not in text


def _drawn(run, frame, manifest):
    import reports

    reports.analyse(run)
    return run.report.read_text()


@pytest.mark.parametrize("key", ["unavailable", "shares", "notes"])
@pytest.mark.parametrize("value", [5, "x", [5], [None], {"counts": 5}, {"a": 1}, True])
def test_damaged_entries_are_refused(untraced, tmp_path, key, value):
    manifest, frame = untraced
    (manifest if key == "notes" else manifest["phases"][0])[key] = value
    run = synthetic.write(tmp_path, manifest, frame)
    with pytest.raises(ConfigError, match=key):
        _drawn(run, frame, manifest)


def test_ci_servers_see_them_as_skipped(untraced):
    found = summarise(untraced[1], untraced[0])
    suite = ET.fromstring(junit.junit(Summary.from_json(found, "x"))).find("testsuite")
    skipped = {case.get("name") for case in suite.iter("testcase") if case.find("skipped") is not None}
    assert len([name for name in skipped if name.startswith("EXPECT:")]) == 5
    assert len([name for name in skipped if name.startswith("UNCLASSIFIED: ")]) == 1
    assert suite.get("failures") == suite.get("errors") == "0"
