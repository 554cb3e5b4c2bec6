"""Faults and events at set times on a host that is reached over TCP as any other is.

The host is a guest, and the kit does not know it. What its latencies are is worth nothing; that each action
happens at its time, is recorded, and leaves nothing behind is what counts.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kit.core.errors import EXIT_HOST, EXIT_USAGE
from kit.recovery.journal import read_journal
from tests.lab.hoststate import differences, state_of
from tests.lab.rig import Bed, Rig
from tests.lab.workloads import HEAD, JOB

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900, func_only=True)]

_ROLES = {"data": ("vd0", "vd1"), "log": ("vd2",)}
_LOG = "vd2"
_PHASE = """\
[pool]
data = "mirror"
[[phase]]
name = "soak"
title = "soak"
job = "write.fio"
tiers = ["slog"]
duration = "{duration}"
interval = "100ms"
"""
_OFFLINE = '[[fault]]\nat = "1s"\ndevice = "log"\nwhat = "offline"\nfor = "300ms"\n'
_NFSD = '[[fault]]\nat = "2s"\nwhat = "nfsd-restart"\nfor = "200ms"\n'
_COMMAND = """\
[[fault]]
at = "5200ms"
what = "command"
run = ["mkdir", "/tmp/hsp-fault"]
undo = ["rmdir", "/tmp/hsp-fault"]
for = "200ms"
"""
_EVENTS = """\
[[event]]
at = "5500ms"
what = "scrub"
[[event]]
at = "5800ms"
what = "resilver"
for = "300ms"
[[event]]
at = "6800ms"
what = "snapshots"
every = "100ms"
for = "300ms"
[[event]]
at = "7200ms"
what = "send"
"""


def write_workload(folder: Path, duration: str, *tables: str) -> Path:
    """Few writes a second, so that the guest, whose clock skips idle time, has little to do."""
    job = JOB + "rw=randwrite\nsync=dsync\nsize=${HSP_SIZE}\nrate_iops=50\n"
    folder.joinpath("write.fio").write_text(job)
    text = HEAD.format(name="small", more="", properties="") + _PHASE.format(duration=duration)
    path = folder / "small.toml"
    path.write_text(text + "".join(tables))
    return path


def test_each_is_done_at_its_time_and_undone(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, _ROLES)
    workload = write_workload(tmp_path, "9s", _OFFLINE, _NFSD, _COMMAND, _EVENTS)
    shown = bed.hsp("plan", os.fspath(workload), "--testbed", os.fspath(bed.path), "--commands")
    assert shown.returncode == 0, shown.stderr
    log = rig.by_id[_LOG]
    for words in (
        f"zpool offline hsp-ID {log}", f"zpool online hsp-ID {log}", "tee /proc/fs/nfsd/threads",
        "python3 -I - start THREADS LISTENERS",
        "mkdir /tmp/hsp-fault", "rmdir /tmp/hsp-fault", "zpool scrub hsp-ID",
        f"zpool offline hsp-ID {rig.by_id['vd0']}", "zfs snapshot", "zfs send",
    ):  # fmt: skip
        assert words in shown.stdout, f"{words}\n{shown.stdout}"
    before = state_of(rig.host)
    done = bed.hsp(*bed.run_words(workload), "--json", *bed.results)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verdict"] == "valid", summary["reasons"]
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
    assert [row["ok"] for row in faults] == [True] * 3 and all(row["recovered_s"] >= 0 for row in faults)
    record = read_journal(run / "journal.jsonl")
    assert record.finished and not record.pending
    # The command's way back has run, and nfsd listens where it did.
    assert differences(before, state_of(rig.host)) == []


def test_what_cannot_work_is_refused_before_anything_is_touched(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path, _ROLES)
    before = state_of(rig.host)
    stall = '[[fault]]\nat = "1s"\ndevice = "log"\nwhat = "stall"\nfor = "50ms"\n'
    workload = write_workload(tmp_path, "2s", stall)
    for words in (["plan", os.fspath(workload), "--testbed", os.fspath(bed.path)], bed.run_words(workload)):
        refused = bed.hsp(*words)
        assert refused.returncode == EXIT_USAGE, refused.stderr
        assert f'"stall" is for emulated devices, and the server is {rig.address}' in refused.stderr
    for old, missing in (('["mkdir"', "run"), ('["rmdir"', "undo")):
        workload = write_workload(tmp_path, "6s", _COMMAND.replace(old, '["/usr/sbin/hsp-not-there"'))
        refused = bed.hsp(*bed.run_words(workload), *bed.results)
        assert refused.returncode == EXIT_HOST, refused.stderr
        words = f"has no program /usr/sbin/hsp-not-there, which {missing} of a [[fault]] runs"
        assert words in refused.stderr, refused.stderr
        assert differences(before, state_of(rig.host)) == []


_NO_WAY_BACK = """\
[[fault]]
at = "1s"
what = "command"
run = ["true"]
undo = ["false"]
for = "100ms"
recover_within = "500ms"
"""
_LASTS = """\
[[fault]]
at = "2s"
what = "command"
run = ["rpc.nfsd", "0"]
undo = ["rpc.nfsd", "4"]
"""


@pytest.mark.long
def test_a_load_that_waits_for_a_fault_ends_and_is_kept_with_an_undo_that_fails(
    rig: Rig, tmp_path: Path
) -> None:
    bed = Bed(rig, tmp_path, _ROLES, "none")
    workload = write_workload(tmp_path, "3s", _NO_WAY_BACK, _LASTS)
    before = state_of(rig.host)
    done = bed.hsp(*bed.run_words(workload), "--json", *bed.results)
    assert (
        done.returncode == EXIT_HOST and "it is `undo` of a [[fault]]: end the fault by hand" in done.stderr
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
