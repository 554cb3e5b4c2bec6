"""kit.run.resume: what of an interrupted run is kept, at whatever moment it was killed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import find_workload
from kit.core.errors import ConfigError
from kit.plan.plan import Plan, make_plan
from kit.run.resume import Earlier, _kept, check_same_hosts, read_earlier
from kit.setup.record import RunRecord
from kit.store import manifest as stored_manifest
from kit.store import run_directory, tables
from kit.store.manifest import Manifest
from tests.kit.rules.test_cold import ALLOWED, bed_with

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml"
PHASE = {
    "problems": [], "start_ns": 0, "end_ns": 7, "interval_ns": 1, "client_ios": 1, "server_ios": 1,
    "lost_events": 0,
}  # fmt: skip
NEW = Manifest(started_utc="2026-01-01T00:00:00Z", testbed=stored_manifest.Testbed(emulated=False))


@pytest.fixture(scope="module")
def plan() -> Plan:
    path = find_workload("top-speeds")
    return make_plan(read_workload(path), read_testbed(EXAMPLE), path, EXAMPLE)


def stored(
    folder: Path, plan: Plan, devices: list[str] | None = None, phases: tuple[str, ...] = ()
) -> Earlier:
    """A run that was killed; without `devices` before it had stored anything but its plan."""
    (folder / "plan.json").write_text(json.dumps(plan.as_json()))
    if devices is not None:
        manifest = {
            "format": 1,
            "started_utc": "2025-12-31T00:00:00Z",
            "versions": {"kernel": "6"},
            "precondition": {"devices": [{"device": name} for name in devices]},
            "phases": [{**PHASE, "name": name} for name in phases],
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return read_earlier(run_directory.RunDir(folder), plan)


def handed_on(earlier: Earlier) -> Manifest:
    record = RunRecord(NEW)
    earlier.hand_on(record)
    return record.manifest


def test_a_run_that_was_killed_before_it_had_anything_begins_anew(tmp_path: Path, plan: Plan) -> None:
    assert handed_on(stored(tmp_path, plan)) == NEW


def test_ageing_is_kept_only_if_it_was_complete(tmp_path: Path, plan: Plan) -> None:
    assert handed_on(stored(tmp_path, plan, ["cache0"])).precondition is None
    assert handed_on(stored(tmp_path, plan, ["cache0", "log0"])).precondition is not None


def test_phases_are_kept_up_to_the_first_that_is_missing(tmp_path: Path, plan: Plan) -> None:
    manifest = handed_on(stored(tmp_path, plan, ["cache0", "log0"], ("read", "write-pool")))
    assert [phase.name for phase in manifest.phases] == ["read"]
    assert manifest.started_utc == "2025-12-31T00:00:00Z"
    assert manifest.resumed == ({"utc": "2026-01-01T00:00:00Z"},)
    assert RunRecord(manifest).end_ns > 7 and RunRecord(NEW).end_ns == 0


def test_what_a_cold_phase_made_warm_is_lost_with_the_pool(tmp_path: Path) -> None:
    path = find_workload("l2arc-life")
    life = make_plan(read_workload(path), read_testbed(EXAMPLE), path, EXAMPLE)
    assert handed_on(stored(tmp_path, life, ["cache0", "log0"], ("cold",))).phases == ()


def test_the_phase_before_a_restart_is_measured_again_with_it(tmp_path: Path) -> None:
    head = 'format = 1\nname = "own"\ntitle = "own"\nbase = "l2arc-life"\nevent = []\n'
    names = ("cold", "before", "after")
    more = ("", 'base = "import"\n', 'base = "import"\nrestart = "reboot"\n')
    phases = [f'[[phase]]\nname = "{name}"\n{text}' for name, text in zip(names, more, strict=True)]
    workload, testbed = tmp_path / "own.toml", bed_with(tmp_path, ALLOWED)
    workload.write_text(head + "".join(phases))
    own = make_plan(read_workload(workload), read_testbed(testbed), workload, testbed)
    assert _kept(own, names, names[:2]) == 0, "the cold phase has filled it"
    warm = own.workload.phase[1:]
    later = replace(own, workload=own.workload.model_copy(update={"phase": warm}))
    assert _kept(later, names[1:], names[1:2]) == 0 and _kept(later, names[1:], names[1:]) == 2


OF_TREE = ("create", "stat", "rename", "ls", "remove")


@pytest.mark.parametrize(
    ("done", "kept"),
    [
        (("create", "stat", "rename"), ()),
        (OF_TREE, OF_TREE),
        ((*OF_TREE, "untar-pool"), OF_TREE),
    ],
)
def test_a_tree_is_lost_with_the_pool(tmp_path: Path, done: tuple[str, ...], kept: tuple[str, ...]) -> None:
    path = find_workload("metadata")
    tree = make_plan(read_workload(path), read_testbed(EXAMPLE), path, EXAMPLE)
    found = handed_on(stored(tmp_path, tree, [], done)).phases
    assert tuple(phase.name for phase in found) == kept


def test_the_sample_of_phases_that_are_kept_is_kept(tmp_path: Path, plan: Plan) -> None:
    row = {
        "dataset": "t", "time_ns": 0, "key": (1 << 64) - 1, "op": "read", "tier": "dram", "block_bytes": 512,
        "one_in": 8,
    }  # fmt: skip
    frame = pl.DataFrame([{"phase": name, **row} for name in ("read", "write-pool")], tables.KEYS_SCHEMA)
    tables.write_keys(run_directory.RunDir(tmp_path), frame)
    record = RunRecord(NEW)
    stored(tmp_path, plan, ["cache0", "log0"], ("read", "write-pool")).hand_on(record)
    assert [each.rows() for each in record.keys] == [frame.head(1).rows()]
    (tmp_path / "keys.parquet").unlink()
    stored(tmp_path, plan, ["cache0", "log0"], ("read",)).hand_on(record)
    assert len(record.keys) == 1


def test_it_goes_on_with_the_seed_of_the_run(tmp_path: Path, plan: Plan) -> None:
    # Killed before it had stored anything: the one that was asked for, or else that of its id.
    assert stored(tmp_path, plan).seed is None
    (tmp_path / "plan.json").write_text(json.dumps({**plan.as_json(), "seed": 7}))
    assert read_earlier(run_directory.RunDir(tmp_path), plan).seed == 7
    stored(tmp_path, plan, ["cache0", "log0"], ("read",))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    for value in (5, None):
        (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "seed": value}))
        assert read_earlier(run_directory.RunDir(tmp_path), plan).seed == value


@pytest.mark.parametrize(
    "damage",
    [{"seed": -1}, {"seed": "5"}, {"seed": 1 << 63}, {"phases": [3]}, {"phases": [{"name": "read"}]}],
)
def test_a_damaged_manifest_is_refused(tmp_path: Path, plan: Plan, damage: dict[str, Any]) -> None:
    stored(tmp_path, plan, ["cache0", "log0"], ("read",))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **damage}))
    with pytest.raises(ConfigError, match=r"manifest\.json: "):
        read_earlier(run_directory.RunDir(tmp_path), plan)


def test_another_plan_is_refused(tmp_path: Path, plan: Plan) -> None:
    value = plan.as_json()
    (tmp_path / "plan.json").write_text(json.dumps({**value, "digest": "x", "jobs": {}, "sources": ["", ""]}))
    with pytest.raises(ConfigError, match="its jobs changed since"):
        read_earlier(run_directory.RunDir(tmp_path), plan)


def test_hosts_that_changed_are_refused() -> None:
    check_same_hosts({"kernel": "6", "hsp": "1"}, {"kernel": "6", "hsp": "2"})
    with pytest.raises(ConfigError, match=r"fio on c1 was 3\.33 and is 3\.39"):
        check_same_hosts({"fio on c1": "3.33"}, {"fio on c1": "3.39"})
