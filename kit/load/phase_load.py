"""The load of a phase: fio on the clients, and its results.

One client runs fio itself; several use fio's client/server mode (kit.load.fio_server).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from kit.config.fio_job import FioJob
from kit.core.clock import Clock
from kit.core.errors import KitError, MeasurementUnknown
from kit.core.seed import seed_for
from kit.hosts.base import LARGE_LIMIT_BYTES, Host, HostLost, Process
from kit.hosts.held_device import HeldDevice, command_on, place_on
from kit.load import fio, fio_json, ordinary_user
from kit.load.fio_json import Json
from kit.load.fio_latency_log import ClientLatencies, parse_latency_log
from kit.load.fio_windows import ClientWindows
from kit.store.parts.forces import Forces
from kit.store.run_directory import RunDir

_STOP_DEADLINE_S = 60.0


@dataclass(frozen=True)
class Worker:
    """One fio of a load: on `host`, in `place`, a directory or a block device. `name`: in results.

    `size_bytes`: of the working set, or of the device. `by_client`: through what a client has mounted, not on
    the server itself. `device`: which one `place` must lead to; fio gets it as a descriptor.
    """

    host: Host
    name: str
    place: str
    size_bytes: int
    by_client: bool = True
    device: HeldDevice | None = None


@dataclass(frozen=True)
class LoadSpec:
    """The load of every worker: `job` for `duration_ns` of the experiment. `name`: the phase."""

    name: str
    job: FioJob
    work_dir: str
    duration_ns: int
    clock: Clock
    seed: int = 0
    # fio as an ordinary user (kit.load.ordinary_user), as everywhere but where only root can have the file.
    ordinary: bool = False
    # False with libnfs, which opens no file of the client, and for a device.
    mounted: bool = False
    # Counts for intervals of this length of the experiment, into files of `raw`; None: a log of every I/O.
    histograms_ns: int | None = None
    raw: Path | None = None
    # Whether anybody reads its I/Os.
    logged: bool = True
    # Of a phase that is continued: its part, from 1.
    part: int = 1

    def by(self, argv: list[str]) -> list[str]:
        """`argv`, run by the user of fio."""
        return ordinary_user.ordinary(argv) if self.ordinary else argv

    def check_files(self, worker: Worker) -> None:
        """Right before each start: nothing has been put in the place of the working set. Raises HostError."""
        for file in sorted(
            {section.options["filename"] for section in self.job.sections} if self.mounted else ()
        ):
            ordinary_user.check_working_set(worker.host, worker.place, file, as_root=not self.ordinary)

    def values(self, worker: Worker, number: int = 0) -> dict[str, str]:
        """Values of the job's variables for worker `number`; each draws its own random numbers."""
        seed = seed_for(self.seed, f"client {number}") if number else self.seed
        place = place_on(worker.device, worker.place)
        return fio.variables(place, worker.size_bytes, self.duration_ns, self.clock, seed)

    @property
    def window_ms(self) -> int | None:
        """From one reading of fio's counts to the next, on the host's clock; None for a log of every I/O."""
        if self.histograms_ns is None:
            return None
        to_host_ns = self.clock.to_host_ns
        return fio.window_ms(to_host_ns(self.histograms_ns), to_host_ns(self.duration_ns))


@dataclass(frozen=True)
class ClientResult:
    """One worker's I/Os: fio's counts by op, and all I/Os or their counts, on the clock of its host.

    `forces`: of forced writes.
    """

    worker: Worker
    ios: dict[str, int]
    latencies: ClientLatencies | ClientWindows
    forces: Forces | None = None


class Load(Protocol):
    """A load on all clients. `problems`: texts that name the client.

    `failed`: the load did not run, so the next phase would fail as well.
    """

    problems: list[str]
    failed: bool

    def prepare(self) -> None:
        """Prepare the load before the instruments begin. Raises KitError."""

    def start(self) -> None:
        """Start fio on all clients."""

    def running(self) -> bool:
        """Whether fio still runs on a client."""

    def finish(self, interrupted: bool) -> None:
        """Stop fio and read its exit status. `interrupted`: ignore a non-zero exit status."""

    def collect(self, run_dir: RunDir) -> list[ClientResult]:
        """Fetch and read the files; of a failed client, those that exist."""


