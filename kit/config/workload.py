"""The workload: pool, load and expectations of a measurement. Frozen values read from a TOML file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kit.config import fio_job
from kit.config.nfs_options import MountOption, Version
from kit.config.precondition_table import PreconditionTable
from kit.config.toml import KeyProblem, Table, validate
from kit.config.workload_source import read_source
from kit.core.sample_size import sample_needed
from kit.core.units import DurationNs, SizeBytes

Tier = Literal["dram", "l2arc", "disk", "slog", "pool"]
Op = Literal["read", "write", "commit"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")]
Setting = str | int | bool

_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,:/+-]*")


def _check_settings(settings: dict[str, Setting], names: str) -> dict[str, Setting]:
    """Allow only names and values that are safe as one argument of a command."""
    for name, value in settings.items():
        if not re.fullmatch(names, name):
            raise KeyProblem(name, f"'{name}' is not a name that can be set here")
        if not isinstance(value, bool) and not _VALUE.fullmatch(str(value)):
            raise KeyProblem(name, f"{value!r} is not a value that can be set")
    return settings


Properties = Annotated[
    dict[str, Setting], AfterValidator(lambda settings: _check_settings(settings, "[a-z][a-z0-9_@:.-]*"))
]
TUNABLE = "(zfs|spl|l2arc|zil|zio|metaslab|dbuf|arc|spa|dmu|zvol)_[a-z0-9_]+"
Tunables = Annotated[dict[str, Setting], AfterValidator(lambda settings: _check_settings(settings, TUNABLE))]


# Canonical names and fio's values.
FioOptions = Annotated[dict[str, Setting], AfterValidator(fio_job.check_options)]


class Pool(Table):
    """The pool. `data`: layout of the data devices; `properties`: of `zpool create -o`.

    `cache_size`: part of each cache device that is used, as a partition if the device is larger.
    """

    data: Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3"] = "stripe"
    cache_size: Annotated[SizeBytes, Field(ge=64 << 20, multiple_of=1 << 20)] | None = None
    properties: Properties = Field(default_factory=dict)


class Dataset(Table):
    """The dataset. `properties` are set when it is created, and read back."""

    properties: Properties


class Nfs(Table):
    """NFS on the clients; `options` are those of nfs(5), read back after the mount.

    `engine = "libnfs"`: fio reads without a mount, through libnfs, which cannot do O_DSYNC.
    """

    version: Version = "3"
    options: tuple[MountOption, ...] = ("hard",)
    engine: Literal["kernel", "libnfs"] = "kernel"

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.engine == "libnfs" and self.version != "3":
            raise ValueError(
                f'engine = "libnfs" is for version = 3: libnfs 5 cannot open files over NFSv{self.version} '
                "of a Linux server"
            )
        if self.engine == "libnfs" and self.options not in ((), ("hard",)):
            raise ValueError('engine = "libnfs" has no mount, so it has no mount options: remove options')
        return self


class WorkingSet(Table):
    """The file that is read and written; filled once with random data, on the server."""

    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$")]
    size: Annotated[SizeBytes, Field(gt=0)]
    fill_block: Annotated[SizeBytes, Field(gt=0)] = 128 << 10


class Warmup(Table):
    """The load before the measurement, and the conditions for a warm L2ARC.

    First the server reads `read_first` bytes of the working set in order: they evict the data of the
    fill from the ARC, so that ARC and L2ARC hold different parts. Then the job runs for `duration`
    (not traced). Then, over `windows` windows of `window`, all must hold: at least `l2arc_min` is in
    the L2ARC, at most `feed_max` was written to it per window, and none of its error and low-memory
    counters changed. The kit retries until `deadline`; without success the verdict is unknown.
    """

    job: str
    duration: DurationNs
    read_first: SizeBytes = 0
    l2arc_min: SizeBytes
    feed_max: SizeBytes
    windows: Annotated[int, Field(ge=1, le=20)] = 3
    window: Annotated[DurationNs, Field(gt=0)] = 1_000_000_000
    deadline: DurationNs = 60_000_000_000


class Phase(Table):
    """One phase of load with one fio job. `remove`: devices removed from the pool before it.

    `options`: fio options that the job has in this phase instead of its own and of those of `[job]`.
    `log`: what clients record of their I/Os, each with its time and total latency, or counts by window and
    bin of completion latency.
    """

    name: Name
    title: str
    job: str
    options: FioOptions = Field(default_factory=dict)
    tiers: Annotated[tuple[Tier, ...], Field(min_length=1)]
    duration: DurationNs
    interval: DurationNs = 1_000_000_000
    log: Literal["every-io", "histograms"] = "every-io"
    remove: Literal["log", "cache"] | None = None

    @property
    def load(self) -> str:
        """Name of its load in a plan: the job file's; of the phase too where it has options of its own."""
        return f"{self.job} ({self.name})" if self.options else self.job

    @model_validator(mode="after")
    def _check_interval(self) -> Self:
        if self.interval < 1_000_000 or self.interval % 1_000_000:
            raise ValueError("interval must be whole milliseconds")
        if not self.interval <= self.duration:
            raise ValueError("duration must be at least one interval")
        return self


