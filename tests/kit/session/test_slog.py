"""`hsp slog`: which device is meant, and which tests it gets."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kit.config.testbed import Testbed
from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.progress import Progress
from kit.devices.block_device import BlockDevice
from kit.lab.image.image import ImageInputs
from kit.session import slog
from kit.session.slog import SlogOptions, find_target, measure_each, planned_tests
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import recorded

DEVICE = BlockDevice("/dev/x", "x", 64 << 20, 512, 0, "", "", "")
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


@pytest.fixture
def testbed(tmp_path: Path) -> Path:
    path = tmp_path / "real.toml"
    path.write_text(TESTBED)
    return path


def test_a_device_of_the_lab_a_preset_and_one_of_a_testbed(testbed: Path) -> None:
    [device] = find_target("log0", None).device
    assert (device.name, device.role, device.is_real) == ("log0", "log", False)
    [preset] = find_target("ssd-lying", None).device
    assert preset.emulated is not None and "ignores flushes" in preset.title
    target = find_target("ssd", testbed)
    assert [device.serial for device in target.device] == ["1"] and not target.is_lab


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
        find_target(name, None)
    assert hint in caught.value.hint


def test_a_path_is_not_of_a_testbed_and_presets_are_of_the_lab(testbed: Path) -> None:
    with pytest.raises(ConfigError, match="with --testbed"):
        find_target("/dev/disk/by-id/nvme-ACME_1", testbed)
    with pytest.raises(ConfigError, match="has no device 'ssd-lying'") as caught:
        find_target("ssd-lying", testbed)
    assert caught.value.hint == "it has: ssd"


def test_an_appliance_is_refused(testbed: Path) -> None:
    text = TESTBED.partition("[[device]]")[0].replace('"ssh://root@server"', '"none"\nexport = "nas:/pool"')
    testbed.write_text(text)
    with pytest.raises(ConfigError, match="cannot be logged into"):
        find_target("ssd", testbed)


def test_each_size_has_as_many_writes_as_fit() -> None:
    tests = [test for group in planned_tests(DEVICE, 4000).values() for test in group]
    flushed = {
        test.force.record: test.ios
        for test in tests
        if (test.force.method, test.force.threads) == ("fdatasync", 1)
    }
    assert list(flushed) == [512 << n for n in range(15)]
    assert flushed[512] == flushed[16 << 10] == 4000 and flushed[8 << 20] == 8
    assert all(test.written_bytes <= DEVICE.size_bytes for test in tests)
    assert {test.force.threads for test in tests if test.force.record == 4096} == {1, 2, 4, 8, 16}
    assert [test.force.method for test in tests if not test.is_random] == ["open_sync"]
    alone = [test for test in tests if test.force.method in ("flush_idle", "read_cached")]
    assert [(test.force.record, test.ios, test.written_bytes) for test in alone] == [(512, 400, 0)] * 2


def test_no_write_is_smaller_than_a_sector() -> None:
    tests = planned_tests(replace(DEVICE, sector_bytes=4096), 4000).values()
    assert min(test.force.record for group in tests for test in group) == 4096


def test_a_large_device_is_not_written_whole() -> None:
    tests = planned_tests(replace(DEVICE, size_bytes=4 << 40), 1_000_000).values()
    assert max(test.written_bytes for group in tests for test in group) == 256 << 20
    assert {test.force.file for group in tests for test in group} == {4 << 40}


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disks of this machine."""
    monkeypatch.setattr(slog, "local_host", lambda: ScriptedHost(default=recorded("pools")))


@pytest.mark.usefixtures("disks")
def test_a_disk_of_this_machine_by_its_link() -> None:
    target = find_target("/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_HSPSD2", None)
    [device] = target.device
    assert (device.serial, device.size, device.role) == ("HSPSD2", 128 << 20, "log")
    assert target.server.host == "local" and not target.is_lab


@pytest.mark.usefixtures("disks")
def test_another_name_of_a_disk_is_refused_with_its_link() -> None:
    with pytest.raises(ConfigError) as caught:
        find_target("/dev/sdc", None)
    assert "today it is /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_HSPSD2" in caught.value.hint
    with pytest.raises(ConfigError) as caught:
        find_target("/dev/disk/by-id/none", None)
    assert "available disks: /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_HSPSD2" in caught.value.hint


def test_a_disk_without_serial_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = recorded("pools")
    lsblk = json.loads(facts["tools"]["lsblk"]["out"])
    for entry in lsblk["blockdevices"]:
        entry["serial"] = None
    facts["tools"]["lsblk"]["out"] = json.dumps(lsblk)
    monkeypatch.setattr(slog, "local_host", lambda: ScriptedHost(default=facts))
    with pytest.raises(SafetyRefusal, match="no serial number"):
        find_target("/dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_HSPSD2", None)


def test_several_devices_are_agreed_to_before_the_first_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = TESTBED[TESTBED.index("[[device]]") :].replace("ssd", "other").replace("ACME_1", "ACME_2")
    (tmp_path / "two.toml").write_text(TESTBED + rest.replace('serial = "1"', 'serial = "2"'))
    targets = [find_target(name, tmp_path / "two.toml") for name in ("ssd", "other")]
    measured: list[Testbed] = []

    def measure(target: Testbed, *_: Any) -> tuple[None, None]:
        measured.append(target)
        return None, None

    monkeypatch.setattr(slog, "measure_slog", measure)

    def run(targets: list[Testbed], *serials: str) -> list[Testbed]:
        measured.clear()
        list(measure_each(targets, SlogOptions(), ImageInputs(), tmp_path, serials, Progress(quiet=True)))
        return measured

    assert run(targets, "1", "2") == targets
    with pytest.raises(SafetyRefusal):
        run(targets, "1")
    with pytest.raises(ConfigError, match="named twice"):
        run([targets[0], targets[0]], "1")
    assert not measured
