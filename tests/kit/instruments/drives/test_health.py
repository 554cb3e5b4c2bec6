"""The instrument: what it asks of drives before, under and after a load, and when nothing answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.local import LocalHost
from kit.instruments.base import MeasuredPhase
from kit.instruments.drives import health, reading
from kit.instruments.drives.health import DriveHealth
from kit.instruments.histograms import IntervalGrid
from kit.remote import read_drives
from kit.store.phase import Check, Missing
from tests.fakes import Answer, Command, ScriptedHost
from tests.kit.instruments.drives.test_judge import HALF, SLOW, nvme
from tests.kit.instruments.drives.test_logs import LATENCY

MEASURED = MeasuredPhase({"read": 512}, 10**9, 100, 900, {}, 0, Clock())
GRID = IntervalGrid(0, 0, 10**6, Clock())


class Server(ScriptedHost):
    """Its drive answers with these, one after the other."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.readings = list(answers)

    def answer(self, command: Command) -> Answer:
        found = self.readings.pop(0)
        return found if isinstance(found, Exception) else json.dumps({"log0": found})

    @property
    def asked(self) -> list[list[str]]:
        return [json.loads(each.argv[-1])["logs"].get("log0", []) for each in self.commands]


def drives(server: Server, once: set[str] | None = None) -> DriveHealth:
    return DriveHealth(server, {"log0": "/dev/disk/by-id/nvme-x"}, {}, set() if once is None else once)


def test_links_are_read_under_load_and_logs_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_FIRST_S", 0.0)
    server = Server(nvme(SLOW), nvme(), nvme(SLOW, thm_temp1_trans_count=4))
    seen = drives(server)
    seen.begin()
    assert not seen.stop() and not seen.stop(), "the second look is not due yet"
    seen.end()
    made = seen.report(MEASURED)
    assert server.asked == [[*reading.LOGS, "latency"], [], [*reading.LOGS]]
    results = [(each.id, isinstance(each, Check) and each.ok) for each in made.checks]
    assert results == [("DRIVE-THROTTLED", False), ("DRIVE-THROTTLED", True), ("LINK-DEGRADED", True)]
    assert [event.kind for event in made.events] == ["drive-throttling"]
    assert made.entry["drives"][0].transitions == 1


def test_a_drive_is_asked_once_a_run_whether_it_has_the_log_of_ocp() -> None:
    once: set[str] = set()
    for has_it in (False, True):
        answer = nvme()
        answer["logs"]["latency"] = json.dumps(LATENCY) if has_it else ""
        server = Server(*[answer] * 4)
        once = set()
        for _ in range(2):
            seen = drives(server, once)
            seen.begin()
            seen.end()
        assert [("latency" in each) for each in server.asked] == [True, has_it, has_it, has_it]


def test_a_condition_is_said_once_a_run() -> None:
    once: set[str] = set()
    slot = nvme("8.0 GT/s PCIe x4", port="8.0 GT/s PCIe x4")
    notes = []
    for _ in range(2):
        seen = drives(Server(slot, slot), once)
        seen.begin()
        seen.end()
        notes += seen.latency("read", GRID).notes
    assert len(notes) == 1 and "that is the limit on this server" in notes[0]


@pytest.mark.parametrize("at", [0, 1])
def test_without_an_answer_nothing_is_known_and_the_phase_stays_as_it_was(at: int) -> None:
    answers: list[Any] = [nvme(HALF), nvme(HALF)]
    answers[at] = HostError("server: python3: not found")
    seen = drives(Server(*answers))
    seen.begin()
    seen.end()
    made = seen.report(MEASURED)
    assert [(each.id, each.why) for each in made.checks if isinstance(each, Missing)] == [
        ("DRIVE-THROTTLED", "server: python3: not found"), ("LINK-DEGRADED", "server: python3: not found"),
    ]  # fmt: skip
    assert not made.problems and len(made.checks) == 2 and seen.latency("read", GRID).notes == []


