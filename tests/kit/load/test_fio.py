"""kit.load.fio: jobs and commands, and the output; invalid output makes the run unknown."""

from __future__ import annotations

import configparser
import itertools
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from kit.config.fio_job import SEED, read_job
from kit.config.workload_base import WORKLOADS
from kit.core.clock import Clock
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.devices import array
from kit.devices.array import ArraySpec
from kit.load import block_device, fio
from kit.zfs import zil

DATA = Path(__file__).parents[1] / "data"
FILES = fio.FioFiles("/run/hsp/x")
JOBS = sorted(WORKLOADS.glob("*.fio"))


# --- Jobs and commands ---


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.stem)
def test_the_job_follows_the_kits_options(file: Path, tmp_path: Path) -> None:
    job = read_job(file)
    text = fio.job_text(job, FILES, {}, "every I/O", together=False).decode()
    own, checked = text[: -len(job.text)], text[-len(job.text) :]
    assert checked == file.read_text()
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read_string(own)
    assert parsed.sections() == ["global"]
    assert dict(parsed["global"]) == {
        "randseed": SEED,
        "thread": "1",
        "write_lat_log": FILES.log_prefix,
        "per_job_logs": "1",
        "log_avg_msec": "0",
        "log_offset": "0",
        "disable_slat": "1",
        "disable_clat": "0",
        "log_alternate_epoch": "1",
        "log_alternate_epoch_clock_id": "1",
    }
    # Without the options that only the kit may set, it reads back as the same job.
    back = tmp_path / "job.fio"
    back.write_text(re.sub(r"^(write_lat_log|per_job_logs|log_\w+)=.*\n", "", text, flags=re.M))
    sections = read_job(back).sections
    assert [(s.name, {**s.options}) for s in sections] == [
        (s.name, {"randseed": SEED, "thread": "1", **s.options, "disable_slat": "1", "disable_clat": "0"})
        for s in job.sections
    ]


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.stem)
def test_with_the_kits_options_a_job_of_a_workload_would_be_refused(file: Path, tmp_path: Path) -> None:
    back = tmp_path / "job.fio"
    back.write_bytes(fio.job_text(read_job(file), FILES, {}, "every I/O", together=False))
    with pytest.raises(ConfigError, match="write_lat_log"):
        read_job(back)


@pytest.mark.parametrize("thread", ["", "thread=0\n", "thread = 1 ; mine\n", "thread\n"])
def test_every_job_is_a_thread_whatever_the_file_says(tmp_path: Path, thread: str) -> None:
    file = tmp_path / "job.fio"
    file.write_text((WORKLOADS / "top-speeds-read.fio").read_text() + thread)
    job = read_job(file)
    for recorded, together in itertools.product(get_args(fio.Recorded), (False, True)):
        text = fio.job_text(job, FILES, {}, recorded, together=together)
        assert re.findall(r"^ *thread.*", text.decode(), re.MULTILINE) == ["thread=1"]


def test_every_fio_without_a_job_file_has_threads() -> None:
    fill = fio.fill_command("/pool/x", "working-set", 1000, 128).argv
    device = block_device.random_writes("/dev/x", 1 << 20, 4096, 4096, 7).argv("/run/x.json")
    begin_zil = zil.begin_zil_commands("hsp", "/pool/x")[0].argv
    spec = ArraySpec("x", "0" * 32, "raid1", 4096, ("/dev/x", "/dev/y"))
    *_, active = array.create_commands(spec)
    assert all("--thread=1" in argv for argv in (fill, device, begin_zil, active.argv))


@pytest.mark.parametrize(("clock", "runtime"), [(Clock(), "1500000us"), (Clock("virtual", 4), "6000000us")])
def test_durations_reach_fio_in_the_hosts_time(clock: Clock, runtime: str) -> None:
    values = fio.variables("/mnt/x", 72 << 20, 1_500_000_000, clock, 7)
    assert values == {
        "HSP_DIRECTORY": "/mnt/x",
        "HSP_DEVICE": "/mnt/x",
        "HSP_SIZE": str(72 << 20),
        "HSP_RUNTIME": runtime,
        "HSP_SEED": "7",
    }
    assert fio.command(FILES) == [
        "fio", "--output-format=json+", "--output=/run/hsp/x/fio.json", "/run/hsp/x/job.fio"
    ]  # fmt: skip


@pytest.mark.parametrize("file", JOBS, ids=lambda file: file.stem)
def test_no_variable_is_left_for_fio(file: Path) -> None:
    values = fio.variables("/mnt/x", 72 << 20, 1_500_000_000, Clock(), 7)
    text = fio.job_text(read_job(file), FILES, values, "every I/O", together=True).decode()
    assert "${" not in text
    assert "filename=/mnt/x\n" in text or "directory=/mnt/x\n" in text


def test_the_fill_writes_the_whole_file_once_and_to_stable_storage() -> None:
    argv = fio.fill_command("/pool/x", "working-set", 1000, 128).argv
    assert argv[0] == "fio"
    assert {
        "--directory=/pool/x", "--filename=working-set", "--rw=write", "--size=1000", "--bs=128",
        "--refill_buffers=1", "--end_fsync=1",
    } <= set(argv)  # fmt: skip


# --- Output ---


@pytest.mark.parametrize(
    ("name", "ios"),
    [("read-fio.json", {"read": 3456, "write": 0}), ("write-slog-fio.json", {"read": 0, "write": 815})],
)
def test_recorded_output(name: str, ios: dict[str, int]) -> None:
    assert fio.total_ios(fio.parse_output((DATA / name).read_text())) == ios


def test_the_output_of_a_load_that_was_stopped_is_read() -> None:
    assert fio.parse_output(f"fio: terminating on signal 2\n{GOOD}") == fio.parse_output(GOOD)


def test_ios_of_several_jobs_are_added() -> None:
    jobs: list[dict[str, Any]] = [
        {"read": {"total_ios": 3}},
        {"read": {"total_ios": 4}, "write": {"total_ios": 1}},
    ]
    assert fio.total_ios(jobs) == {"read": 7, "write": 1}


GOOD = (DATA / "read-fio.json").read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fio: io_u error on file /mnt: Input/output error\n" + GOOD, "it begins with: 'fio: io_u error"),
        (GOOD + "\nnote: clock is slow", "not JSON"),
        (GOOD + "\n" + GOOD, "not JSON"),
        (GOOD[: len(GOOD) // 2], "not JSON"),
        ("", "not JSON"),
        ("[]", "not JSON with jobs"),
        ("{}", "not JSON with jobs"),
        ('{"jobs": []}', "has no jobs"),
        ('{"jobs": {"read": 1}}', "has no jobs"),
        (GOOD.replace('"error" : 0', '"error" : 5', 1), "reports an error in job read"),
        ('{"jobs": [5]}', ""),
        ("[" * 200_000, ""),
    ],
    ids=range(12),
)
def test_other_output_is_unknown(text: str, message: str) -> None:
    with pytest.raises(MeasurementUnknown) as caught:
        fio.parse_output(text)
    assert caught.value.exit_code == 3
    assert message in caught.value.message
    assert len(caught.value.message) < 400
