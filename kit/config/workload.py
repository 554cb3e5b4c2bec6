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
from kit.config.toml import KeyProblem, Table, nearest, validate
from kit.config.workload_source import WorkloadSource, read_source
from kit.core.sample_size import sample_needed
from kit.core.units import AUTO, AutoSizeBytes, DurationNs, SizeBytes, format_duration_ns

Tier = Literal["dram", "l2arc", "disk", "slog", "pool"]
Op = Literal["read", "write", "commit"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")]
# Where the load of a phase goes.
Target = Literal["nfs", "device:data", "device:cache", "device:log"]
Setting = str | int | bool
# Name of the load of [warmup], as of a phase: its random numbers are derived from it.
WARM_UP = "warm-up"

_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,:/+-]*")


def _check_settings(settings: dict[str, Setting], names: str) -> dict[str, Setting]:
    """Allow only names and values that are safe as one argument of a command."""
    for name, value in settings.items():
        if not re.fullmatch(names, name):
            raise KeyProblem(name, f"'{name}' is not a name that can be set here: they have small letters")
        if not isinstance(value, bool) and not _VALUE.fullmatch(str(value)):
            text = "is not a value that can be set: letters, digits and _.,:/+- only, a letter or digit first"
            raise KeyProblem(name, f"{value!r} {text}")
    return settings


Properties = Annotated[
    dict[str, Setting], AfterValidator(lambda settings: _check_settings(settings, "[a-z][a-z0-9_@:.-]*"))
]
TUNABLE = (
    "(zfs|spl|l2arc|zil|zio|metaslab|dbuf|arc|spa|dmu|zvol|zfetch|vdev|zap|brt|ddt|raidz|zstd|icp|send|ignore"
    "|reference)_[a-z0-9_]+"
)
Tunables = Annotated[
    dict[str, Setting], AfterValidator(lambda settings: _check_settings(settings, "[a-z][a-z0-9_]*"))
]


def _check_cache_size(size_bytes: int) -> int:
    if size_bytes != AUTO and (size_bytes < LEAST_CACHE_BYTES or size_bytes % (1 << 20)):
        raise ValueError("must be whole MiB, at least 64MiB (the smallest device that ZFS accepts)")
    return size_bytes


def _check_not_empty(size_bytes: int) -> int:
    if not size_bytes:
        raise ValueError("must be greater than 0")
    return size_bytes


LEAST_CACHE_BYTES = 64 << 20
CacheSize = Annotated[AutoSizeBytes, AfterValidator(_check_cache_size)]

# Canonical names and fio's values.
FioOptions = Annotated[dict[str, Setting], AfterValidator(fio_job.check_options)]


class Pool(Table):
    """The pool. `data`: layout of the data devices; `properties`: of `zpool create -o`.

    `groups`: the data devices, in the order of the testbed, are so many vdevs of that layout. `log`: log
    devices that take turns, or one mirror of all. Plans that do not ask for these two are stored without
    them, as they were before the keys existed: an interrupted run keeps its digest.

    `cache_size`: part of each cache device that is used, as a partition if the device is larger. Here and
    below AUTO is replaced when the plan is made (kit.sizes.auto_sizes).
    """

    data: Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3"] = "stripe"
    groups: Annotated[int, Field(ge=1, exclude_if=lambda groups: groups == 1)] = 1
    log: Annotated[Literal["stripe", "mirror"], Field(exclude_if=lambda log: log == "stripe")] = "stripe"
    cache_size: CacheSize | None = None
    properties: Properties = Field(default_factory=dict)


class Dataset(Table):
    """The dataset. `properties` are set when it is created, and read back."""

    properties: Properties = Field(default_factory=dict)


