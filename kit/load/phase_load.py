"""What a load is asked for, and its results; fio itself: kit.load.launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from kit.config.fio_job import FioJob
from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.core.seed import seed_for
from kit.hosts.base import LARGE_LIMIT_BYTES, Host
from kit.hosts.held_device import HeldDevice, place_on
from kit.load import fio, ordinary_user
from kit.load.fio_json import Json
from kit.load.fio_latency_log import ClientLatencies, parse_latency_log
from kit.load.fio_windows import ClientWindows
from kit.store.load.open_loop import OpenLoop
from kit.store.load.replayed import Replayed
from kit.store.parts.forces import Forces
from kit.store.parts.metadata import Metadata
from kit.store.run_directory import RunDir

ProgramPart = Forces | Metadata | OpenLoop | Replayed


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
    def counted(self) -> bool:
        return self.histograms_ns is not None

    @property
    def recorded(self) -> fio.Recorded:
        return "counts" if self.counted else "every I/O" if self.logged else "nothing"

    @property
    def window_ms(self) -> int:
        """From one reading of fio's counts to the next, on the host's clock."""
        return self.times_ns[0] // 10**6

    @property
    def times_ns(self) -> tuple[int, int]:
        """A window, and the duration, on the host's clock."""
        assert self.histograms_ns is not None
        return fio.times_ns(*map(self.clock.to_host_ns, (self.histograms_ns, self.duration_ns)))


@dataclass(frozen=True)
class ClientResult:
    """One worker's I/Os: fio's counts by op, and all I/Os or their counts, on the clock of its host.

    `part`: what a program of the kit has counted besides.
    """

    worker: Worker
    ios: dict[str, int]
    latencies: ClientLatencies | ClientWindows
    part: ProgramPart | None = None


def job_numbers(job: FioJob) -> range:
    """Numbers of fio's jobs: fio counts each copy (numjobs) and writes a log for each."""
    return range(1, 1 + sum(int(section.options.get("numjobs", "1")) for section in job.sections))


def read_logs(
    spec: LoadSpec, worker: Worker, paths: Sequence[str], jobs: Sequence[Json], run_dir: RunDir
) -> ClientResult:
    """Fetch the logs of `worker`, keep them in raw/, and read them.

    `paths` in the order of the jobs. Raises HostError if the logs are too large together,
    MeasurementUnknown if their I/Os are not as many as fio counted in `jobs`.
    """
    prefix = f"{run_dir.raw / raw_prefix(spec, worker.name)}-fio"
    ios = fio.total_ios(jobs)
    log = b"".join(_fetch(worker.host, paths))
    Path(f"{prefix}_lat.log").write_bytes(log)
    latencies = parse_latency_log(log)
    if latencies.ios != sum(ios.values()):
        raise MeasurementUnknown(
            f"fio on {worker.name} reports {sum(ios.values())} I/Os but logged {latencies.ios}"
        )
    return ClientResult(worker, ios, latencies)


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


def output_of(spec: LoadSpec, worker: str) -> Path:
    """The file in raw/ that gets the counts of a worker."""
    assert spec.raw is not None
    return spec.raw / f"{raw_prefix(spec, worker)}-counts.{spec.part}.jsonl"
