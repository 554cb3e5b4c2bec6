"""`hsp slog`: which device is meant, and which plan it gets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.progress import Progress
from kit.plan.plan import Plan
from kit.run.resume import sources
from kit.session.place import Request
from kit.session.side import Side
from kit.session.slog import measuring, target
from kit.session.slog.measuring import State, measure_each, side_of
from kit.session.slog.target import with_only
from kit.store.json_file import write_json
from kit.store.printed.slog import BLOCK, SIZES, THREADS
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import recorded

TESTBED = """\
name = "real"
[server]
host = "ssh://root@server"
[[client]]
host = "ssh://root@client"
[[device]]
name = "ssd"
role = "log"
path = "/dev/disk/by-id/nvme-ACME_1"
serial = "1"
size = "64GiB"
"""


def plan_of(device: str, testbed: Path | None, state: State = "as-found", writes: int = 4000) -> Plan:
    return side_of(device, testbed, state, writes).plan()


@pytest.fixture
def testbed(tmp_path: Path) -> Path:
    path = tmp_path / "real.toml"
    path.write_text(TESTBED)
    return path


def test_a_device_of_the_lab_a_preset_and_one_of_a_testbed(testbed: Path) -> None:
    [device] = with_only("log0", LAB_TESTBED).device
    assert (device.name, device.role, device.is_real) == ("log0", "log", False)
    [preset] = with_only("ssd-lying", LAB_TESTBED).device
    assert preset.emulated is not None and "ignores flushes" in preset.title
    read = with_only("ssd", testbed)
    assert [device.serial for device in read.device] == ["1"] and not read.is_lab


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("log9", "the lab has no device 'log9'", "nvme-datacentre"),
        ("/dev/sda", "no disk of that name", "disk"),
        ("/dev/disk/by-id/ata-none", "no disk of that name", "disk"),
        ("/etc/passwd", "no disk of that name", "disk"),
    ],
)
def test_what_is_not_there_is_refused(name: str, message: str, hint: str) -> None:
    if name.startswith("/") and os.geteuid():
        pytest.skip("only root can look at disks")
    with pytest.raises(ConfigError, match=message) as caught:
        with_only(name, LAB_TESTBED)
    assert hint in caught.value.hint


def test_a_path_is_not_of_a_testbed_and_presets_are_of_the_lab(testbed: Path) -> None:
    with pytest.raises(ConfigError, match="with --testbed"):
        with_only("/dev/disk/by-id/nvme-ACME_1", testbed)
    with pytest.raises(ConfigError, match="has no device 'ssd-lying'") as caught:
        with_only("ssd-lying", testbed)
    assert caught.value.hint == "it has: ssd"


def test_an_appliance_is_refused(testbed: Path) -> None:
    text = TESTBED.partition("[[device]]")[0].replace('"ssh://root@server"', '"none"\nexport = "nas:/pool"')
    testbed.write_text(text)
    with pytest.raises(ConfigError, match="cannot be logged into"):
        with_only("ssd", testbed)


def test_each_size_has_as_many_writes_as_fit() -> None:
    plan = plan_of("ssd-lying", None, "as-found", 4000)
    forces = [phase.force for phase in plan.workload.phase if phase.force]
    one = [each for each in forces if (each.method, each.threads) == ("fdatasync", 1)]
    writes = {each.record: each.groups_on(64 << 20) or 0 for each in one}
    assert list(writes) == list(SIZES) and len(forces) == len(plan.workload.phase) == 37
    assert writes[512] == writes[16 << 10] == 4000 and writes[8 << 20] == 8
    assert all(each.record * (each.groups_on(64 << 20) or 0) <= 64 << 20 for each in one)
    assert {each.threads for each in forces if each.record == BLOCK} == set(THREADS)
    assert [each.method for each in forces if not each.random] == ["read_cached", "open_sync"]
    assert all(each.direct and not each.check for each in forces)
    # A large device is not written whole.
    assert max(each.record * (each.groups_on(4 << 40) or 0) for each in forces) == 256 << 20


def test_options_are_those_of_the_workload(testbed: Path) -> None:
    plan = plan_of("ssd", testbed, "aged", 100)
    assert {phase.force.groups for phase in plan.workload.phase if phase.force} == {100}
    assert plan.workload.precondition and plan.workload.precondition.passes == 2
    [device] = plan.testbed.device
    assert (device.name, device.role, plan.testbed.client) == ("ssd", "log", ())
    fresh = plan_of("ssd", testbed, "fresh", 100).workload.precondition
    assert fresh and fresh.writes and (fresh.method, fresh.passes, fresh.rounds) == ("purge", 0, 0)


def test_more_writes_have_more_time_in_as_many_intervals() -> None:
    plan = plan_of("ssd-lying", None, "as-found", 1_000_000)
    idle, read, *others = plan.workload.phase
    assert {phase.duration for phase in (idle, read)} == {10 * 10**9}
    assert {phase.duration for phase in others} == {20_000 * 10**9}
    assert all(phase.duration // phase.interval < 6100 for phase in plan.workload.phase)


@pytest.mark.parametrize(("device", "has_testbed"), [("ssd-lying", False), ("ssd", True)])
def test_a_run_goes_on_with_the_device_that_it_was_begun_with(
    tmp_path: Path, testbed: Path, device: str, has_testbed: bool
) -> None:
    plan = plan_of(device, testbed if has_testbed else None, "aged", 1_000_000)
    write_json(tmp_path / "plan.json", plan.as_json())
    workload, found, sets, only = sources(tmp_path)
    again = Side(str(workload), found, sets, device=only).plan()
    assert again == plan and [each.name for each in again.testbed.device] != []


def test_a_device_that_is_no_text_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", plan_of("ssd-lying", None).as_json() | {"device": ["ssd"]})
    with pytest.raises(ConfigError, match="device is no text"):
        sources(tmp_path)


def test_a_device_of_another_role_is_tested_as_log_device() -> None:
    plan = plan_of("data0", None, "as-found", 4000)
    assert [(device.name, device.role) for device in plan.testbed.device] == [("data0", "log")]


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disks of this machine."""
    monkeypatch.setattr(target, "local_host", lambda: ScriptedHost(default=recorded("pools")))