class Nfs(Table):
    """NFS on the clients; `options` are those of nfs(5), read back after the mount.

    `engine = "libnfs"`: fio goes through libnfs, without a mount and without O_DSYNC.
    """

    version: Version = "3"
    options: tuple[MountOption, ...] = ("hard",)
    engine: Literal["kernel", "libnfs"] = "kernel"

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        if self.engine == "libnfs" and self.version != "3":
            raise KeyProblem(
                "version",
                f'engine = "libnfs" is for version = 3: libnfs 5 cannot open files over NFSv{self.version} '
                "of a Linux server",
            )
        if self.engine == "libnfs" and self.options not in ((), ("hard",)):
            text = 'engine = "libnfs" has no mount, so it has no mount options: remove options'
            raise KeyProblem("options", text)
        return self


class WorkingSet(Table):
    """The file that is read and written; filled once with random data, on the server."""

    file: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,60}$")]
    size: Annotated[AutoSizeBytes, AfterValidator(_check_not_empty)]
    fill_block: Annotated[SizeBytes, Field(gt=0)] = 128 << 10


class Warmup(Table):
    """The load before the measurement, and the conditions for a warm L2ARC.

    First the server reads `read_first` bytes of the working set in order: they evict the data of the
    fill from the ARC, so that ARC and L2ARC hold different parts. Then the job runs for `duration`
    (not traced). Then, over `windows` windows of `window`, all must hold: at least `l2arc_min` is in
    the L2ARC, at most `feed_max` was written to it per window, and none of its error and low-memory
    counters changed. The kit retries until `deadline`; without success the run ends before the load.
    Without a phase that asks for the L2ARC nothing is judged.
    """

    job: str
    duration: DurationNs
    read_first: AutoSizeBytes = 0
    l2arc_min: AutoSizeBytes
    feed_max: SizeBytes
    windows: Annotated[int, Field(ge=1, le=20)] = 3
    window: Annotated[DurationNs, Field(gt=0)] = 1_000_000_000
    deadline: DurationNs = 60_000_000_000


class Phase(Table):
    """One phase of load with one fio job. `remove`: devices removed from the pool before it.

    `target`: the working set over NFS, or the bare devices of a role, before there is a pool: `devices` of
    them, all by default, `each` in turn (then the plan makes a phase of each) or together. `tiers`: that may
    answer, over NFS. A plan is stored without keys that have their default, as before there were devices.
    `options`: fio options that the job has in this phase instead of its own and of those of `[job]`.
    `log`: what clients record of their I/Os, each with its time and total latency, or counts by window and
    bin of completion latency; "auto" leaves it to the plan. `resumable`: `hsp run --resume` goes on in the
    middle of it.
    """

    name: Name
    title: str
    target: Annotated[Target, Field(exclude_if=lambda target: target == "nfs")] = "nfs"
    devices: Annotated[tuple[str, ...], Field(exclude_if=lambda devices: not devices)] = ()
    each: Annotated[Literal["in turn", "together"], Field(exclude_if=lambda each: each == "in turn")] = (
        "in turn"
    )
    job: str
    options: FioOptions = Field(default_factory=dict)
    tiers: tuple[Tier, ...] = ()
    duration: DurationNs
    interval: DurationNs = 1_000_000_000
    log: Literal["auto", "every-io", "histograms"] = "auto"
    resumable: bool = False
    remove: Literal["log", "cache"] | None = None

    @property
    def load(self) -> str:
        """Name of its load in a plan: the job file's; of the phase too where it has options of its own."""
        return f"{self.job} ({self.name})" if self.options else self.job

    @property
    def on_devices(self) -> bool:
        return self.target != "nfs"

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if not self.on_devices:
            if not self.tiers:
                raise KeyProblem("tiers", 'which tiers may answer? such as tiers = ["l2arc", "disk"]')
            for key in {"devices", "each"} & self.model_fields_set:
                raise KeyProblem(key, f'{key} is for a phase with a target of devices, such as "device:data"')
            return self
        for key in ("tiers", "remove"):
            if getattr(self, key):
                raise KeyProblem(key, f'there is no pool in a phase with target = "{self.target}": remove it')
        return self

    @model_validator(mode="after")
    def _check_interval(self) -> Self:
        if self.interval < 1_000_000 or self.interval % 1_000_000:
            raise KeyProblem("interval", "interval must be whole milliseconds")
        if not self.interval <= self.duration:
            text = f"duration must be at least one interval ({format_duration_ns(self.interval)})"
            raise KeyProblem("duration", f"{text}, found {format_duration_ns(self.duration)}")
        if self.resumable and self.log == "every-io":
            text = 'a phase with log = "every-io" cannot be continued: that log is lost with fio'
            raise KeyProblem("resumable", f"{text}: remove one of the two")
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


