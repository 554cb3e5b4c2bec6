"""Runs on emulated devices that lose power, stall, lie, or whose server dies."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kit.lab.image import Image
from kit.lab.machine import open_host
from kit.testbed import LAB_TESTBED
from tests.lab.conftest import finish, hsp
from tests.lab.test_faults import started_lab, states, wait_for
from tests.lab.workloads import write_small

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(1200, func_only=True)]

# A serial line that neither the run nor `hsp lab shell` of this process uses.
_LINE = 1


def test_every_acknowledged_write_survives_twenty_power_losses(image: Image, tmp_path: Path) -> None:
    done = finish(hsp("run", "power-loss", "--json", results=tmp_path), tmp_path, "power-loss")
    assert done.code == 0, done.stderr
    told = done.summary["power_loss"]
    assert (told["moments"], told["lost"]) == (20, 0)
    moments = done.manifest["power_loss"]["moments"]
    assert all(moment["acknowledged"] for moment in moments)
    assert len({moment["acknowledged"] for moment in moments}) > 10, "they come at different moments"
    assert f"{told['acknowledged']} acknowledged writes survived" in done.summary["reasons"][0]


def test_a_log_device_that_lies_about_its_cache_is_found_out(image: Image, tmp_path: Path) -> None:
    workload = write_small(tmp_path, ("writes", "write", "100ms"))
    workload.write_text(f'{workload.read_text()}\n[power_loss]\nmoments = 3\nwithin = "50ms"\n')
    testbed = tmp_path / "lying.toml"
    testbed.write_text(LAB_TESTBED.read_text().replace('"ssd-2009-write"', '"ssd-lying"'))
    arguments = ("run", str(workload), "--testbed", str(testbed), "--json")
    done = finish(hsp(*arguments, results=tmp_path), tmp_path, "small")
    assert done.summary["verdict"] == "invalid", done.summary["reasons"]
    assert done.code == 1
    assert done.summary["power_loss"]["lost"] > 0
    assert any("acknowledged what it did not keep" in reason for reason in done.summary["reasons"])


def test_a_fault_during_a_run_is_on_its_time_axis(image: Image, tmp_path: Path) -> None:
    workload = write_small(tmp_path, ("long", "write", "3s"))
    before = states()
    process = hsp("run", str(workload), "--json", results=tmp_path)
    state = started_lab(process, before)
    journal = tmp_path / "small" / "latest" / "journal.jsonl"
    wait_for(lambda: journal.exists() and '"phase long"' in journal.read_text(), 400, "the phase")
    with open_host(state, _LINE) as guest:
        waited = 'until pgrep -x fio; do sleep 0.1; done; sleep 2; exec "$@"'
        tell = ["/run/hsp-devices/hsp-devices", "tell", "/run/hsp-devices/socket"]
        guest.run(["sh", "-c", waited, "sh", *tell, "log0", "stall", "50000000"], deadline_s=300)
    done = finish(process, tmp_path, "small")
    (phase,) = done.manifest["phases"]
    faults = [event for event in phase["events"] if event["kind"] == "fault"]
    assert [fault["text"] for fault in faults] == ["fault: log0 stall 50000000"], phase["problems"]
    assert phase["start_ns"] <= faults[0]["time_ns"] <= phase["end_ns"]
    assert done.row("slog")["max_us"] > 40_000, "somebody waited for the stall"
    assert done.row("slog")["p50_us"] < 1_000


def test_a_server_of_devices_that_dies_ends_the_run_and_the_pool_is_taken_apart(
    image: Image, tmp_path: Path
) -> None:
    workload = write_small(tmp_path, ("first", "write", "2s"), ("second", "write", "300ms"))
    before = states()
    process = hsp("run", str(workload), "--json", results=tmp_path)
    state = started_lab(process, before)
    journal = tmp_path / "small" / "latest" / "journal.jsonl"
    wait_for(lambda: journal.exists() and '"phase first"' in journal.read_text(), 400, "the phase")
    time.sleep(5)
    with open_host(state, _LINE) as guest:
        pids = guest.run(["pgrep", "-f", "^/run/hsp-devices/hsp-devices serve"]).stdout.split()
        guest.run(["kill", "-KILL", max(pids, key=int)])
    done = finish(process, tmp_path, "small")
    assert done.code == 5, done.stderr
    assert "emulated devices" in done.stderr
    assert done.summary["verdict"] == "unknown"
    assert [phase["name"] for phase in done.manifest["phases"]] == ["first"]
    assert "not undone" not in " ".join(done.manifest["problems"])
    undone = [line for line in journal.read_text().splitlines() if '"undo: ' in line and '"done"' in line]
    assert undone, "the pool was destroyed in order"