class SingleLoad:
    """The only worker."""

    def __init__(self, worker: Worker, spec: LoadSpec) -> None:
        self.problems: list[str] = []
        self.failed = False
        self._worker, self._host, self._spec = worker, worker.host, spec
        self._files = fio.FioFiles(f"{spec.work_dir}/{worker.name.replace('/', '-')}-{spec.name}")
        self._process: Process | None = None

    def prepare(self) -> None:
        text = fio.job_text(
            self._spec.job, self._files, self._spec.values(self._worker), logged=self._spec.logged
        )
        if self._spec.ordinary:
            ordinary_user.make_directory(self._host, self._files.directory, self._spec.work_dir)
            ordinary_user.write(self._host, self._files.job, text)
        else:
            self._host.run(["mkdir", "-p", self._files.directory])
            self._host.put(text, self._files.job)

    def start(self) -> None:
        self._spec.check_files(self._worker)
        self._process = self._host.start(
            command_on(self._worker.device, self._spec.by(fio.command(self._files)))
        )

    def running(self) -> bool:
        return self._process is not None and self._process.running()

    def finish(self, interrupted: bool) -> None:
        if self._process is None:
            return
        try:
            if self._process.running():
                # fio ends its jobs on SIGINT and still writes its output.
                self._process.stop(_STOP_DEADLINE_S)
            ended = self._process.wait(_STOP_DEADLINE_S)
        except HostLost:
            raise
        except KitError as error:
            self.failed = True
            self.problems.append(f"fio failed on {self._worker.name}: {error.message}")
            return
        if ended.returncode != 0 and not interrupted:
            self.failed = True
            self.problems.append(f"fio failed {ended.describe()}")

    def collect(self, run_dir: RunDir) -> list[ClientResult]:
        prefix = raw_prefix(self._spec, self._worker.name)
        try:
            logs = [self._files.latency_log_of(number) for number in job_numbers(self._spec.job)]
            if self._spec.ordinary:
                ordinary_user.take_over(self._host, self._files.directory, [self._files.output, *logs])
            output = self._host.get(self._files.output, limit_bytes=fio_json.LIMIT_BYTES)
            run_dir.raw.joinpath(f"{prefix}-fio.json").write_bytes(output)
            jobs = fio.parse_output(output.decode(errors="replace"))["jobs"]
            return [read_logs(self._spec, self._worker, logs, jobs, run_dir)]
        except HostLost:
            raise
        except KitError as error:
            self.problems.append(f"fio on {self._worker.name}: {error.message}")
            return []


def job_numbers(job: FioJob) -> range:
    """Numbers of fio's jobs: fio counts each copy (numjobs) and writes a log for each."""
    return range(1, 1 + sum(int(section.options.get("numjobs", "1")) for section in job.sections))


def read_logs(
    spec: LoadSpec,
    worker: Worker,
    paths: Sequence[str],
    jobs: Sequence[Json],
    run_dir: RunDir,
    leader: Host | None = None,
) -> ClientResult:
    """Fetch the logs of `worker`, or of its fio server from the `leader`, keep them in raw/, and read them.

    `paths` in the order of the jobs. Raises HostError if the logs are too large together,
    MeasurementUnknown if their I/Os are not as many as fio counted in `jobs`.
    """
    prefix = f"{run_dir.raw / raw_prefix(spec, worker.name)}-fio"
    ios, holder = fio.total_ios({"jobs": jobs}), leader or worker.host
    log = b"".join(_fetch(holder, paths))
    Path(f"{prefix}_lat.log").write_bytes(log)
    return ClientResult(worker, ios, read_log(worker.name, log, ios))


def _fetch(host: Host, paths: Iterable[str]) -> Iterator[bytes]:
    """fio's logs, one after the other. Raises HostError if they are too large together."""
    left_bytes = LARGE_LIMIT_BYTES
    for path in paths:
        log = host.get(path, limit_bytes=left_bytes)
        left_bytes -= len(log)
        yield log


def raw_prefix(spec: LoadSpec, worker: str) -> str:
    """Prefix of the files of one worker and phase in the run's raw/; a ":" of its name is "%3A" there."""
    return f"{spec.name}-{quote(worker.replace('/', '-'))}"


def read_log(worker: str, log: bytes, ios: dict[str, int]) -> ClientLatencies:
    """Read fio's log. Raises MeasurementUnknown if its I/Os are not as many as fio counted."""
    latencies = parse_latency_log(log)
    if len(latencies.end_ns) != sum(ios.values()):
        raise MeasurementUnknown(
            f"fio on {worker} reports {sum(ios.values())} I/Os but logged {len(latencies.end_ns)}"
        )
    return latencies