RATIOS = ("p50_ratio_min", "p50_ratio_max", "p99_ratio_min", "p99_ratio_max")


class RatioTo(Table):
    """The row that a row is compared with, of the same layer; what is left out is the row's own."""

    phase: Name | None = None
    op: Op | None = None
    tier: Tier | Literal["all"] | None = None


class Expectation(Table):
    """An expected result: number of I/Os, range or share inside the published one, limits.

    `layer`: "device" in a phase whose target is devices. Percentiles and the longest I/O are those at the
    layer, in microseconds; a share is of the phase's I/Os there, 0 to 1. A stall is a time in which no I/O of
    the phase ended at the layer, of any op and tier. A ratio is that of this row's percentile to the other
    row's.
    """

    phase: Name
    op: Op
    # "all" is what clients see, and devices: they cannot tell tiers apart.
    tier: Tier | Literal["all"]
    layer: Literal["nfs-server", "client", "device"] = "nfs-server"
    min_count: Annotated[int, Field(ge=1)] = 1
    # Whether the range must be inside the published one, whose conditions the phase must meet.
    inside: bool = False
    # At least this part of the I/Os, instead of the whole range.
    inside_share_min: Share | None = None
    p50_us_max: Limit | None = None
    p95_us_max: Limit | None = None
    p99_us_max: Limit | None = None
    p999_us_max: Limit | None = None
    max_us_max: Limit | None = None
    stall_ms_max: Limit | None = None
    share_min: Share | None = None
    share_max: Share | None = None
    ratio_to: RatioTo | None = None
    p50_ratio_min: Limit | None = None
    p50_ratio_max: Limit | None = None
    p99_ratio_min: Limit | None = None
    p99_ratio_max: Limit | None = None

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.share_min is not None and self.share_max is not None and self.share_min > self.share_max:
            text = f"share_min = {self.share_min:g} is above share_max = {self.share_max:g}"
            raise KeyProblem("share_min", text)
        if (self.tier == "all") == (self.layer == "nfs-server"):
            raise KeyProblem(
                "tier",
                'tier = "all" goes with layer = "client" or "device", and any other tier with "nfs-server"',
            )
        if (self.inside or self.inside_share_min is not None) and self.layer != "nfs-server":
            text = "the published ranges are those at the NFS server: remove it"
            raise KeyProblem("inside" if self.inside else "inside_share_min", text)
        if "inside" in self.model_fields_set and not self.inside and self.inside_share_min is not None:
            text = "inside_share_min is judged where inside is, and inside is false: remove one of them"
            raise KeyProblem("inside_share_min", text)
        return self

    @model_validator(mode="after")
    def _check_ratios(self) -> Self:
        limits = [name for name in RATIOS if getattr(self, name) is not None]
        if limits and self.ratio_to is None:
            raise KeyProblem(limits[0], 'to which row? such as ratio_to = { phase = "...", tier = "..." }')
        if self.ratio_to is not None and not limits:
            raise KeyProblem(
                "ratio_to", f"no limit on the ratio; add {', '.join(RATIOS[:-1])} or {RATIOS[-1]}"
            )
        for figure in ("p50", "p99"):
            low, high = (getattr(self, f"{figure}_ratio_{end}") for end in ("min", "max"))
            if low is not None and high is not None and low > high:
                raise KeyProblem(f"{figure}_ratio_min", f"{low:g} is above {figure}_ratio_max = {high:g}")
        return self


