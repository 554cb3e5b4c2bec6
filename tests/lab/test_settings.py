"""What a host with an NVMe disk can be asked for: settings, faults and events at set times.

Settings are the cache of the NVMe disk, and the user's own (here of the kernel, by sysctl). They are
switched, read back and restored; also after a command that does nothing, and where one setting changes
another. What a kill leaves of them: tests/kit/recovery/.

The host is a guest, and the kit does not know it. What its latencies are is worth nothing; that each action
happens at its time, is recorded, and leaves nothing behind is what counts. A guest with an NVMe disk has to
boot, so the interlocks of such disks are here, too.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from kit.config.tables.precondition_table import Precondition
from kit.core.clock import Clock
from kit.core.errors import EXIT_EXPECTATION, EXIT_HOST, EXIT_UNKNOWN, EXIT_USAGE, SafetyRefusal
from kit.core.progress import Progress
from kit.devices import block_device
from kit.devices.check import check, guarded
from kit.devices.listing import list_devices
from kit.devices.probe import probe
from kit.devices.refusal_reasons import Code, DeviceSpec
from kit.instruments.drives import reading as drives
from kit.instruments.machine import power_counters
from kit.precondition.device import Target, precondition
from kit.precondition.purge import purge
from kit.recovery.journal import read_journal
from kit.store.manifest import Manifest, read_manifest
from kit.store.run_directory import RunDir
from tests.kit.devices.facts import REASONS_OF_USES
from tests.lab.diskstates import States
from tests.lab.hoststate import differences, state_of
from tests.lab.rig import MIB, NVME, NVME_DISKS, Bed, Rig
from tests.lab.schedules import (
    COMMAND,
    COMMANDS,
    EVENTS,
    LASTS,
    MIRRORED,
    NFSD,
    NO_WAY_BACK,
    OFFLINE,
    bed_with,
    write_workload,
)
from tests.lab.workloads import write_device_phases

PROTECTS = (
    "kit/setup/switch_settings.py",
    "kit/plan/setting_steps.py",
    "kit/devices/write_cache.py",
    "kit/remote",
)
pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

RIG_DISKS = NVME_DISKS
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
        controller = self.rig.nodes["nvme"].removesuffix("n1")
        answer = self.rig.host.run(["nvme", "get-feature", controller, "-f", "6"]).stdout
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

    def run(self, table: str) -> subprocess.CompletedProcess[str]:
        lines = self.workload.read_text().partition('\n[[phase]]\nname = "all"')[0]
        head, phase, rest = lines.partition("[[phase]]")
        self.workload.write_text(head.partition("\n[")[0] + "\n" + table + phase + rest)
        return self.hsp(*self.run_words(self.workload), *self.results)

    def newest(self) -> tuple[Path, Manifest]:
        run = max((self.folder / "devices").glob("2*"))
        return run, read_manifest(RunDir(run))


def test_all_are_read_back_watched_and_restored(host: Host, rig: Rig, tmp_path: Path) -> None:
    bed, before, state = SettingsBed(rig, tmp_path, ("nvme", "vd0")), host.all(), state_of(rig.host)
    assert before[0] == "1", "QEMU's NVMe has its cache on"
    done = bed.run('[host]\nwrite_cache = "off"\n[setting]\nswappiness = 10\n')
    run, manifest = bed.newest()
    assert done.returncode == 0, done.stderr
    found = {each.name: (each.before, each.set) for each in manifest.host_settings}
    assert found["write_cache"] == ("on", "off") and found["setting.swappiness"] == (before[1], "10")
    # What drives cannot say is said once a phase, and makes nothing unknown.
    for phase in manifest.phases:
        assert [each.media_errors for each in phase.drives] == [0, None]
        assert {"DRIVE-THROTTLED", "LINK-DEGRADED"} <= {each.id for each in phase.unavailable}
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
    bed, before = SettingsBed(rig, tmp_path, ("nvme",), SETTINGS + DEAF), host.all()
    done = bed.run('[setting]\nswappiness = 10\ndeaf = "1"\n')
    assert done.returncode == EXIT_HOST
    assert "setting.deaf was set to 1 but is 10" in done.stderr and "`true 1` ended with 0" in done.stderr
    run, _ = bed.newest()
    assert host.all() == before and read_journal(run / "journal.jsonl").finished


@pytest.mark.parametrize(
    ("disk", "table", "code", "text"),
    [
        ("vd0", '[host]\nwrite_cache = "off"\n', EXIT_USAGE, "no device has a volatile write cache"),
        ("vd0", '[host]\nscheduler = "kyber"\n', EXIT_HOST, "queue/scheduler was set to kyber but is"),
        # tests/kit/devices/test_write_cache.py, tests/kit/rules/test_settings.py
        pytest.param(
            "sd0", '[host]\nwrite_cache = "off"\n', EXIT_HOST, "sdparm is not installed",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "vd0", '[setting]\nsmartpath = "off"\n', EXIT_USAGE,
            "has no setting 'smartpath', it has: swappiness", marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
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


# --- Faults and events at set times ---


def test_faults_and_events_are_each_done_at_their_time_and_undone(rig: Rig, tmp_path: Path) -> None:
    bed = bed_with(COMMANDS, rig, tmp_path)
    workload = write_workload(tmp_path, "12s", OFFLINE, NFSD, COMMAND, EVENTS)
    shown = bed.hsp("plan", os.fspath(workload), "--testbed", os.fspath(bed.path), "--commands")
    assert shown.returncode == 0, shown.stderr
    log = rig.by_id["vd2"]
    for words in (
        f"zpool offline hsp-ID {log}", f"zpool online hsp-ID {log}", "/proc/fs/nfsd/threads",
        "python3 -I - start THREADS LISTENERS",
        "mkdir /tmp/hsp-fault", "rmdir /tmp/hsp-fault", "zpool scrub hsp-ID",
        f"zpool offline hsp-ID {rig.by_id['vd0']}", "zfs snapshot", "zfs send",
    ):  # fmt: skip
        assert words in shown.stdout, f"{words}\n{shown.stdout}"
    before = state_of(rig.host)
    done = bed.hsp(*bed.run_words(workload), "--json", *bed.results)
    summary = json.loads(done.stdout)
    # Disks of the guest are files here: a stall of this machine is a stall of the guest. Its intervals
    # without an I/O leave faults unjudged, or are above what was before. Nothing else may be open.
    decided = {each["id"] for each in summary["outcomes"] if each.get("makes", "valid") != "valid"}
    assert decided <= {"FAULT-UNJUDGED", "FAULT-RECOVERY"}, done.stderr
    assert done.returncode in ((EXIT_EXPECTATION, EXIT_UNKNOWN) if decided else (0,)), done.stderr
    run = (tmp_path / "small" / "latest").resolve()
    (phase,) = json.loads((run / "manifest.json").read_text())["phases"]
    schedule = phase["schedule"]
    assert [each["what"] for each in schedule["actions"]] == [
        "offline", "nfsd-restart", "command", "scrub", "resilver", "snapshots", "send",
    ]  # fmt: skip
    for each in schedule["actions"]:
        # Two programs, one for the user's own command, see the load begin to within their 10 ms.
        late_ns = each["begin_ns"] - schedule["load_begun_ns"] - each["at_ns"]
        assert -10_000_000 <= late_ns < 50_000_000 and each["end_ns"], each
        assert not each["error"] and not each["was_cut"] and each["times"], each
    assert (schedule["client_errors"], schedule["data"]["data_errors"]) == (0, 0)
    kinds = [event["kind"] for event in phase["events"]]
    assert kinds.count("fault") == 3 and kinds.count("expected") == 4
    faults = [row for row in summary["faults"] if row["kind"] == "fault"]
    assert len(faults) == 3 and all(decided or row["ok"] for row in faults)
    record = read_journal(run / "journal.jsonl")
    assert record.finished and not record.pending
    # The command's way back has run, and nfsd listens where it did.
    assert differences(before, state_of(rig.host)) == []


def test_what_cannot_work_is_refused_before_anything_is_touched(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, MIRRORED)
    before = state_of(rig.host)
    stall = '[[fault]]\nat = "1s"\ndevice = "log"\nwhat = "stall"\nfor = "50ms"\n'
    workload = write_workload(tmp_path, "2s", stall)
    for words in (["plan", os.fspath(workload), "--testbed", os.fspath(bed.path)], bed.run_words(workload)):
        refused = bed.hsp(*words)
        assert refused.returncode == EXIT_USAGE, refused.stderr
        assert f'"stall" is for emulated devices, and the server is {rig.address}' in refused.stderr
    for old, missing in (('["mkdir"', "run"), ('["rmdir"', "undo")):
        bed = bed_with(COMMANDS.replace(old, '["/usr/sbin/hsp-not-there"'), rig, tmp_path)
        workload = write_workload(tmp_path, "9s", COMMAND)
        refused = bed.hsp(*bed.run_words(workload), *bed.results)
        assert refused.returncode == EXIT_HOST, refused.stderr
        words = f"has no program /usr/sbin/hsp-not-there, which {missing} of a [[command]] runs"
        assert words in refused.stderr, refused.stderr
        assert differences(before, state_of(rig.host)) == []


@pytest.mark.long
def test_a_load_that_waits_for_a_fault_ends_and_is_kept_with_an_undo_that_fails(
    rig: Rig, tmp_path: Path
) -> None:
    bed = bed_with(COMMANDS, rig, tmp_path, "none")
    workload = write_workload(tmp_path, "6s", NO_WAY_BACK, LASTS)
    before = state_of(rig.host)
    done = bed.hsp(*bed.run_words(workload), "--json", *bed.results)
    assert (
        done.returncode == EXIT_HOST and "it is `undo` of a [[command]]: end the fault by hand" in done.stderr
    )
    run = (tmp_path / "small" / "latest").resolve()
    (phase,) = json.loads((run / "manifest.json").read_text())["phases"]
    first, stopped = phase["schedule"]["actions"]
    assert first["error"].startswith("`false` ended with 1") and stopped["lasted"] and not stopped["error"]
    # nfsd was away until the load had been over for 2 s, had it not waited.
    assert stopped["end_ns"] - phase["schedule"]["load_begun_ns"] >= 5_000_000_000
    assert "nfsd" not in " ".join(differences(before, state_of(rig.host)))
    # The undo fails again and holds up the rest until a person has looked.
    assert [each.kind for each in read_journal(run / "journal.jsonl").pending] == [
        "work-directory", "work-directory", "fault-command",
    ]  # fmt: skip
    assert bed.hsp("clean", os.fspath(run)).returncode == EXIT_HOST
    rig.host.run(["rm", "-r", f"/run/hsp/{run.name}"])
    cleaned = bed.hsp("clean", os.fspath(run))
    assert read_journal(run / "journal.jsonl").finished, cleaned.stderr
    assert differences(before, state_of(rig.host)) == []


# --- Interlocks of an NVMe ---


@pytest.fixture
def blank(rig: Rig) -> States:
    """All disks are blank."""
    states = States(rig)
    states.blank(*rig.disks)
    return states


def wanted(rig: Rig, disk: str) -> DeviceSpec:
    return DeviceSpec(rig.by_id[disk], rig.disks[disk].serial, rig.disks[disk].size_bytes)


def test_d11_a_format_spares_the_sibling(rig: Rig, blank: States, tmp_path: Path) -> None:
    blank.put_ext4("ns1", tmp_path)
    with blank.mounted("ns1"):
        before = blank.digests("ns1", "ns2")
        with pytest.raises(SafetyRefusal, match="a namespace of the same controller, is in use"):
            block_device.find_unused(rig.host, rig.by_id["ns2"])
        assert blank.digests(*before) == before
    # Not used any more, it has contents all the same. This controller says that a format is of one namespace.
    device = block_device.find_unused(rig.host, rig.by_id["ns2"])
    before = blank.digests("ns1")
    assert purge(rig.host, device, "format").method == "nvme format"
    assert blank.digests("ns1") == before


def test_d14_a_smart_warning_ends_preconditioning_and_the_data_stay(
    rig: Rig, blank: States, tmp_path: Path
) -> None:
    controller = f"/machine/peripheral/{rig.disks['ns2'].serial}"

    class Watched(Progress):
        """The flash gets worn out when the first fill has been told of."""

        def note(self, text: str) -> None:
            super().note(text)
            if ": fill 1" in text:
                # Bit 2 of the critical warning: the reliability of the device is degraded.
                rig.monitor("qom-set", path=controller, property="smart_critical_warning", value=4)

    told = io.StringIO()
    asked = Precondition.model_validate({"method": "fills", "fills": 4, "ios": 400, "purge": "discard"})
    try:
        done = precondition(
            rig.host, Target("ns2", "log", rig.by_id["ns2"], 128 * MIB), asked, Clock("virtual", 4),
            work_dir="/run/hsp/d14", state_path=tmp_path / "state.json", progress=Watched(stream=told),
        )  # fmt: skip
        (problem,) = done.problems
        assert "SMART has the critical warning 0x4" in problem
        stages = [stage["stage"] for stage in done.entry["stages"]]
        assert stages[:2] == ["purge", "fill 1"] and len(stages) < 5
        assert done.entry["stopped"] and done.points  # what was measured is kept
        # Whoever looks for disks is told as well.
        (listed,) = [one for one in list_devices(rig.host) if one.path == rig.by_id["ns2"]]
        assert listed.health.warning is True
    finally:
        rig.monitor("qom-set", path=controller, property="smart_critical_warning", value=0)


def test_what_an_nvme_says_of_its_health_is_listed(rig: Rig, blank: States) -> None:
    listed = {one.node.kernel_name: one for one in list_devices(rig.host)}
    assert not listed["vda"].available and not listed["vdb"].available
    first = listed[Path(rig.nodes["ns1"]).name]
    assert first.available and first.path == rig.by_id["ns1"]
    assert (first.health.temperature_c, first.health.wear_percent, first.health.warning) == (50, 0, False)
    assert {one.node.write_cache for one in listed.values()} <= {"write back", "write through"}
    json.dumps([one.as_json() for one in listed.values()])


def test_an_nvme_without_thermal_management_proves_nothing(rig: Rig, blank: States) -> None:
    """Real nvme-cli and smartctl, on a drive of QEMU: it has no thermal management, and no link."""
    logs = dict.fromkeys(("ns1", "vd0"), ("smart", "identify", "smartctl"))
    found = drives.read(rig.host, {name: rig.by_id[name] for name in logs}, logs, {})
    assert found["vd0"]["logs"] == {} and {*found["ns1"]["logs"]} == {"smart", "identify"}
    seen = drives.parse(found["ns1"])
    assert seen.counts["media_errors"] == 0 and "thm_temp1_trans_count" not in seen.counts
    assert seen.link_max is None and seen.controller["driver"] == "nvme"
    assert "unsafe_shutdowns" in power_counters.read(rig.host, rig.by_id["ns1"])


# Each has its reason in tests/kit/devices/test_refusal_reasons.py.
@pytest.mark.long
def test_siblings(rig: Rig, blank: States, tmp_path: Path) -> None:
    blank.put_ext4("ns1", tmp_path)
    with blank.mounted("ns1"):
        before = blank.digests("ns1", "ns2")
        checked = check(rig.host, [wanted(rig, "ns1")]) + check(rig.host, [wanted(rig, "ns2")])
        assert [{reason.code for reason in one.reasons} for one in checked] == [
            REASONS_OF_USES["ns1"], REASONS_OF_USES["ns2"],
        ]  # fmt: skip
        assert "mounted at /mnt/own" in checked[1].reasons[0].text
        with pytest.raises(SafetyRefusal), guarded(rig.host, [wanted(rig, "ns2")], "run-x"):
            pytest.fail("the device was given away")
        assert blank.digests(*before) == before
    # Of two namespaces that are both of the testbed, neither is in the other's way.
    blank.blank("ns1")
    both = [wanted(rig, "ns1"), wanted(rig, "ns2")]
    with guarded(rig.host, both, "run-x") as guard:
        guard.before_writing()
    # Two links of one namespace are one disk.
    links = probe(rig.host).links
    first = rig.by_id["ns1"]
    other = next(
        link
        for link, name in links.items()
        if name == links[first] and link != first and link.startswith("/dev/disk/by-id/")
    )
    codes = [{reason.code for reason in one.reasons} for one in check(
        rig.host, [DeviceSpec(link, NVME, 128 * MIB) for link in (first, other)]
    )]  # fmt: skip
    assert Code.DUPLICATE in codes[0] & codes[1]
