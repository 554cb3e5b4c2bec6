"""A stored summary of an older version, judged again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.session.rejudged import rejudged
from kit.store.json_file import read_json, write_json
from reports import analyse
from tests.reports import synthetic


@pytest.mark.parametrize(("changed", "ids"), [({}, set()), ({"verdict": "valid"}, {"STORED-SUMMARY"})])
def test_too_few_ios_failed_before(tmp_path: Path, changed: dict[str, str], ids: set[str]) -> None:
    manifest = synthetic.manifest()
    manifest["expect"][0]["min_count"] = 10**6
    run = synthetic.write(tmp_path / "run", manifest, synthetic.latency())
    analyse(run)
    stored = read_json(run.path / "summary.json")
    was = {"id": "EXPECT:read:read:dram:min_count", "phase": "read", "holds": False, "makes": "invalid"}
    outcomes = [each for each in stored["outcomes"] if each["id"] not in ("FEW-IOS", was["id"])]
    before = {**stored, "verdict": "invalid", "outcomes": [was, *outcomes]}
    if changed:
        before = {**stored, **changed}
    write_json(run.path / "summary.json", before)
    again = rejudged(run.path)
    assert again.summary and again.summary.verdict == "unknown" and again.code == 3
    assert {each.id for each in again.stored if each.decides} == ids