@pytest.mark.usefixtures("disks")
def test_a_disk_of_this_machine_by_its_link() -> None:
    bed = with_only("/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_HSPSD2", LAB_TESTBED)
    [device] = bed.device
    assert (device.serial, device.size, device.role) == ("HSPSD2", 128 << 20, "log")
    assert bed.server.host == "local" and not bed.is_lab


@pytest.mark.usefixtures("disks")
def test_another_name_of_a_disk_is_refused_with_its_link() -> None:
    with pytest.raises(ConfigError) as caught:
        with_only("/dev/sdc", LAB_TESTBED)
    assert "today it is /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_HSPSD2" in caught.value.hint
    with pytest.raises(ConfigError) as caught:
        with_only("/dev/disk/by-id/none", LAB_TESTBED)
    assert "available disks: /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_HSPSD2" in caught.value.hint


def test_a_disk_without_serial_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = recorded("pools")
    lsblk = json.loads(facts["tools"]["lsblk"]["out"])
    for entry in lsblk["blockdevices"]:
        entry["serial"] = None
    facts["tools"]["lsblk"]["out"] = json.dumps(lsblk)
    monkeypatch.setattr(target, "local_host", lambda: ScriptedHost(default=facts))
    with pytest.raises(SafetyRefusal, match="no serial number"):
        with_only("/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_HSPSD2", LAB_TESTBED)


def test_several_devices_are_agreed_to_before_the_first_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = TESTBED[TESTBED.index("[[device]]") :].replace("ssd", "other").replace("ACME_1", "ACME_2")
    (tmp_path / "two.toml").write_text(TESTBED + rest.replace('serial = "1"', 'serial = "2"'))
    plans = [plan_of(name, tmp_path / "two.toml") for name in ("ssd", "other")]
    measured: list[Plan] = []

    def measure(plan: Plan, *_: Any) -> None:
        measured.append(plan)

    monkeypatch.setattr(measuring, "measure", measure)
    monkeypatch.setattr(measuring, "agreed_place", lambda *_: None)

    def run(plans: list[Plan], *serials: str) -> list[Plan]:
        measured.clear()
        list(measure_each(plans, Request(tmp_path, erase_serials=serials), Progress(quiet=True)))
        return measured

    assert run(plans, "1", "2") == plans
    with pytest.raises(SafetyRefusal):
        run(plans, "1")
    with pytest.raises(ConfigError, match="named twice"):
        run([plans[0], plans[0]], "1")
    assert not measured