class PowerLoss(Table):
    """Power losses after the phases: `moments` of them, each at a random time `within` the first writes.

    Writes are O_DSYNC records of 512 bytes from the first client. Needs emulated devices.
    """

    moments: Annotated[int, Field(ge=1, le=1000)]
    within: Annotated[DurationNs, Field(gt=0)] = 200_000_000
    seed: int = 1


Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class Expectation(Table):
    """An expected result: number of I/Os, range or share inside the published one, limits.

    Percentiles are those at the layer, in microseconds; a share is of the phase's I/Os there, 0 to 1.
    """

    phase: Name
    op: Op
    # "all" is what clients see: they cannot tell tiers apart.
    tier: Tier | Literal["all"]
    layer: Literal["nfs-server", "client"] = "nfs-server"
    min_count: Annotated[int, Field(ge=1)] = 1
    # None: judged if devices are emulated. Real devices are compared with the published range, not judged.
    inside: bool | None = None
    # Where `inside` is judged: at least this part of the I/Os, instead of the whole range.
    inside_share_min: Share | None = None
    p50_us_max: Limit | None = None
    p95_us_max: Limit | None = None
    p99_us_max: Limit | None = None
    p999_us_max: Limit | None = None
    share_min: Share | None = None
    share_max: Share | None = None

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.share_min is not None and self.share_max is not None and self.share_min > self.share_max:
            raise ValueError(f"share_min = {self.share_min:g} is above share_max = {self.share_max:g}")
        if (self.tier == "all") != (self.layer == "client"):
            raise ValueError('tier = "all" goes with layer = "client", and any other tier with "nfs-server"')
        if (self.inside or self.inside_share_min is not None) and self.layer == "client":
            raise ValueError("inside: the published ranges are those at the NFS server, not at the clients")
        if self.inside is False and self.inside_share_min is not None:
            raise ValueError("inside_share_min is judged where inside is, and inside is false")
        return self


class Workload(Table):
    """Everything about the measurement that does not depend on the machines."""

    format: Literal[1]
    name: Name
    title: str
    reference: str
    precondition: PreconditionTable | None = None
    pool: Pool = Pool()
    dataset: Dataset
    nfs: Nfs = Nfs()
    tunables: Tunables = Field(default_factory=dict)
    # fio options of every job, of the warm-up's too, instead of those in the job files.
    job: FioOptions = Field(default_factory=dict)
    working_set: WorkingSet
    warmup: Warmup | None = None
    phase: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=50)]
    expect: tuple[Expectation, ...] = ()
    power_loss: PowerLoss | None = None

    @model_validator(mode="after")
    def _check_phases(self) -> Self:
        names = [phase.name for phase in self.phase]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two phases are called '{name}'")
        for expectation in self.expect:
            if expectation.phase not in names:
                raise ValueError(f"expect names the phase '{expectation.phase}'; there is {', '.join(names)}")
        return self


def read_workload(path: Path) -> Workload:
    """Read a workload file and those that it is based on. Raises ConfigError with file, line and key.

    Of one that has a base and no expectations, each tier of a phase must answer as many I/Os as a p99 needs.
    """
    source = read_source(path)
    workload = validate(source.document, Workload, source.place_of)
    if len(source.files) == 1 or "expect" in source.document:
        return workload
    return workload.model_copy(update={"expect": tuple(_samples(workload.phase))})


def _samples(phases: tuple[Phase, ...]) -> Iterator[Expectation]:
    for phase in phases:
        for tier in phase.tiers:
            op: Op = "write" if tier in ("slog", "pool") else "read"
            ios = sample_needed(0.99)
            yield Expectation(phase=phase.name, op=op, tier=tier, min_count=ios, inside=False)
