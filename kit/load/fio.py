"""fio on a client: command lines, job texts, and the output of the kit's own runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from kit.config.fio_job import SEED, FioJob
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.hosts.base import Command, Host
from kit.load import fio_json
from kit.load.fio_json import Json

# fio holds its log of every I/O in memory, and so does the kit when it reads it.
LONGEST_EVERY_IO_NS = 15 * 60 * 10**9
# Counts: intervals of a phase, each a line of its file.
MOST_INTERVALS = 1 << 17
# So many readings are free to take: then they are shorter than intervals, and I/Os lie in the right one.
_USUAL_READINGS = 1 << 12
_READINGS_PER_INTERVAL = (4, 2)
_SHORTEST_READING_MS = 250
_FILL_DEADLINE_S = 6 * 3600.0

# Before the JSON of a load that the kit has stopped, or whose start it has delayed.
_OWN_LINES = re.compile(
    r"^(fio: terminating on signal [0-9]+|.+ : Saving output of prerun in .+)$", re.MULTILINE
)

# Put before every job: a log with times of the client's monotonic clock (1 is CLOCK_MONOTONIC,
# clock_gettime(2)). And a seed for jobs that have none: fio's own is a constant, so that each phase would
# read the blocks of the one before it again. Threads: a job that is a process has its own session, so it
# would survive a fio that is killed.
_OWN_OPTIONS = f"""\
[global]
randseed={SEED}
thread=1
disable_slat=1
disable_clat=0
"""
# Counts, or each I/O with its latency in ns.
_RECORDED = {
    "nothing": "",
    "counts": "clat_percentiles=1\n",
    "every I/O": """\
per_job_logs=1
log_alternate_epoch=1
log_alternate_epoch_clock_id=1
write_lat_log={log}
log_avg_msec=0
log_offset=0
""",
}
Recorded = Literal["every I/O", "counts", "nothing"]
# A common start (kit.load.common_start). fio runs it through a shell, and appends `> JOB.prerun.txt`.
_WAIT_OPTION = "exec_prerun=cd {directory} && python3 -I start.py\n"
_THREAD = re.compile(r"^[ \t]*thread[ \t]*(=[^\n;#]*)?([;#][^\n]*)?$", re.MULTILINE)
# Arguments: directory, then the command.
_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'


class FioFiles:
    """The files of a phase in its directory on the client."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.job = f"{directory}/job.fio"
        self.output = f"{directory}/fio.json"
        self.log_prefix = f"{directory}/fio"

    def latency_log_of(self, number: int) -> str:
        """The log of a job. fio appends the kind of log and the job's number (HOWTO, write_lat_log)."""
        return f"{self.log_prefix}_lat.{number}.log"


def job_text(
    job: FioJob, files: FioFiles, values: Mapping[str, str], recorded: Recorded, *, together: bool
) -> bytes:
    """The job of one worker. The kit replaces its variables, because sudo drops the environment.

    `together`: with a common start.
    """
    wait = _WAIT_OPTION.format(directory=files.directory) if together else ""
    text = _OWN_OPTIONS + _RECORDED[recorded].format(log=files.log_prefix) + wait + _THREAD.sub("", job.text)
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return text.encode()