class HostSettings(Table):
    """Settings of the server (kit.hosts.settings); None: as the server has them."""

    nfsd_threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    scheduler: Literal["none", "mq-deadline", "kyber", "bfq"] | None = None
    governor: (
        Literal["performance", "powersave", "ondemand", "conservative", "schedutil", "userspace"] | None
    ) = None
    transparent_hugepage: Literal["always", "madvise", "never"] | None = None

    @property
    def wanted(self) -> dict[str, str]:
        """The value of each that is set."""
        return {name: str(value) for name, value in self.model_dump(exclude_none=True).items()}


class Workload(Table):
    """Everything about the measurement that does not depend on the machines."""

    format: Literal[1]
    name: Name
    title: str
    reference: str = ""
    precondition: PreconditionTable | None = None
    pool: Pool = Pool()
    dataset: Dataset = Dataset()
    nfs: Nfs = Nfs()
    tunables: Tunables = Field(default_factory=dict)
    host: HostSettings = HostSettings()
    # fio options of every job, of the warm-up's too, instead of those in the job files.
    job: FioOptions = Field(default_factory=dict)
    working_set: WorkingSet | None = None
    warmup: Warmup | None = None
    phase: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=50)]
    expect: tuple[Expectation, ...] = ()
    power_loss: PowerLoss | None = None

    @property
    def on_devices(self) -> bool:
        """Whether its phases go to bare devices, so that there is no pool, no export and no client."""
        return self.phase[0].on_devices

    @property
    def file_set(self) -> WorkingSet:
        """The working set of a workload that has one."""
        assert self.working_set is not None, "phases on devices have none"
        return self.working_set

    @model_validator(mode="after")
    def _check_targets(self) -> Self:
        """Phases go to devices, or over NFS to the one working set."""
        for number, phase in enumerate(self.phase):
            if phase.on_devices != self.on_devices:
                raise KeyProblem(
                    ("phase", number, "target"),
                    "phases on devices and phases over NFS in one workload: give each kind its own",
                )
        if not self.on_devices and self.working_set is None:
            raise KeyProblem(
                "working_set",
                'which file do the phases read and write? such as [working_set] file = "working-set", '
                'size = "auto"',
            )
        if self.on_devices:
            unused = {"pool", "dataset", "nfs", "tunables", "working_set", "warmup", "power_loss"}
            for key in sorted(unused & self.model_fields_set):
                raise KeyProblem(key, "there is no pool in a workload whose phases go to devices: remove it")
        return self

    @model_validator(mode="after")
    def _check_phases(self) -> Self:
        names = [phase.name for phase in self.phase]
        for number, name in enumerate(names):
            key = ("phase", number, "name")
            if name in names[:number]:
                raise KeyProblem(key, f"two phases are called '{name}': give each its own name")
            if name == WARM_UP and self.warmup:
                text = "is the name of the load of [warmup], which then drew the same random numbers"
                raise KeyProblem(key, f"'{name}' {text}: choose another")
        for number, expectation in enumerate(self.expect):
            if expectation.phase not in names:
                text = (
                    f"no phase is called '{expectation.phase}', {nearest(expectation.phase, names, 'phases')}"
                )
                raise KeyProblem(("expect", number, "phase"), text)
        return self


def read_workload(path: Path) -> Workload:
    """Read a workload file and those that it is based on. Raises ConfigError with file, line and key."""
    return workload_of(read_source(path))


def workload_of(source: WorkloadSource) -> Workload:
    """The workload of its files. Raises ConfigError with file, line and key.

    Of one that has a base and no expectations, each tier of a phase must answer as many I/Os as a p99 needs.
    """
    workload = validate(source.document, Workload, source.place_of)
    if len(source.files) == 1 or "expect" in source.document:
        return workload
    return workload.model_copy(update={"expect": tuple(samples(workload.phase))})


def samples(phases: tuple[Phase, ...]) -> Iterator[Expectation]:
    """That each tier of a phase answers as many I/Os as a p99 needs."""
    for phase in phases:
        for tier in phase.tiers:
            op: Op = "write" if tier in ("slog", "pool") else "read"
            ios = sample_needed(0.99)
            yield Expectation(phase=phase.name, op=op, tier=tier, min_count=ios, inside=False)
