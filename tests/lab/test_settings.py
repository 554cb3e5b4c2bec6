"""Settings of a real host: the cache of an NVMe disk, and the user's own (here of the kernel, by sysctl).

They are switched, read back and restored; also after a kill, after a command that does nothing, and where one
setting changes another.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.core.errors import EXIT_HOST, EXIT_UNKNOWN, EXIT_USAGE
from kit.recovery.journal import read_journal
from kit.store.manifest import Manifest, read_manifest
from kit.store.run_directory import RunDir
from tests.lab.hoststate import differences, state_of
from tests.lab.rig import MIB, Bed, Disk, Rig
from tests.lab.template import Strike
from tests.lab.workloads import write_device_phases

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]

RIG_DISKS = (
    Disk("vd0", "virtio", "HSPVD0", 128 * MIB),
    Disk("sd0", "scsi", "HSPSD0", 128 * MIB),
    Disk("ns1", "nvme", "HSPNVME0", 128 * MIB),
)
SYSCTL = """
[[setting]]
name = "{0}"
get = ["sysctl", "-n", "vm.{0}"]
set = ["sysctl", "-w", "vm.{0}={{value}}"]
"""
# dirty_bytes and dirty_ratio are one setting of the kernel: to set one sets the other to 0.
SETTINGS = "".join(SYSCTL.format(name) for name in ("swappiness", "dirty_ratio", "dirty_bytes"))
DEAF = '\n[[setting]]\nname = "deaf"\nget = ["sysctl", "-n", "vm.swappiness"]\nset = ["true", "{value}"]\n'


@dataclass
class Host:
    """The rig, and what is set on it."""

    rig: Rig

    def sysctl(self, name: str) -> str:
        return self.rig.host.run(["sysctl", "-n", f"vm.{name}"]).stdout.strip()

    def cache(self) -> str:
        answer = self.rig.host.run(["nvme", "get-feature", "/dev/nvme0", "-f", "6"]).stdout
        return answer.strip()[-1]

    def all(self) -> list[str]:
        return [self.cache(), *map(self.sysctl, ("swappiness", "dirty_ratio", "dirty_bytes"))]


@pytest.fixture
def host(rig: Rig) -> Host:
    return Host(rig)


class SettingsBed(Bed):
    def __init__(self, rig: Rig, folder: Path, disks: tuple[str, ...], settings: str = SETTINGS) -> None:
        super().__init__(rig, folder, {"log": disks})
        self.path.write_text(self.path.read_text() + settings)
        self.workload = write_device_phases(folder)

    def run(self, table: str, strike: Strike | None = None) -> subprocess.CompletedProcess[str]:
        lines = self.workload.read_text().partition('\n[[phase]]\nname = "all"')[0]
        head, phase, rest = lines.partition("[[phase]]")
        self.workload.write_text(head.partition("\n[")[0] + "\n" + table + phase + rest)
        return self.hsp(*self.run_words(self.workload), *self.results, strike=strike)

    def newest(self) -> tuple[Path, Manifest]:
        run = max((self.folder / "devices").glob("2*"))
        return run, read_manifest(RunDir(run))


def test_all_are_read_back_watched_and_restored(host: Host, rig: Rig, tmp_path: Path) -> None:
    bed, before, state = SettingsBed(rig, tmp_path, ("ns1", "vd0")), host.all(), state_of(rig.host)
    assert before[0] == "1", "QEMU's NVMe has its cache on"
    done = bed.run('[host]\nwrite_cache = "off"\n[setting]\nswappiness = 10\n')
    run, manifest = bed.newest()
    assert done.returncode == 0, done.stderr
    found = {each.name: (each.before, each.set) for each in manifest.host_settings}
    assert found["write_cache"] == ("on", "off") and found["setting.swappiness"] == (before[1], "10")
    # Those that are not switched are recorded, too.
    assert found["setting.dirty_ratio"] == (before[2], before[2])
    assert any(
        note.startswith("host.write_cache: vd0 has no volatile write cache") for note in manifest.notes
    )
    lines = map(json.loads, (run / "raw" / "commands.jsonl").read_text().splitlines())
    commands = [line["argv"] for line in lines if "argv" in line]
    switched = [argv[-1] for argv in commands if argv[:2] == ["nvme", "set-feature"]]
    assert switched == ["--value=0", "--value=1"]
    assert host.all() == before and differences(state, state_of(rig.host)) == []


@pytest.mark.faults
def test_after_a_kill_hsp_clean_restores_them_and_nobody_elses_commands(
    host: Host, rig: Rig, tmp_path: Path
) -> None:
    bed, before = SettingsBed(rig, tmp_path, ("ns1",)), host.all()
    killed = bed.run(
        '[host]\nwrite_cache = "off"\n[setting]\nswappiness = 10\n', ("kill", "begin:phase write")
    )
    assert killed.returncode == -9
    assert host.all() == ["0", "10", *before[2:]]
    run, _ = next(iter((tmp_path / "devices").glob("2*"))), None
    journal = run / "journal.jsonl"
    text = journal.read_text()
    # What somebody has made of the journal: its own command, to be run as root.
    evil = text.replace('"sysctl", "-w"', '"touch", "/run/evil", "-w"')
    assert evil != text
    journal.write_text(evil)
    refused = bed.hsp("clean", *bed.results)
    assert "not in this machine's list" in refused.stdout + refused.stderr
    assert host.all() == ["1", "10", *before[2:]], "the rest was undone"
    assert rig.host.run(["test", "-e", "/run/evil"], check=False).returncode == 1
    # As it was written, without what is undone meanwhile.
    journal.write_text(journal.read_text().replace('"touch", "/run/evil", "-w"', '"sysctl", "-w"'))
    cleaned = bed.hsp("clean", *bed.results)
    assert cleaned.returncode == 0, cleaned.stderr
    assert host.all() == before and read_journal(journal).finished


def test_a_setting_that_changes_by_itself_is_named_and_comes_back(
    host: Host, rig: Rig, tmp_path: Path
) -> None:
    bed, before = SettingsBed(rig, tmp_path, ("vd0",)), host.all()
    assert before[2:] == ["20", "0"]
    done = bed.run("[setting]\ndirty_bytes = 10485760\n")
    _, manifest = bed.newest()
    assert done.returncode == EXIT_UNKNOWN, done.stderr
    texts = [problem.text for problem in manifest.problems or ()]
    assert "setting.dirty_ratio was 20 and is 0 since setting.dirty_bytes was set to 10485760" in texts
    # 0 cannot be set: the way back of dirty_bytes is that of dirty_ratio.
    assert host.all() == before


def test_a_setting_that_does_not_read_back_ends_the_run_and_is_undone(
    host: Host, rig: Rig, tmp_path: Path
) -> None:
    bed, before = SettingsBed(rig, tmp_path, ("ns1",), SETTINGS + DEAF), host.all()
    done = bed.run('[setting]\nswappiness = 10\ndeaf = "1"\n')
    assert done.returncode == EXIT_HOST
    assert "setting.deaf was set to 1 but is 10" in done.stderr and "`true 1` ended with 0" in done.stderr
    run, _ = bed.newest()
    assert host.all() == before and read_journal(run / "journal.jsonl").finished


@pytest.mark.parametrize(
    ("disk", "table", "code", "text"),
    [
        ("vd0", '[host]\nwrite_cache = "off"\n', EXIT_USAGE, "no device has a volatile write cache"),
        ("sd0", '[host]\nwrite_cache = "off"\n', EXIT_HOST, "sdparm is not installed"),
        ("vd0", '[host]\nscheduler = "kyber"\n', EXIT_HOST, "queue/scheduler was set to kyber but is"),
        (
            "vd0",
            '[setting]\nsmartpath = "off"\n',
            EXIT_USAGE,
            "has no setting 'smartpath', it has: swappiness",
        ),
    ],
)
def test_what_is_not_there_is_a_clear_error(
    disk: str, table: str, code: int, text: str, host: Host, rig: Rig, tmp_path: Path
) -> None:
    bed, before = SettingsBed(rig, tmp_path, (disk,)), host.all()
    # A kernel that has no module of that scheduler.
    rig.host.run(["mkdir", "-p", "/run/modprobe.d"])
    rig.host.put(b"install kyber-iosched /bin/false\n", "/run/modprobe.d/hsp-test.conf")
    done = bed.run(table)
    assert (done.returncode, text in done.stderr) == (code, True), done.stderr
    assert host.all() == before
    assert all(read_journal(path).finished for path in tmp_path.glob("devices/2*/journal.jsonl"))
