"""kit.plan.plan: what cannot work is refused before anything is touched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import WORKLOADS, read_source
from kit.core.errors import ConfigError
from kit.plan.plan import Plan, make_plan
from kit.session.side import lab_of
from kit.sizes.workload_sizes import planned_tiers

DATA = Path(__file__).parents[1] / "data" / "plan"
SLOG_PHASE = 'tiers = ["slog"]'


class Files:
    """A copy of a workload, its jobs and a testbed that can be changed."""

    def __init__(self, folder: Path) -> None:
        for file in DATA.iterdir():
            shutil.copy(file, folder)
        self.workload, self.testbed = folder / "top-speeds.toml", folder / "testbed.toml"
        self.read_job, self.write_job = folder / "top-speeds-read.fio", folder / "top-speeds-write.fio"

    def change(self, file: Path, old: str, new: str) -> None:
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))

    def drop_device(self, role: str) -> None:
        head, *tables = self.testbed.read_text().split("[[device]]")
        kept = [table for table in tables if f'role = "{role}"' not in table]
        assert len(kept) == len(tables) - 1
        self.testbed.write_text("[[device]]".join([head, *kept]))

    def drop_phase(self, name: str) -> None:
        head, *tables = self.workload.read_text().split("[[phase]]")
        tables[-1], *expects = tables[-1].split("[[expect]]")
        kept = [table for table in tables if f'name = "{name}"' not in table]
        assert len(kept) == len(tables) - 1
        kept_expects = [expect for expect in expects if f'phase = "{name}"' not in expect]
        self.workload.write_text("[[phase]]".join([head, *kept]) + "[[expect]]".join(["", *kept_expects]))

    def plan(self) -> Plan:
        return make_plan(
            read_workload(self.workload), read_testbed(self.testbed), self.workload, self.testbed
        )

    def refusal(self) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.plan()
        assert caught.value.exit_code == 2
        return caught.value


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.parametrize("file", sorted(WORKLOADS.glob("*.toml")), ids=lambda file: file.stem)
def test_the_shipped_workloads_run_on_the_shipped_lab(file: Path) -> None:
    bed, _ = lab_of(read_source(file))
    plan = make_plan(read_workload(file), read_testbed(bed), file, bed)
    warmup = {plan.workload.warmup.job} if plan.workload.warmup else set()
    assert set(plan.jobs) == warmup | {phase.load for phase in plan.workload.phase}


def test_tunables_are_in_the_labs_time(files: Files) -> None:
    values = {tunable.name: tunable.host_value for tunable in files.plan().tunables}
    assert values["zfs_txg_timeout"] == 20  # 5 s, four times dilated
    assert values["zfs_arc_max"] == 64 << 20


def test_a_plan_is_stored_whole_and_its_digest_changes_with_it(files: Files) -> None:
    first = files.plan().as_json()
    assert json.loads(json.dumps(first)) == first
    assert first["jobs"]["top-speeds-read.fio"] == files.read_job.read_text()
    assert files.plan().as_json()["digest"] == first["digest"]
    files.change(files.read_job, "norandommap\n", "")
    second = files.plan().as_json()
    assert second["digest"] != first["digest"]
    files.change(files.testbed, "130us", "131us")
    assert files.plan().as_json()["digest"] != second["digest"]


# --- The working set ---


def test_a_working_set_in_the_arc_is_refused_with_sizes_that_work(files: Files) -> None:
    # 4 KiB records need little beside their data: 64 MiB of ARC have most of 72 MiB, and so has the L2ARC.
    files.change(files.workload, "recordsize = 512", "recordsize = 4096")
    error = files.refusal()
    assert error.message.startswith(
        f"{files.workload}:40: working_set.size: phase 'read' asks for l2arc, but"
    )
    assert "of 72MiB in records of 4KiB the tiers would answer: dram" in error.message
    assert "l2arc 0 B" in error.message
    # The cache device of this testbed has 64 MiB: no size of the working set would do.
    assert "no sizes would do with the devices of this testbed" in error.message
    files.change(files.testbed, 'size = "64MiB"', 'size = "256MiB"')
    assert 'pool.cache_size = "112MiB", tunables.zfs_arc_max = "64MiB"' in files.refusal().message


def test_small_records_leave_a_third_of_the_arc_to_data(files: Files) -> None:
    files.change(files.workload, '"72MiB"', '"48MiB"')
    assert files.plan().workload.working_set.size == 48 << 20
    files.change(files.workload, '"48MiB"', '"24MiB"')
    assert "phase 'read' asks for l2arc" in files.refusal().message


@pytest.mark.parametrize("line", ["", "zfs_arc_max = 0"])
def test_an_arc_of_unknown_size_is_refused(files: Files, line: str) -> None:
    files.change(files.workload, 'zfs_arc_max = "64MiB"', line)
    assert "tunables.zfs_arc_max: not set" in files.refusal().message


@pytest.mark.parametrize("second", ["", "64MiB"])
def test_a_working_set_in_the_cache_devices_is_refused(files: Files, second: str) -> None:
    if second:
        text = f'name = "c1"\nrole = "cache"\nmodel = "null_blk"\nsize = "{second}"\nlatency = "1us"\n'
        files.testbed.write_text(f"{files.testbed.read_text()}\n[[device]]\n{text}")
    else:
        files.change(files.testbed, 'size = "64MiB"', 'size = "128MiB"')
    assert "phase 'read' asks for disk, but" in files.refusal().message


def with_dram(folder: Path, dram_bytes: int) -> Path:
    """The lab, with disks that have so much of their own. They are a mirror: each has the whole set."""
    testbed = folder / "lab.toml"
    buffer = f'track_buffer = "{dram_bytes}B"'
    testbed.write_text(LAB_TESTBED.read_text().replace('track_buffer = "1MiB"', buffer))
    return testbed


def test_a_working_set_is_larger_than_the_devices_own_dram(tmp_path: Path) -> None:
    path, testbed = WORKLOADS / "top-speeds.toml", with_dram(tmp_path, 32 << 20)
    made = make_plan(read_workload(path), read_testbed(testbed), path, testbed)
    held = planned_tiers(made.workload, made.testbed)
    assert held and held.disk >= 4 * (32 << 20)


@pytest.mark.parametrize(("share", "is_refused"), [(1, True), (2, False)])
def test_a_working_set_in_the_devices_own_dram_is_refused(
    tmp_path: Path, share: int, is_refused: bool
) -> None:
    path, size_bytes = tmp_path / "own.toml", 72 << 20
    path.write_text(
        'format = 1\nname = "own"\ntitle = "own"\nbase = "top-speeds"\nworking_set.size = "72MiB"\n'
    )
    workload, testbed = read_workload(path), with_dram(tmp_path, size_bytes // share)
    try:
        make_plan(workload, read_testbed(testbed), path, testbed)
        assert not is_refused
    except ConfigError as error:
        assert is_refused and "working_set.size: " in error.message
        assert "holds all of it in its own DRAM" in error.message


def test_just_larger_than_arc_and_cache_is_accepted(files: Files) -> None:
    files.change(files.workload, '"72MiB"', '"65MiB"')
    assert files.plan().workload.working_set.size == 65 << 20


def test_a_working_set_must_fit_twice_into_the_data_devices(files: Files) -> None:
    files.change(files.workload, '"72MiB"', '"256MiB"')
    assert "fit twice" not in files.refusal().message
    files.change(files.workload, '"256MiB"', '"257MiB"')
    assert "257MiB does not fit twice into the data devices (512MiB)" in files.refusal().message


# --- Tiers and devices ---


def test_slog_without_a_log_device_is_refused(files: Files) -> None:
    files.drop_device("log")
    files.drop_phase("write-pool")
    assert "phase 'write-slog': tier slog, but there is no log device" in files.refusal().message


def test_l2arc_without_a_cache_device_is_refused(files: Files) -> None:
    files.drop_device("cache")
    assert "phase 'read': tier l2arc, but there is no cache device" in files.refusal().message


def test_a_missing_device_cannot_be_removed(files: Files) -> None:
    files.drop_device("log")
    files.drop_phase("write-slog")
    assert "phase 'write-pool': remove = \"log\", but the testbed" in files.refusal().message


def test_a_removed_device_does_not_answer_later(files: Files) -> None:
    files.change(files.workload, SLOG_PHASE, f'remove = "log"\n{SLOG_PHASE}')
    assert "phase 'write-slog': tier slog, but there is no log device" in files.refusal().message


def test_a_device_is_removed_once(files: Files) -> None:
    files.change(files.workload, SLOG_PHASE, 'remove = "log"\ntiers = ["pool"]')
    assert "phase 'write-pool': remove" in files.refusal().message


def test_pool_with_a_log_device_is_refused(files: Files) -> None:
    files.change(files.workload, 'remove = "log"', "")
    error = files.refusal()
    assert "phase 'write-pool': tier pool, but the log device takes" in error.message
    assert 'add remove = "log" to the phase' in error.message


@pytest.mark.parametrize("sync", ["", "sync=none"])
def test_a_missing_dsync_is_refused(files: Files, sync: str) -> None:
    files.change(files.write_job, "sync=dsync", sync)
    error = files.refusal()
    assert (
        ": past its page cache (direct=1) the kernel's client sends each write as a stable one"
        in error.message
    )
    assert "add sync=dsync, or measure asynchronous writes with [nfs] engine" in error.message


@pytest.mark.parametrize("sync", ["sync=sync", "sync=1", "sync=dsync"])
def test_every_synchronous_way_is_accepted(files: Files, sync: str) -> None:
    files.change(files.write_job, "sync=dsync", sync)
    assert files.plan()


def test_a_read_tier_with_a_writing_job_is_refused(files: Files) -> None:
    files.change(files.read_job, "rw=randread", "rw=randwrite\nsync=dsync")
    assert "phase 'read': its job top-speeds-read.fio does not read" in files.refusal().message


def test_an_expected_tier_must_be_one_of_the_phase(files: Files) -> None:
    files.change(files.workload, 'tier = "slog"', 'tier = "pool"')
    assert "expect[3].tier: phase 'write-slog' does not have tier pool" in files.refusal().message


@pytest.mark.parametrize(("layout", "needed"), [("mirror", 2), ("raidz1", 2), ("raidz2", 3), ("raidz3", 4)])
def test_a_layout_needs_its_devices(files: Files, layout: str, needed: int) -> None:
    files.change(files.workload, '"stripe"', f'"{layout}"')
    message = files.refusal().message
    assert f"a {layout} needs {needed} data devices, the testbed 'lab' has 1" in message


# --- Jobs and tunables ---


def test_a_job_must_use_the_working_set(files: Files) -> None:
    files.change(files.read_job, "filename=working-set", "filename=other")
    error = files.refusal()
    assert "[read] filename is 'other', but the working set is the file 'working-set'" in error.message


def test_a_job_that_names_no_file_is_refused(files: Files) -> None:
    files.change(files.read_job, "filename=working-set\n", "")
    assert "filename is missing" in files.refusal().message


@pytest.mark.parametrize("job", ["../top-speeds-write.fio", "/etc/passwd", "x/", "."])
def test_a_job_is_not_a_path(files: Files, job: str) -> None:
    files.change(files.workload, 'job = "top-speeds-write.fio"', f'job = "{job}"')
    assert str(files.refusal())


def test_a_job_that_runs_commands_is_refused(files: Files) -> None:
    files.change(files.read_job, "bs=512", "bs=512\nexec_prerun=reboot")
    message = files.refusal().message
    assert message.startswith(f"{files.read_job}:6: exec_prerun")
    assert "runs a command through a shell" in message


def test_a_missing_job_is_named(files: Files) -> None:
    files.write_job.unlink()
    message = files.refusal().message
    assert "phase[1].job: " in message and f"{files.write_job}: no such file, did you mean" in message


def test_a_tunable_without_its_unit_is_refused(files: Files) -> None:
    files.change(files.workload, 'zfs_txg_timeout = "5s"', "zfs_txg_timeout = 5")
    assert "zfs_txg_timeout: a time needs its unit" in files.refusal().message


@pytest.mark.parametrize("value", ["128K", "512", "big"])
def test_an_invalid_recordsize_is_refused(files: Files, value: str) -> None:
    files.change(files.workload, "recordsize = 512", f'recordsize = "{value}"')
    files.refusal()


def test_faults_of_emulated_devices_are_left_out_on_real_ones() -> None:
    """Lines of what is refused stay those of the file."""
    path, nas = WORKLOADS / "soak.toml", Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml"
    workload = read_workload(path)
    made = make_plan(workload, read_testbed(nas), path, nas)
    assert [each.what for each in made.workload.fault] == ["nfsd-restart", "offline"]
    assert "left out (if_emulated): log0 stalls for 500ms; data0 returns errors" in made.notes[0]
    lab = LAB_TESTBED.with_name("soak-testbed.toml")
    assert make_plan(workload, read_testbed(lab), path, lab).workload.fault == workload.fault
    bed = read_testbed(nas).model_copy(update={"device": read_testbed(nas).device[:3]})
    with pytest.raises(ConfigError, match=r"log0") as refused:
        make_plan(workload, bed, path, nas)
    line = path.read_text().splitlines().index('what = "offline"') + 1
    assert f"soak.toml:{line - 1}: " in refused.value.message
