"""Runs on emulated devices that lose power, stall, lie, or whose server dies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.lab.guest import open_host
from kit.lab.image.image import Image
from tests.lab.conftest import Finished, finish, hsp
from tests.lab.test_faults import start_run, wait_for
from tests.lab.workloads import write_device_phases, write_small

PROTECTS = ("kit/emulation", "kit/run/power/loss.py", "kit/run/power/cut.py")
pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(1200, func_only=True)]

# A serial line that neither the run nor `hsp lab shell` of this process uses.
_LINE = 1
# When fio has been there for "$1" seconds of the guest, the command.
_UNDER_LOAD = 'until pgrep -x fio; do sleep 0.1; done; sleep "$1"; shift; exec "$@"'
# The newest of them serves; another one watches over it.
_KILL_SERVER = 'kill -KILL "$(pgrep -f "^/run/hsp-devices/hsp-devices serve" | sort -n | tail -n1)"'


_LOG = """\
name = "one"
[server]
host = "lab"
[[client]]
host = "lab"
[[device]]
name = "log0"
role = "log"
size = "64MiB"
preset = "{preset}"
"""


def lose_power(folder: Path, preset: str, *losses: str) -> Finished:
    """A run of power losses on one bare log device."""
    testbed = folder / "one.toml"
    testbed.write_text(_LOG.format(preset=preset))
    text = write_device_phases(folder).read_text().split('[[phase]]\nname = "all"')[0]
    workload = folder / "devices.toml"
    workload.write_text("\n".join([text.replace("300ms", "100ms"), "[power_loss]", *losses, ""]))
    arguments = ("run", str(workload), "--testbed", str(testbed), "--json")
    return finish(hsp(*arguments, results=folder), folder, "devices")


@pytest.mark.basic
@pytest.mark.parametrize(
    ("count", "bound"), [(6, "39.3 %"), pytest.param(20, "13.9 %", marks=pytest.mark.long)]
)
def test_every_acknowledged_write_survives_power_losses(
    image: Image, tmp_path: Path, count: int, bound: str
) -> None:
    done = lose_power(tmp_path, "ssd-2009-write", f"moments = {count}", 'within = "20ms"')
    assert done.code == 0, done.stderr
    told = done.summary["power_loss"]
    assert (told["moments"], told["lost"], told["proven"], told["verified_again"]) == (count, 0, count, count)
    moments = done.manifest["power_loss"]["moments"]
    assert all(moment["acknowledged"] for moment in moments)
    assert len({moment["acknowledged"] for moment in moments}) > count / 2, "they come at different moments"
    assert [bool(moment["idle_ns"]) for moment in moments] == ([False, False, False, True] * 5)[:count]
    (reason,) = done.summary["reasons"]
    assert "power losses lost none of" in reason
    assert f"{told['acknowledged']:,} acknowledged writes" in reason
    assert all(0 < each["looked_at"] <= 96 and each["looked_at"] <= each["acknowledged"] for each in moments)
    assert all(each["written_bytes"] and each["after_ns"] >= 0 for each in moments)
    assert f"fewer than {bound}" in reason and told["control"]["lost"] > 0, "acknowledged from memory alone"


@pytest.mark.parametrize(("preset", "verdict"), [("ssd-2009-write", "unknown"), ("nvme-consumer", "valid")])
def test_without_flush_a_volatile_cache_loses_data_and_a_protected_one_shows_nothing(
    image: Image, tmp_path: Path, preset: str, verdict: str
) -> None:
    done = lose_power(tmp_path, preset, "moments = 1", 'within = "20ms"', 'control = "no-flush"')
    assert done.summary["verdict"] == verdict, done.summary["reasons"]
    told = done.summary["power_loss"]
    assert (told["lost"], told["control"]["lost"] > 0) == (0, verdict == "valid")
    assert ("no teeth" in done.summary["reasons"][0]) == (verdict == "unknown")


def test_a_log_device_that_lies_about_its_cache_is_found_out(image: Image, tmp_path: Path) -> None:
    """Over NFS, with the client as the witness."""
    workload = write_small(tmp_path, ("writes", "write", "100ms"))
    workload.write_text(f'{workload.read_text()}\n[power_loss]\nmoments = 2\nwithin = "50ms"\n')
    testbed = tmp_path / "lying.toml"
    lying = LAB_TESTBED.read_text().replace('"ssd-2009-write"', '"ssd-lying"')
    # Which tier answered says nothing here, and the tracer takes longer to start than the phase.
    testbed.write_text(lying.replace("[server]\n", '[server]\ntrace = "none"\n', 1))
    arguments = ("run", str(workload), "--testbed", str(testbed), "--json")
    done = finish(hsp(*arguments, results=tmp_path), tmp_path, "small")
    assert done.summary["verdict"] == "invalid", done.summary["reasons"]
    assert done.code == 1
    told = done.summary["power_loss"]
    assert told["lost"] > 0 and told["proven"] == 2 and told["control"]["lost"] > 0
    assert any("after the power came back" in reason for reason in done.summary["reasons"])


# Records of 4 KiB: fewer to write and to warm up than the main job's of 512 B. More writes a second would
# wait for a txg, because the ARC is small, and longer than for the stall.
_TROUBLED = """\
format = 1
name = "troubled"
title = "Reads, then writes"
base = "top-speeds"
precondition.method = "none"
dataset.properties.recordsize = "4KiB"
job.bs = "4k"
[[phase]]
name = "read"
duration = "4s"
[[phase]]
name = "stall"
base = "write-slog"
options.rate_iops = 400
duration = "1s"
[[phase]]
name = "death"
base = "stall"
duration = "500ms"
[[phase]]
name = "last"
base = "stall"
duration = "300ms"
"""


class Troubled:
    """A run whose cache device fails reads in phase `read`.

    In `stall` the log device stalls, and in `death` the server of the devices dies.
    """

    def __init__(self, run: Finished) -> None:
        self.run = run
        self.phases = {phase["name"]: phase for phase in run.manifest["phases"]}

    def row(self, phase: str, tier: str) -> dict[str, Any]:
        (row,) = (
            row
            for row in self.run.summary["rows"]
            if (row["phase"], row["tier"], row["layer"]) == (phase, tier, "nfs-server")
        )
        return row


@pytest.fixture(scope="module")
def troubled(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Troubled:
    folder = tmp_path_factory.mktemp("troubled")
    workload = folder / "troubled.toml"
    workload.write_text(_TROUBLED)
    process, state = start_run(str(workload), "--json", results=folder)
    journal = folder / "troubled" / "latest" / "journal.jsonl"
    tell = ["/run/hsp-devices/hsp-devices", "tell", "/run/hsp-devices/socket"]

    def during(phase: str, seconds: int, *words: str) -> None:
        wait_for(lambda: journal.exists() and f'"phase {phase}"' in journal.read_text(), 600, phase)
        guest.run(["sh", "-c", _UNDER_LOAD, "sh", str(seconds), *words], deadline_s=300)

    wait_for(lambda: journal.exists() and '"phase read"' in journal.read_text(), 600, "the first phase")
    with open_host(state(), _LINE) as guest:
        # Labels stay readable, so that OpenZFS does not give the cache device up and fails again and again.
        during("read", 4, *tell, "cache0", "error", "16384", "190000", "read")
        during("stall", 2, *tell, "log0", "stall", "50000000")
        during("death", 1, "sh", "-c", _KILL_SERVER)
    return Troubled(finish(process, folder, "troubled"))


def test_reads_that_the_cache_device_fails_are_the_disks_and_the_fault_is_named(troubled: Troubled) -> None:
    phase = troubled.phases["read"]
    counted = {check["source"]: check["found"] for check in phase["checks"]}
    assert counted["arcstats l2_io_error"] > 100
    reasons = "\n".join(troubled.run.summary["reasons"])
    assert "arcstats l2_io_error" in reasons and "cache0 error 16384 190000 read" in reasons
    assert "l2_hits" not in reasons, "the reads that failed are counted, and are the disks'"
    assert troubled.row("read", "disk")["p50_us"] > 4000
    assert troubled.row("read", "l2arc")["range_us"][1] < 2000, "none of them is the L2ARC's"


def test_a_fault_during_a_run_is_on_its_time_axis(troubled: Troubled) -> None:
    phase = troubled.phases["stall"]
    faults = [event for event in phase["events"] if event["kind"] == "fault"]
    assert [fault["text"] for fault in faults] == ["fault: log0 stall 50000000"], phase["problems"]
    assert phase["start_ns"] <= faults[0]["time_ns"] <= phase["end_ns"]
    row = troubled.row("stall", "slog")
    assert 40_000 < row["max_us"] < 100_000, "somebody waited for the stall, of 50 ms"
    assert row["p50_us"] < 1_000


def test_a_server_of_devices_that_dies_ends_the_run_and_the_pool_is_taken_apart(troubled: Troubled) -> None:
    done = troubled.run
    assert done.code == 5, done.stderr
    assert "emulated devices" in done.stderr
    assert done.summary["verdict"] == "unknown"
    assert list(troubled.phases) == ["read", "stall", "death"]
    death = {"code": "fault-events", "text": "the server of the emulated devices died"}
    assert death in troubled.phases["death"]["problems"]
    assert not any(death in troubled.phases[name]["problems"] for name in ("read", "stall"))
    assert "not-undone" not in [problem["code"] for problem in done.manifest["problems"]]
    journal = (done.run / "journal.jsonl").read_text()
    undone = [line for line in journal.splitlines() if '"undo: ' in line and '"done"' in line]
    assert undone, "the pool was destroyed in order"