def window_ms(interval_ns: int, duration_ns: int) -> int:
    """From one reading of fio's counts to the next, on the host's clock; a part of an interval if few."""
    interval_ms = max(interval_ns // 10**6, 1)
    for part in _READINGS_PER_INTERVAL:
        readings = duration_ns // 10**6 * part // interval_ms
        if interval_ms >= part * _SHORTEST_READING_MS and readings <= _USUAL_READINGS:
            return interval_ms // part
    return interval_ms


def times_ns(interval_ns: int, duration_ns: int) -> tuple[int, int]:
    """Of a window, and of the load: what the programs beside fio are called with. All on the host's clock."""
    return window_ms(interval_ns, duration_ns) * 10**6, duration_ns


def escaped(path: str) -> str:
    """A path as fio takes it as file name: it splits names at colons."""
    return path.replace(":", r"\:")


def variables(place: str, size_bytes: int, duration_ns: int, clock: Clock, seed: int) -> dict[str, str]:
    """Values of the variables of a job file. Durations are in the host's time, with their unit.

    `place`: the directory of the working set, or a device.
    """
    runtime_us = clock.to_host_ns(duration_ns) // 1000
    return {
        "HSP_DIRECTORY": place,
        "HSP_DEVICE": escaped(place),
        "HSP_SIZE": str(size_bytes),
        "HSP_RUNTIME": f"{runtime_us}us",
        "HSP_SEED": str(seed),
    }


def command(files: FioFiles) -> list[str]:
    """argv of fio, which logs every I/O."""
    return ["fio", "--output-format=json+", f"--output={files.output}", files.job]


def directory(work_dir: str, number: int, phase: str) -> str:
    """The directory of the fio of worker `number`."""
    return f"{work_dir}/fio{number}-{phase}"


def count_command(directory: str, window_ms: int, *, ordinary: bool) -> list[str]:
    """argv of a fio whose counts are printed every `window_ms` (kit.remote.load.count_ios)."""
    argv = ["sh", "-c", _IN_DIRECTORY, "sh", directory]
    counter = ["python3", "-I", "count_ios.py", str(window_ms), "fio.json", "job.fio"]
    return [*(("env",) if ordinary else ()), *argv, *counter]


def version(host: Host) -> str:
    """The version, such as fio-3.39. Raises HostError."""
    return host.run(["fio", "--version"]).stdout.strip()


def fill_command(directory: str, file: str, size_bytes: int, block_bytes: int) -> Command:
    """Write the working set on the server with data that does not compress."""
    argv = (
        "fio", "--name=fill", f"--directory={directory}", f"--filename={file}", "--rw=write",
        f"--bs={block_bytes}", f"--size={size_bytes}", "--ioengine=psync", "--thread=1", "--refill_buffers=1",
        "--fallocate=none", "--end_fsync=1", "--output-format=json", "--randrepeat=1",
    )  # fmt: skip
    return Command(argv, deadline_s=_FILL_DEADLINE_S)


def read_through_command(path: str, size_bytes: int, *, direct: bool = False, skip: int = 0) -> list[str]:
    """argv to read `size_bytes` of a file in order, from `skip`; `direct`: past a client's page cache."""
    flags = ["count_bytes", *(["direct"] if direct else []), *(["skip_bytes"] if skip else [])]
    begin = [f"skip={skip}"] if skip else []
    words = ["dd", f"if={path}", "of=/dev/null", "bs=128k", f"iflag={','.join(flags)}", f"count={size_bytes}"]
    return [*words, *begin]


def parse_output(text: str) -> list[Json]:
    """The jobs of fio's JSON. Raises MeasurementUnknown for other text and for an error of fio."""
    found = [each for each in fio_json.each_document(text) if each.value is not None]
    document = found[0].value if len(found) == 1 else None
    if document is None or _OWN_LINES.sub("", text[: found[0].begin] + text[found[0].end :]).strip():
        raise MeasurementUnknown(
            f"fio's output is not JSON with jobs alone; it begins with: {text.strip()[:200]!r}"
        )
    jobs = fio_json.jobs(document, "jobs")
    if not jobs:
        raise MeasurementUnknown("fio's JSON has no jobs")
    failed = [str(job.get("jobname")) for job in jobs if job.get("error")]
    if failed:
        raise MeasurementUnknown(f"fio reports an error in job {', '.join(failed)}")
    return jobs


def total_ios(jobs: Sequence[Json]) -> dict[str, int]:
    """Completed I/Os of all jobs, per direction."""
    return {
        direction: sum(int(job.get(direction, {}).get("total_ios", 0)) for job in jobs)
        for direction in ("read", "write")
    }
