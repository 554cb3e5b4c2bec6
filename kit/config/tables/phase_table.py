"""A `[[phase]]` of a workload: one load, where it goes, and what is recorded of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kit.config import fio_job
from kit.config.tables.capacity_table import OpenTable, ReplayTable
from kit.config.tables.force_table import ForceTable
from kit.config.tables.soak_table import Soak
from kit.config.tables.tree_table import Action
from kit.config.toml import STORED_IF_ANY, STORED_IF_SET, Problems, Setting, Table, stored_unless
from kit.core.text import counted
from kit.core.units import DurationNs, SizeBytes, format_duration_ns

Tier = Literal["dram", "l2arc", "special", "disk", "slog", "pool"]
Op = Literal["read", "write", "commit"]
# What a server does beside its load, made on purpose (kit.config.tables.fault_table).
Expected = Literal["scrub", "resilver", "snapshots", "send", "trim", "export-import"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")]
# How the server is restarted: with its pool exported, by its own command, or without its power.
RestartKind = Literal["reboot", "power-cut"]
# Where the load of a phase goes.
Target = Literal["nfs", "dataset", "device:data", "device:cache", "device:log", "device:special", "array"]
Level = Literal["raid0", "raid1", "raid5", "raid10"]
LEAST_MEMBERS: Mapping[Level, int] = {"raid0": 1, "raid1": 2, "raid5": 3, "raid10": 2}
# The longest of a phase that asks for I/Os and does not say. The longest, too, with a log of every I/O.
_LONGEST_NS = 15 * 60 * 10**9
# Of a row of a soak: its percentiles are judged by how much they vary within it.
_LEAST_INTERVALS = 12
# Of a look at one rate: how its share of slow I/Os varies is judged by them (kit.capacity.open_load).
_LEAST_BATCHES = 20
# kit.store.latency.MAX_COLUMNS, and reports.statistics.blocks.FEWEST.
_MOST_COLUMNS, _LEAST_COLUMNS = 4000, 6
# Of blocks, sampled. A pool of 1 TiB in records of 128 KiB has 8 million.
MOST_ONE_IN = 1 << 20
# Keys of loads that read and write.
_NOT_WITH_METADATA = (
    "job", "force", "open", "replay", "options", "tiers", "ios", "resumable", "soak", "split_of", "keys",
    "during",
)  # fmt: skip
# What an array is called among devices: in results, and in counters.
ARRAY = "array"

# Canonical names and fio's values.
FioOptions = Annotated[dict[str, Setting], AfterValidator(fio_job.check_options)]


def _check_chunk(size_bytes: int) -> int:
    if size_bytes & (size_bytes - 1) or not 4096 <= size_bytes <= 64 << 20:
        raise ValueError("must be a power of two from 4KiB to 64MiB")
    return size_bytes


class ArrayLayout(Table):
    """An md array of data devices. `chunk`: what lies on one before the next takes over; mdadm's default.

    `members`: the first so many of the phase's devices; None: all.
    """

    level: Level
    chunk: Annotated[SizeBytes, AfterValidator(_check_chunk)] = 512 << 10
    members: Annotated[int | None, Field(ge=1, le=32), STORED_IF_SET] = None

    def _problems(self) -> Problems:
        if self.level == "raid1" and "chunk" in self.model_fields_set:
            yield "chunk", "raid1 has no chunks, each member has everything: remove it"
        least = LEAST_MEMBERS[self.level]
        if self.members is not None and self.members < least:
            yield "members", f"{self.members}: {self.level} needs at least {counted(least, 'device')}"


class Phase(Table):
    """One phase of load: a fio job, forced writes (`force`), an open loop (`open`), or `metadata` of a tree.

    `replay`: or the requests of a capture.

    `remove`: devices removed from the pool before it.

    `target`: the working set over NFS, or in its dataset on the server, or the bare devices of a role, before
    there is a pool: `devices` of them, all by default, `each` in turn (then the plan makes a phase of each)
    or together; or an `array` that the run makes of data devices right before the phase, and stops after it.
    `tiers`: that may answer, where there is a pool. A plan is stored without keys that have their default, as
    before there were devices.
    `options`: fio options that the job has in this phase instead of its own and of those of `[job]`.
    `log`: what clients record of their I/Os, each with its time and total latency, or counts by window and
    bin of completion latency; "auto" leaves it to the plan. `ios`: how many each tier in `tiers` has to
    answer, or each operation where the tiers are not known. Were it fewer in `duration`, the phase is
    measured again, for as long as they take at that rate, `duration_max` at most (kit.run.attempts). A phase
    that is continued, or with something that is done at set times, lasts its duration all the same.

    `in_order`: of a phase on devices, its latencies are stored one by one in their order, the first 4,096.
    `resumable`: `hsp run --resume` goes on in the middle of it. `during`: what the server does beside the
    load. `cold`: ARC and L2ARC are empty when it begins: how they get warm is what is measured. `restart`:
    the server is restarted before it. `soak`: rows, drift and limits of a load of hours. `split_of`: the
    phase that this one repeats, to say where the time of its requests goes (kit/trace/split.bt). `keys`: of
    one in so many blocks, all requests are stored
    (keys.parquet).
    """

    name: Name
    title: str
    target: Annotated[Target, stored_unless("nfs")] = "nfs"
    devices: Annotated[tuple[str, ...], STORED_IF_ANY] = ()
    each: Annotated[Literal["in turn", "together"], stored_unless("in turn")] = "in turn"
    array: Annotated[ArrayLayout | None, STORED_IF_SET] = None
    job: str = ""
    force: Annotated[ForceTable | None, STORED_IF_SET] = None
    metadata: Annotated[Action | None, STORED_IF_SET] = None
    open: Annotated[OpenTable | None, STORED_IF_SET] = None
    replay: Annotated[ReplayTable | None, STORED_IF_SET] = None
    options: FioOptions = Field(default_factory=dict)
    tiers: tuple[Tier, ...] = ()
    duration: DurationNs
    ios: Annotated[int | None, Field(ge=1, le=10**8), STORED_IF_SET] = None
    duration_max: Annotated[DurationNs | None, STORED_IF_SET] = None
    interval: DurationNs = 1_000_000_000
    log: Literal["auto", "every-io", "histograms"] = "auto"
    in_order: Annotated[bool, STORED_IF_ANY] = False
    resumable: bool = False
    during: Annotated[tuple[Expected, ...], STORED_IF_ANY] = ()
    soak: Annotated[Soak | None, STORED_IF_SET] = None
    remove: Literal["log", "cache"] | None = None
    cold: Annotated[bool, STORED_IF_ANY] = False
    restart: Annotated[RestartKind | None, STORED_IF_SET] = None
    split_of: Annotated[str, STORED_IF_ANY] = ""
    keys: Annotated[int | None, Field(ge=1, le=MOST_ONE_IN), STORED_IF_SET] = None

    @property
    def load(self) -> str:
        """Name of its load in a plan: the job file's; of the phase too where it has options of its own."""
        for kind in ("force", "open", "replay", "metadata"):
            if getattr(self, kind):
                return f"{kind} ({self.name})"
        return f"{self.job} ({self.name})" if self.options else self.job

    @property
    def longest(self) -> int:
        """The longest that it may be measured at once, in ns."""
        return max(self.duration, self.duration_max or _LONGEST_NS) if self.ios else self.duration

    @property
    def on_devices(self) -> bool:
        """Whether the load goes to bare devices, or to an array of them."""
        return self.target not in ("nfs", "dataset")

    @property
    def over_nfs(self) -> bool:
        return self.target == "nfs"

    @property
    def role(self) -> str:
        """Of its devices; an array is of data devices."""
        return self.target.partition(":")[2] or "data"

    @property
    def load_text(self) -> str:
        """Its load, for people."""
        table = self.force or self.open or self.replay
        return table.text if table else self.metadata or self.job

    def _problems(self) -> Problems:
        yield from self._array_problems()
        yield from self._metadata_problems()
        yield from self._load_problems()
        yield from self._devices_problems()
        yield from self._target_problems()
        yield from self._cold_problems()
        yield from self._keys_problems()
        yield from self._soak_problems()
        yield from self._ios_problems()
        yield from self._interval_problems()

    def _array_problems(self) -> Problems:
        if self.target != "array":
            if self.array:
                yield "array", 'array is for a phase with target = "array": add that, or remove it'
            return
        if not self.array:
            yield "array", 'which array? such as array = { level = "raid0", chunk = "512KiB" }'
        if "each" in self.model_fields_set:
            yield "each", "an array is one device, which all members are in: remove it"

    def _metadata_problems(self) -> Problems:
        if self.metadata is None:
            return
        if not self.over_nfs:
            yield "target", f'files are made over NFS, and target = "{self.target}": remove one'
        for key in _NOT_WITH_METADATA:
            if getattr(self, key):
                yield key, f"{key} is for loads that read and write, and this one has metadata: remove it"
        if self.log == "every-io":
            yield "log", '"every-io" is a log of fio; a phase with metadata counts: remove log'

    def _load_problems(self) -> Problems:
        if self.metadata:
            return
        if self.open or self.replay:
            yield from self._open_problems("open" if self.open else "replay")
            return
        if not self.force:
            if not self.job:
                yield (
                    "job",
                    'which load? name a fio job beside the workload, or write force = { record = "600B" }',
                )
            return
        if self.job or self.options:
            key = "job" if self.job else "options"
            yield key, f"{key} is for a phase with a fio job, and this one has force: remove one of the two"
        if self.log == "every-io":
            yield "log", '"every-io" is a log of fio; a phase with force counts: remove log'
        if self.resumable:
            text = "a phase with force cannot be continued: its records are read back at its end"
            yield "resumable", f"{text}: remove resumable, or write several shorter phases"
        if self.force.groups and self.ios:
            yield "ios", "force.groups says how many I/Os there are: remove one of the two"

    def _open_problems(self, own: str) -> Problems:
        """`own`: open or replay."""
        others = ("job", "force", "options", "ios", "resumable", "soak", "split_of", "in_order")
        for key in (*others, "cold" if self.open else "restart", *({"open", "replay"} - {own})):
            if getattr(self, key):
                yield key, f"{key} does not go with {own}, whose I/Os start at set times: remove it"
        if self.log == "every-io":
            yield "log", f'"every-io" is a log of fio; a phase with {own} counts: remove log'
        if self.replay:
            if not self.over_nfs:
                text = f'a capture is of requests over NFS, and target = "{self.target}": remove one'
                yield "target", text
            return
        if self.duration < _LEAST_BATCHES * self.interval:
            text = f"a look needs {_LEAST_BATCHES} intervals ({format_duration_ns(self.interval)} each)"
            yield "interval", f"{text}: make them shorter, or the duration longer"
        if self.each == "together":
            yield "each", 'open has a rate of one place: write each = "in turn"'

    def _devices_problems(self) -> Problems:
        for name in self.devices:
            if self.devices.count(name) > 1:
                yield "devices", f"'{name}' is named twice: name each device once"

    def _target_problems(self) -> Problems:
        if not self.on_devices:
            if self.over_nfs and not (self.tiers or self.metadata or self.replay):
                yield "tiers", 'which tiers may answer? such as tiers = ["l2arc", "disk"]'
            for key in sorted({"devices", "each", "in_order"} & self.model_fields_set):
                yield key, f'{key} is for a phase with a target of devices, such as "device:data"'
            return
        for key in ("tiers", "remove"):
            if getattr(self, key):
                yield key, f'there is no pool in a phase with target = "{self.target}": remove it'

    def _cold_problems(self) -> Problems:
        own, whose = ("restart", "restarted") if self.restart else ("cold", "cold")
        if not (self.cold or self.restart):
            return
        if not self.over_nfs:
            yield own, f'how caches get warm is seen over NFS, and target = "{self.target}"'
        if self.remove == "cache":
            yield "remove", f"without cache devices no L2ARC gets warm: remove this key, or {own}"
        for key, why in (("ios", "measured again"), ("resumable", "continued"), ("split_of", "a repetition")):
            if getattr(self, key):
                yield key, f"a {whose} phase cannot be {why}, it begins once: remove {key}, or {own}"
        if self.restart:
            for key in ("cold", "metadata"):
                if getattr(self, key):
                    yield key, f"what is left after a restart is read: remove {key}, or restart"

    def _keys_problems(self) -> Problems:
        if self.keys and not self.over_nfs:
            text = f'the blocks of requests over NFS are sampled, and this load goes to "{self.target}"'
            yield "keys", f"{text}: remove keys, or target"
        if self.keys and self.resumable:
            yield "keys", "the sample of a part is lost with its run: remove keys, or resumable"

    def _soak_problems(self) -> Problems:
        if self.soak is None:
            return
        if self.log == "every-io":
            yield "log", '"every-io" is a line an I/O, for hours: remove it, or soak'
        if self.duration < 2 * self.soak.row:
            text = f"the first row and the last ({format_duration_ns(self.soak.row)} each) are compared"
            yield "duration", f"{text}: at least two are needed; make it longer, or soak.row shorter"
        if self.soak.row < _LEAST_INTERVALS * self.interval:
            text = f"a row needs {_LEAST_INTERVALS} intervals ({format_duration_ns(self.interval)} each)"
            yield ("soak", "row"), f"{text}: make it longer, or the intervals shorter"
        columns = -(-self.duration // self.interval // _MOST_COLUMNS)
        if self.soak.row < (least := _LEAST_COLUMNS * max(columns, 1) * self.interval):
            text = f"a report keeps the counts of {_MOST_COLUMNS} stretches of a phase, and a row needs"
            yield ("soak", "row"), f"{text} {_LEAST_COLUMNS}: make it {format_duration_ns(least)} or longer"

    def _ios_problems(self) -> Problems:
        if self.ios is None and self.duration_max is not None:
            yield "duration_max", "is for a phase with ios, which may take longer: add ios, or remove it"
        if self.duration_max is not None and self.duration_max < self.duration:
            text = f"less than duration, {format_duration_ns(self.duration)}: make it longer"
            yield "duration_max", f"{format_duration_ns(self.duration_max)} is {text}"

    @property
    def _counted_by(self) -> str:
        """The keys with which its latencies are counted, not stored one by one."""
        keys = {
            "force": self.force is not None,
            "metadata": self.metadata is not None,
            "replay": self.replay is not None,
            'log = "histograms"': self.log == "histograms",
            "resumable": self.resumable,
            'each = "together"': self.each == "together",
        }
        return " and ".join(key for key, is_there in keys.items() if is_there)

    def _interval_problems(self) -> Problems:
        if self.interval < 1_000_000 or self.interval % 1_000_000:
            yield "interval", "interval must be whole milliseconds"
        if not self.interval <= self.duration:
            text = f"duration must be at least one interval ({format_duration_ns(self.interval)})"
            yield "duration", f"{text}, found {format_duration_ns(self.duration)}"
        if self.in_order and (keys := self._counted_by):
            text = f"latencies are counted with {keys}, and counts have no order"
            yield "in_order", f"{text}: remove in_order, or {keys}"
        if self.resumable and self.log == "every-io":
            text = 'a phase with log = "every-io" cannot be continued: that log is lost with fio'
            yield "resumable", f"{text}: remove one of the two"