def test_the_program_reads_links_errors_and_speeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Linux shows them in sysfs: an NVMe drive at a root port, and a SATA disk at a port of its own."""
    pci, block = tmp_path / "devices" / "pci0000:00", tmp_path / "class" / "block"
    port = "0000:00:1c.0"
    files = {
        f"{port}/max_link_speed": "8.0 GT/s PCIe", f"{port}/max_link_width": "4",
        f"{port}/aer_dev_nonfatal": "Undefined 0\nDLP 1\nTOTAL_ERR_NONFATAL 1",
        f"{port}/0000:01:00.0/current_link_speed": "8.0 GT/s PCIe",
        f"{port}/0000:01:00.0/current_link_width": "4",
        f"{port}/0000:01:00.0/max_link_speed": "16.0 GT/s PCIe",
        f"{port}/0000:01:00.0/max_link_width": "4",
        f"{port}/0000:01:00.0/link/l1_aspm": "1", f"{port}/0000:01:00.0/link/l0s_aspm": "0",
        f"{port}/0000:01:00.0/aer_dev_correctable": "RxErr 2\nBadTLP 3\nTOTAL_ERR_COR 5",
        f"{port}/0000:01:00.0/aer_dev_nonfatal": "TOTAL_ERR_NONFATAL 2",
        "0000:00:17.0/ata3/link3/ata_link/link3/sata_spd": "3.0 Gbps",
        "0000:00:17.0/ata3/link3/ata_link/link3/sata_spd_limit": "3.0 Gbps",
        "0000:00:17.0/ata3/link3/ata_link/link3/hw_sata_spd_limit": "<unknown>",
    }  # fmt: skip
    for name, text in files.items():
        (pci / name).parent.mkdir(parents=True, exist_ok=True)
        (pci / name).write_text(f"{text}\n")
    block.mkdir(parents=True)
    for name, place in (("nvme7n1", f"{port}/0000:01:00.0/nvme/nvme7"), ("sdx", "0000:00:17.0/ata3/host2")):
        (pci / place / name).mkdir(parents=True)
        (block / name).symlink_to(pci / place / name)
    monkeypatch.setattr(read_drives, "SYS", str(tmp_path))
    found = reading.parse(read_drives.drive("/dev/nvme7n1", (), None))
    assert (str(found.link), str(found.link_max)) == ("8 GT/s x4", "8 GT/s x4")
    assert found.aer == {"corrected": 5, "nonfatal": 3} and found.controller["aspm"] == "l1"
    # With multipath in the kernel the disk is one of its subsystem, which links to its controllers.
    subsystem = tmp_path / "devices" / "virtual" / "nvme-subsystem" / "nvme-subsys7"
    (subsystem / "nvme8n1").mkdir(parents=True)
    (subsystem / "nvme7").symlink_to(pci / port / "0000:01:00.0" / "nvme" / "nvme7")
    (block / "nvme8n1").symlink_to(subsystem / "nvme8n1")
    assert read_drives.controller_of("/dev/nvme8n1") == read_drives.controller_of("/dev/nvme7n1")
    (subsystem / "nvme9").symlink_to(pci / port / "0000:01:00.0")
    assert read_drives.controller_of("/dev/nvme8n1") is None, "two controllers: which one is not known"
    assert read_drives.sata_of("/dev/sdx") == {
        "speed": "3.0 Gbps",
        "limit": "3.0 Gbps",
        "port_max": "<unknown>",
    }


def test_the_program_runs_only_the_commands_that_it_knows(tmp_path: Path) -> None:
    """With a path that is no drive: an unknown log is nothing, and the command of a model runs."""
    request = {"x": ("smart", "rm", "format")}
    found = reading.read(
        LocalHost(), {"x": "/dev/null"}, request, {"x": ["echo", '{"thermal_transitions": 2}']}
    )
    assert found["x"]["logs"] == {} and reading.parse(found["x"]).counts == {"thm_temp1_trans_count": 2}
    # Each reads: none of them changes a drive.
    assert {argv[1] for argv in read_drives.LOGS.values()} == {"smart-log", "id-ctrl", "ocp", "--json"}
    assert {argv[2] for argv in read_drives.LOGS.values() if argv[1] == "ocp"} == {
        "smart-add-log", "latency-monitor-log",
    }  # fmt: skip


@pytest.mark.parametrize("output", ["", "{}", "[]", '{"log0": 3}', "[" * 100000])
def test_what_is_no_answer_is_an_error_with_its_text(output: str) -> None:
    server = ScriptedHost(default=output)
    with pytest.raises(HostError, match=r"read_drives\.py printed no drives"):
        reading.read(server, {"log0": "/dev/x"}, {}, {})
