"""What phases on bare devices are, where the devices are known; and what devices say of their capacitors."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kit.plan.plan import Plan
from kit.session.slog.measuring import side_of
from kit.setup import device_setup
from kit.setup.context import Context
from kit.setup.record import RunRecord
from kit.store import manifest as stored
from tests.fakes import ScriptedHost
from tests.kit.session.test_slog import TESTBED

PATH = "/dev/disk/by-id/nvme-ACME_1"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "real.toml"
    path.write_text(TESTBED)
    return side_of("ssd", path, "as-found", 4000).plan()


def run_of(plan: Plan, settings: dict[str, Any] | None, kernel_name: str = "nvme0n1") -> Context:
    device = stored.Device(name="ssd", role="log", path=PATH, settings=settings)
    record = RunRecord(stored.Manifest(testbed=stored.Testbed(devices=(device,))))
    checked = SimpleNamespace(spec=SimpleNamespace(path=PATH), node=SimpleNamespace(kernel_name=kernel_name))
    site = SimpleNamespace(guard=SimpleNamespace(checked=(checked,)))
    return cast(Context, SimpleNamespace(plan=plan, record=record, site=site))


@pytest.mark.parametrize("settings", [None, {}, {"sector_bytes": None}, {"sector_bytes": 512}])
def test_a_device_gets_all_phases_unless_its_sectors_are_larger(
    plan: Plan, settings: dict[str, Any] | None
) -> None:
    run = run_of(plan, settings)
    assert device_setup.possible(run) == list(plan.workload.phase) and not run.record.manifest.notes


def test_phases_with_records_below_a_sector_are_left_out_and_named(plan: Plan) -> None:
    run = run_of(plan, {"sector_bytes": 4096})
    possible = device_setup.possible(run)
    left = [phase for phase in plan.workload.phase if phase not in possible]
    assert {phase.force.record for phase in left if phase.force} == {512, 1024, 2048}
    (note,) = run.record.manifest.notes
    assert all(phase.name in note for phase in left) and "4096 bytes" in note


@pytest.mark.parametrize(("kernel_name", "health"), [("nvme0n1", 97), ("sda", None)])
def test_the_capacitors_of_a_loaded_device_are_stored(
    plan: Plan, kernel_name: str, health: int | None
) -> None:
    run = run_of(plan, {}, kernel_name)
    host = ScriptedHost(default=json.dumps({"Capacitor Health": 97}))
    device_setup._read_capacitors(run, host)
    assert [each.capacitor_health for each in run.record.manifest.testbed.devices] == [health]
    assert bool(host.calls) == (health is not None)
