"""The workload: pool, load and expectations of a measurement. Frozen values read from a TOML file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field

from kit.config.tables import fault_table, phase_splits, tree_table
from kit.config.tables.age_table import Age
from kit.config.tables.capacity_table import Capacity
from kit.config.tables.expectation import Expectation
from kit.config.tables.fault_table import ExpectedEvent, Fault, Scheduled
from kit.config.tables.impact_table import Impact
from kit.config.tables.known_table import KnownFailure
from kit.config.tables.nfs_options import MountOption, Version, same_as_key, with_keys
from kit.config.tables.phase_table import FioOptions, Name, Op, Phase, RestartKind
from kit.config.tables.power_table import PowerLoss
from kit.config.tables.precondition_table import PreconditionTable
from kit.config.tables.setting_table import SettingName, SettingValue
from kit.config.tables.tree_table import Tree
from kit.config.toml import (
    STORED_IF_ANY,
    STORED_IF_SET,
    KeyProblem,
    Problems,
    Setting,
    Table,
    nearest,
    stored_unless,
    validate,
)
from kit.config.toml_lines import KeyPath
from kit.config.workload_base import WorkloadSource, read_source, tables_of
from kit.config.workload_jobs import with_captures
from kit.core.sample_size import sample_needed
from kit.core.units import AUTO, AutoSizeBytes, DurationNs, SizeBytes

# Name of the load of [warmup], as of a phase: its random numbers are derived from it.
WARM_UP = "warm-up"

# Tables that a workload without a pool cannot have.
OF_POOL = frozenset(("pool", "dataset", "nfs", "tunables", "working_set", "tree", "warmup"))

# About what a force takes: by an SSD without capacitors, or less.
_GROUP_NS = 10**6
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


class Pool(Table):
    """The pool. `data`: layout of the data devices; `properties`: of `zpool create -o`.

    `groups`: the data devices, in the order of the testbed, are so many vdevs of that layout. `log`: log
    devices that take turns, or one mirror of all. Plans that do not ask for these two are stored without
    them, as they were before the keys existed: an interrupted run keeps its digest.

    `cache_size`: part of each cache device that is used, as a partition if the device is larger;
    `special_size`: of each special device. Special and dedup vdevs are as redundant as those of data.
    `age`: it is filled and fragmented before it is measured.
    Here and below AUTO is replaced when the plan is made (kit.sizes.auto_sizes).
    """

    data: Literal["stripe", "mirror", "raidz1", "raidz2", "raidz3"] = "stripe"
    groups: Annotated[int, Field(ge=1), stored_unless(1)] = 1
    log: Annotated[Literal["stripe", "mirror"], stored_unless("stripe")] = "stripe"
    cache_size: CacheSize | None = None
    special_size: Annotated[CacheSize | None, STORED_IF_SET] = None
    age: Annotated[Age | None, STORED_IF_SET] = None
    properties: Properties = Field(default_factory=dict)


class Dataset(Table):
    """The dataset. `properties` are set when it is created, and read back."""

    properties: Properties = Field(default_factory=dict)


class Nfs(Table):
    """NFS on the clients; `options` are those of nfs(5), read back after the mount.

    `engine = "libnfs"`: fio goes through libnfs, without a mount and without O_DSYNC.
    `nconnect`: connections of each client (NFS_MAX_CONNECTIONS of fs/nfs/fs_context.c). Plans without it and
    `proto` are stored as they were before the keys existed.
    """

    version: Version = "3"
    options: tuple[MountOption, ...] = ("hard",)
    engine: Literal["kernel", "libnfs"] = "kernel"
    proto: Annotated[Literal["tcp", "rdma"] | None, STORED_IF_SET] = None
    nconnect: Annotated[int | None, Field(ge=1, le=16), STORED_IF_SET] = None

    @property
    def mount_options(self) -> tuple[str, ...]:
        """`options` with those of the keys beside it."""
        return with_keys(self.options, self.proto, self.nconnect)

    def _problems(self) -> Problems:
        yield from self._keys_problems()
        yield from self._engine_problems()

    def _keys_problems(self) -> Problems:
        for key, value in (("proto", self.proto), ("nconnect", self.nconnect)):
            if value is not None and self.engine == "libnfs":
                yield key, f'engine = "libnfs" has no mount, so it has no {key}: remove {key}'
            if value is not None and (twice := same_as_key(key, self.options)):
                text = f"nfs.options has {twice}, and nfs.{key} = {value} is the same: remove one of the two"
                yield key, text

    def _engine_problems(self) -> Problems:
        if self.engine == "libnfs" and self.version != "3":
            yield (
                "version",
                f'engine = "libnfs" is for version = 3: libnfs 5 cannot open files over NFSv{self.version} '
                "of a Linux server",
            )
        if self.engine == "libnfs" and self.options not in ((), ("hard",)):
            text = 'engine = "libnfs" has no mount, so it has no mount options: remove options'
            yield "options", text


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


class HostSettings(Table):
    """Settings of the server (kit.hosts.file_settings); None: as the server has them.

    `write_cache`: of the devices that the run uses (kit.devices.write_cache). `tune`: a preset of many
    settings, of the server and of each client.
    """

    nfsd_threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    scheduler: Literal["none", "mq-deadline", "kyber", "bfq"] | None = None
    governor: (
        Literal["performance", "powersave", "ondemand", "conservative", "schedutil", "userspace"] | None
    ) = None
    transparent_hugepage: Literal["always", "madvise", "never"] | None = None
    # Plans that do not ask for it are stored without it, as before the key existed.
    write_cache: Annotated[Literal["on", "off"] | None, STORED_IF_SET] = None
    tune: Annotated[Literal["none", "latency"], stored_unless("none")] = "none"

    @property
    def wanted(self) -> dict[str, str]:
        """The value of each that is set."""
        return {name: str(value) for name, value in self.model_dump(exclude_none=True).items()}

    @property
    def files(self) -> dict[str, str]:
        """Those that are files of the server."""
        return {name: value for name, value in self.wanted.items() if name not in ("write_cache", "tune")}


class Workload(Table):
    """Everything about the measurement that does not depend on the machines."""

    format: Literal[1]
    name: Name
    title: str
    reference: str = ""
    # A testbed that is the lab alone, of the kit or beside the file: where the command names none.
    lab: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,200})?$"), STORED_IF_ANY] = ""
    precondition: PreconditionTable | None = None
    pool: Pool = Pool()
    dataset: Dataset = Dataset()
    nfs: Nfs = Nfs()
    tunables: Tunables = Field(default_factory=dict)
    host: HostSettings = HostSettings()
    # Of the testbed's own settings ([[setting]] there), by name.
    setting: Annotated[dict[SettingName, SettingValue], STORED_IF_ANY] = Field(default_factory=dict)
    # fio options of every job, of the warm-up's too, instead of those in the job files.
    job: FioOptions = Field(default_factory=dict)
    working_set: WorkingSet | None = None
    tree: Annotated[Tree | None, STORED_IF_SET] = None
    warmup: Warmup | None = None
    phase: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=50)]
    expect: tuple[Expectation, ...] = ()
    # Shorter than the workload stands (kit.config.overrides).
    length: Annotated[Literal["smoke", "sanity", "full"], stored_unless("full")] = "full"
    known: Annotated[tuple[KnownFailure, ...], Field(max_length=1000), STORED_IF_ANY] = ()
    fault: Annotated[tuple[Fault, ...], Field(max_length=100), STORED_IF_ANY] = ()
    event: Annotated[tuple[ExpectedEvent, ...], Field(max_length=100), STORED_IF_ANY] = ()
    impact: Annotated[tuple[Impact, ...], STORED_IF_ANY] = ()
    power_loss: PowerLoss | None = None
    capacity: Annotated[Capacity | None, STORED_IF_SET] = None

    @property
    def on_devices(self) -> bool:
        """Whether all its phases go to bare devices, so that there is no pool, no export and no client."""
        return all(phase.on_devices for phase in self.phase)

    @property
    def over_nfs(self) -> bool:
        """Whether a phase goes over NFS, so that there are an export and clients."""
        return any(phase.over_nfs for phase in self.phase)

    def with_phases(self, phases: Iterable[Phase]) -> Self:
        """The same with others in the place of its phases."""
        return self.model_copy(update={"phase": tuple(phases)})

    @property
    def restarts(self) -> frozenset[RestartKind]:
        """How its phases have the server restarted."""
        return frozenset(phase.restart for phase in self.phase if phase.restart)

    @property
    def file_set(self) -> WorkingSet:
        """The working set of a workload that has one."""
        assert self.working_set is not None, "phases on devices have none"
        return self.working_set

    def schedule(self, phase: Phase) -> tuple[Scheduled, ...]:
        """What is done at set times of the phase, by time. A table without `phase` is of the only one."""
        tables: tuple[Scheduled, ...] = (*self.fault, *self.event, *fault_table.during(phase))
        mine = [each for each in tables if each.phase in ("", phase.name)]
        return tuple(sorted(mine, key=lambda each: each.at))

    @property
    def scheduled(self) -> list[tuple[str, int, Scheduled]]:
        """Each fault and event with the name of its table and its number."""
        faults = [("fault", *each) for each in enumerate(self.fault)]
        return [*faults, *(("event", *each) for each in enumerate(self.event))]

    def phase_of(self, scheduled: Scheduled) -> Phase:
        """The phase in which it is done."""
        return next(phase for phase in self.phase if scheduled.phase in ("", phase.name))

    def expected_ns(self, phase: Phase) -> int:
        """How long the load of a phase takes: of a search for a rate (`[capacity]`) with all looks, about."""
        if phase.force and phase.force.groups:
            return min(phase.duration, phase.force.groups * _GROUP_NS)
        searched = phase.open is not None and phase.open.rate is None
        return self.capacity.expected_ns(phase.duration) if searched and self.capacity else phase.duration

    def _problems(self) -> Problems:
        yield from self._splits_problems()
        yield from self._capacity_problems()
        yield from self._tree_problems()
        yield from self._targets_problems()
        yield from self._schedule_problems()
        yield from self._phases_problems()

    def _splits_problems(self) -> Problems:
        for number, phase in enumerate(self.phase):
            if phase.split_of and (problem := phase_splits.problem(self.phase, number)):
                yield ("phase", number, problem[0]), problem[1]

    def _capacity_problems(self) -> Problems:
        opened = [phase.open for phase in self.phase if phase.open]
        if self.capacity is None and any(each.rate is None for each in opened):
            yield "phase", 'at which rate? write open.rate, or [capacity] p99_max = "1ms" to look for it'
        own = "open" if opened else "replay" if any(phase.replay for phase in self.phase) else ""
        if own and self.nfs.engine != "kernel":
            yield ("nfs", "engine"), f"{own} goes through a mount, which libnfs has not: remove it"

    def _tree_problems(self) -> Problems:
        before: list[tree_table.Action] = []
        for number, phase in enumerate(self.phase):
            if phase.metadata is None:
                continue
            if self.tree is None:
                yield "tree", "which files do phases with metadata make? such as [tree] files = 1000"
            if text := tree_table.problem(before, phase.metadata):
                yield ("phase", number, "metadata"), f'"{phase.metadata}": {text}'
            before.append(phase.metadata)
        if self.nfs.engine != "kernel" and before:
            yield ("nfs", "engine"), "a tree is made through a mount, which libnfs has not: remove it"

    def _targets_problems(self) -> Problems:
        """Phases on devices come first: the others go to the one working set, in a pool on these devices."""
        for number, phase in enumerate(self.phase):
            if phase.on_devices and not all(each.on_devices for each in self.phase[:number]):
                yield (
                    ("phase", number, "target"),
                    "the devices are part of the pool by then: put phases on devices before the others",
                )
        if not self.on_devices and self.working_set is None:
            yield (
                "working_set",
                'which file do the phases read and write? such as [working_set] file = "working-set", '
                'size = "auto"',
            )
        if self.on_devices:
            for key in sorted(OF_POOL & self.model_fields_set):
                yield key, "there is no pool in a workload whose phases go to devices: remove it"

    def _schedule_problems(self) -> Problems:
        names = [phase.name for phase in self.phase]
        for table, number, each in self.scheduled:
            if not each.phase and len(names) > 1:
                text = f"in which phase? the workload has {', '.join(names)}: add phase"
                yield (table, number, "phase"), text
            yield from _unknown(each.phase or names[0], names, (table, number, "phase"))
            if problem := fault_table.phase_problem(self.phase_of(each)):
                yield (table, number, "phase" if each.phase else "at"), problem
        for number, phase in enumerate(self.phase):
            if phase.during and (problem := fault_table.phase_problem(phase)):
                yield ("phase", number, "during"), problem

    def _phases_problems(self) -> Problems:
        names = [phase.name for phase in self.phase]
        for number, name in enumerate(names):
            key = ("phase", number, "name")
            if name in names[:number]:
                yield key, f"two phases are called '{name}': give each its own name"
            if name == WARM_UP and self.warmup:
                text = "is the name of the load of [warmup], which then drew the same random numbers"
                yield key, f"'{name}' {text}: choose another"
        for number, expectation in enumerate(self.expect):
            yield from _unknown(expectation.phase, names, ("expect", number, "phase"))
        for number, impact in enumerate(self.impact):
            for part, sides in zip(("alone", "beside"), impact.sides, strict=True):
                for name in sides:
                    yield from _unknown(name, names, ("impact", number, part))


def _unknown(phase: str, names: list[str], key: KeyPath) -> Problems:
    if phase not in names:
        yield key, f"no phase is called '{phase}', {nearest(phase, names, 'phases')}"


def read_workload(path: Path) -> Workload:
    """Read a workload file and those that it is based on. Raises ConfigError with file, line and key."""
    return workload_of(read_source(path))


def workload_of(source: WorkloadSource) -> Workload:
    """The workload of its files. Raises ConfigError with file, line and key.

    Of one that has a base and no expectations, each tier of a phase must answer as many I/Os as a p99 needs.
    """
    for number, fault in enumerate(tables_of(source.document.get("fault"))):
        if key := next((key for key in ("run", "undo") if key in fault), ""):
            text = "a workload names no program: write [[command]] (name, run, undo) into the testbed, and "
            source.refuse(("fault", number, key), f'{text}command = "NAME" here')
    workload = validate(with_captures(source).document, Workload, source.place_of, source.as_written)
    _refuse_unused(workload, source)
    if len(source.files) == 1 or "expect" in source.document:
        return workload
    return workload.model_copy(update={"expect": tuple(samples(workload.phase, source))})


def _refuse_unused(workload: Workload, source: WorkloadSource) -> None:
    """A table of loads that no phase has; that of a base stays without use. Raises ConfigError."""
    searched = any(each.open and each.open.rate is None for each in workload.phase)
    for table, is_used, phase in (
        ("capacity", searched, 'open = { op = "read", block = "4KiB" }, without rate'),
        ("tree", any(each.metadata for each in workload.phase), 'metadata = "create"'),
    ):
        own, *bases = (table in each.document for each in source.files)
        if table in source.document and not is_used and (own or not any(bases)):
            source.refuse((table,), f"of which load? write a [[phase]] with {phase}, or remove it")


def samples(phases: tuple[Phase, ...], source: WorkloadSource) -> Iterator[Expectation]:
    """That each tier of a phase answers as many I/Os as a p99 needs, or as the length asks for at most."""
    ios = min(sample_needed(0.99), source.min_count or sample_needed(0.99))
    for phase in phases:
        # Tiers of single I/Os are known over NFS alone.
        for tier in phase.tiers if phase.over_nfs and not phase.split_of else ():
            op: Op = "write" if tier in ("slog", "pool") else "read"
            yield Expectation(phase=phase.name, op=op, tier=tier, min_count=ios, inside=False)
