"""kit.setup.record: what the steps of a run add to its manifest."""

from __future__ import annotations

from kit.setup.record import RunRecord
from kit.store.manifest import Manifest


def test_a_record_of_a_run_replaces_frozen_values() -> None:
    record = RunRecord(Manifest(problems=(), notes=("a",)))
    before = record.manifest
    record.add_problems("interrupted", "by the user")
    record.add_notes("b")
    record.add_versions({"zfs": "2.3"})
    record.add_versions({"kernel": "6"})
    assert (before.problems, before.notes) == ((), ("a",))
    assert record.manifest.as_json() == {
        "problems": [{"code": "interrupted", "text": "by the user"}],
        "notes": ["a", "b"],
        "versions": {"zfs": "2.3", "kernel": "6"},
    }
