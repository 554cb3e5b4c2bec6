"""kit.rules.force and kit.config.tables.force_table: what a phase with forced writes cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.config.tables.force_table import ForceJob, ForceTable
from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.lab.expected_duration import expected_s
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed

HEAD = 'format = 1\nname = "w"\ntitle = "W"\nprecondition = "none"\n'
NFS = '[working_set]\nfile = "set"\nsize = "1MiB"\n'
PHASE = """\
[[phase]]
name = "log"
title = "Log"
{target}
force = {{ {force} }}
duration = "200ms"
interval = "20ms"
"""
ON_DEVICE, OVER_NFS = 'target = "device:log"', 'tiers = ["slog"]'
IN_DATASET = 'target = "dataset"'


def text_of(force: str, target: str = ON_DEVICE, more: str = "") -> str:
    return HEAD + (NFS if target != ON_DEVICE else "") + more + PHASE.format(target=target, force=force)


def plan(folder: Path, text: str, testbed: Path = LAB_TESTBED) -> Plan:
    path = folder / "w.toml"
    path.write_text(text)
    return make_plan(read_workload(path), read_testbed(testbed), path, testbed)


@pytest.mark.parametrize(
    ("force", "key", "message"),
    [
        ('record = "60B"', "record", "write 64 bytes to"),
        ('record = "100B"', "record", "a multiple of 8"),
        ('record = "32MiB", file = "64MiB"', "record", "write 64 bytes to"),
        ('record = "600B", direct = true', "record", "a multiple of 512 bytes"),
        ('record = "8MiB", per_force = 9, file = "1GiB"', "per_force", "held in memory"),
        (
            'record = "8KiB", files = 2',
            "files",
            "2 files for 1 thread: each thread writes to one file: write threads = 2",
        ),
        ('record = "8MiB", file = "12MiB"', "file", "less than two forces"),
        ('record = "8KiB", group_commit = true', "group_commit", "write threads above files"),
        ('record = "8KiB", threads = 2, group_commit = true, method = "none"', "group_commit", "fdatasync"),
        ('record = "8KiB", method = "sync"', "method", "unknown value"),
        ('record = "8KiB", records = 2', "records", "unknown key"),
        ('record = "8KiB", append = true', "append", "no end to append to"),
        ('record = "8KiB", files = 2, threads = 2', "files", "a device has none"),
        ('record = "600B"', "record", "the page cache of a device"),
        ('record = "8KiB", file = "128MiB"', "file", "the device 'log0' has"),
        ('record = "8KiB", method = "fsync_writethrough"', "method", "n/a on Linux"),
        ('record = "8KiB", random = true', "check", "cannot be read back: write check = false"),
        ('record = "8KiB", method = "flush_idle"', "check", "writes no records"),
        ('record = "8KiB", method = "flush_idle", check = false, per_force = 2', "per_force", "remove it"),
        ('record = "8KiB", most = "1MiB"', "most", "add groups"),
        ('record = "8KiB", method = "read_cached", check = false', "direct", "the page cache would answer"),
    ],
)
def test_on_a_device(tmp_path: Path, force: str, key: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, text_of(force))
    assert f"w.toml:9: phase[0].force.{key}: " in refused.value.message, refused.value.message
    assert message in refused.value.message


def test_on_an_array(tmp_path: Path) -> None:
    """The program writes to the array, which is made before it and stopped after it."""
    on_array = 'target = "array"\narray = { level = "raid0", members = 2 }'
    text = text_of('record = "8KiB"', on_array).replace(NFS, "")
    made = plan(tmp_path, text)
    commands = [" ".join(entry["argv"]) for entry in listed(made, planned_names(made))]

    def places(word: str) -> list[int]:
        return [number for number, command in enumerate(commands) if word in command]

    (node,) = places("mknod ")
    path = next(word for word in commands[node].split() if word.startswith("/dev/"))
    loads = [*places(f" run {path} fdatasync "), *places(f" verify {path} fdatasync ")]
    assert len(loads) == 2
    assert places("mdadm --create")[0] < node < min(loads) and max(loads) < places("mdadm --stop")[0]
    with pytest.raises(ConfigError, match=r"phase\[0\]\.force\.file: .*and the array has") as refused:
        plan(tmp_path, text.replace('"8KiB"', '"8KiB", file = "64GiB"'))
    assert "w.toml:" in refused.value.message


@pytest.mark.parametrize(
    ("force", "more", "message"),
    [
        ('record = "8KiB", method = "none"', "", "client's page cache"),
        ('record = "1MiB"', "", "one force would be several calls"),
        ('record = "64KiB", per_force = 4', '[nfs]\noptions = ["wsize=131072"]\n', "128KiB at most (wsize)"),
        ('record = "8KiB", file = "512MiB"', "", "do not fit twice"),
        ('record = "8KiB"', '[nfs]\nengine = "libnfs"\noptions = []\n', "remove engine"),
        ('record = "8KiB", random = true, check = false', "", "it is for bare devices"),
        ('record = "8KiB", method = "flush_idle", check = false', "", "it is for bare devices"),
    ],
)
def test_over_nfs(tmp_path: Path, force: str, more: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, text_of(force, OVER_NFS, more))
    assert "phase[0].force" in refused.value.message and message in refused.value.message


@pytest.mark.parametrize(
    ("force", "key", "message"),
    [
        ('record = "8KiB", direct = true', "direct", "passes the ARC"),
        ('record = "8KiB", file = "512MiB"', "file", "do not fit twice"),
    ],
)
def test_in_the_dataset(tmp_path: Path, force: str, key: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, text_of(force, IN_DATASET))
    assert f"phase[0].force.{key}" in refused.value.message and message in refused.value.message


@pytest.mark.parametrize(
    ("method", "sync", "tiers", "message"),
    [
        (
            "none",
            "standard",
            '"slog"',
            'nothing forces its writes (method = "none"), so no log is written and',
        ),
        ("fsync", "disabled", '"slog"', 'dataset.properties.sync is "disabled", so no log is written'),
        ("fsync", "standard", '"dram"', 'its writes are forced (fsync) and sync is "standard", so memory'),
        ("none", "standard", '"dram"', ""),
        ("fsync", "disabled", '"dram"', ""),
        ("fsync", "standard", '"slog", "dram"', ""),
        ("fsync", "always", '"slog"', ""),
        ("none", "always", '"dram"', 'sync is "always", so memory alone cannot'),
    ],
)
def test_tiers_of_forced_writes(tmp_path: Path, method: str, sync: str, tiers: str, message: str) -> None:
    target, dataset = f"{IN_DATASET}\ntiers = [{tiers}]", f'[dataset]\nproperties = {{ sync = "{sync}" }}\n'
    text = text_of(f'record = "8KiB", method = "{method}"', target, dataset)
    if not message:
        assert plan(tmp_path, text).workload.phase[0].tiers
        return
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, text)
    assert "phase[0].tiers: phase 'log': " in refused.value.message and message in refused.value.message


@pytest.mark.parametrize(
    ("more", "key", "message"),
    [
        ('job = "x.fio"\n', "job", "remove one of the two"),
        ('options = { bs = "4k" }\n', "options", "remove one of the two"),
        ('log = "every-io"\n', "log", "remove log"),
        ("resumable = true\n", "resumable", "remove resumable"),
    ],
)
def test_it_takes_the_place_of_a_fio_job(tmp_path: Path, more: str, key: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, text_of('record = "8KiB"') + more)
    assert f": phase[0].{key}: " in refused.value.message and message in refused.value.message
    (tmp_path / "w.toml").write_text(text_of('record = "8KiB"').replace('force = { record = "8KiB" }\n', ""))
    with pytest.raises(ConfigError, match="which load"):
        read_workload(tmp_path / "w.toml")


def test_a_plan_lists_the_program_before_in_and_after_the_phase(tmp_path: Path) -> None:
    made = plan(tmp_path, text_of('record = "600B", append = true, per_force = 4', OVER_NFS))
    assert made.workload.phase[0].log == "histograms" and expected_s(made, aged=False)
    commands = [" ".join(each["argv"]) for each in listed(made, planned_names(made))]
    called = [text.split("/force_load ", 1)[1] for text in commands if "/force_load " in text]
    assert [text.split()[0] for text in called] == ["prepare", "run", "verify"]
    assert all("/force/log fdatasync 600 4 1 1 16777216 ac " in text for text in called)
    assert any(text.startswith("mkdir --mode=1777") and text.endswith("/force") for text in commands)
    stored = made.as_json()
    assert json.loads(stored["jobs"]["force (log)"])["per_force"] == 4
    assert stored["workload"]["phase"][0]["force"]["record"] == 600


def test_a_plan_without_force_is_stored_as_before(tmp_path: Path) -> None:
    (tmp_path / "x.fio").write_text(
        "[w]\nfilename=${HSP_DEVICE}\nrw=write\nsize=${HSP_SIZE}\ndirect=1\ntime_based\nruntime=${HSP_RUNTIME}\n"
    )
    text = text_of('record = "8KiB"').replace('force = { record = "8KiB" }', 'job = "x.fio"')
    assert "force" not in plan(tmp_path, text).as_json()["workload"]["phase"][0]


@pytest.mark.parametrize(
    ("keys", "writes", "spare"),
    [
        ({"record": "8KiB"}, 1, 0),
        ({"record": "8KiB", "per_force": 4}, 1, 0),
        ({"record": "8KiB", "per_force": 4, "direct": True}, 4, 0),
        ({"record": "600B", "per_force": 4, "method": "open_sync"}, 4, 4 * 8192),
        ({"record": "600B", "per_force": 4}, 1, 8192),
        ({"record": "8KiB", "threads": 2}, None, 0),
        ({"record": "8KiB", "method": "none"}, None, 0),
    ],
)
def test_writes_that_the_storage_gets(keys: dict[str, object], writes: int | None, spare: int) -> None:
    job = ForceJob.of(ForceTable.model_validate(keys), (Path("w"), 1))
    assert (job.writes_per_io, job.spare_bytes) == (writes, spare)
    assert job.block_bytes == job.force.group_bytes and job.op == "write" and job.sections == ()


def test_groups_say_how_many_and_ios_does_not(tmp_path: Path) -> None:
    text = text_of('record = "8KiB", groups = 100')
    made = plan(tmp_path, text)
    (run,) = (entry["argv"] for entry in listed(made, planned_names(made)) if "run" in entry["argv"])
    assert run[-1] == "100" and made.workload.expected_ns(made.workload.phase[0]) == 100_000_000
    with pytest.raises(ConfigError, match=r"w\.toml:10: phase\[0\]\.ios: force\.groups says how many"):
        plan(tmp_path, text.replace("duration =", "ios = 5\nduration ="))


def test_at_random_places_a_device_may_be_smaller_than_a_file(tmp_path: Path) -> None:
    force = 'record = "8KiB", random = true, check = false, file = "128GiB"'
    made = plan(tmp_path, text_of(force))
    job = made.jobs["force (log)"]
    assert job.is_random and job.span(64 << 20) == (0, 64 << 20)
