"""A `[[phase]]` of a workload: one load, where it goes, and what is recorded of it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kit.config import fio_job
from kit.config.force_table import ForceTable
from kit.config.toml import KeyProblem, Setting, Table
from kit.core.units import DurationNs, format_duration_ns

Tier = Literal["dram", "l2arc", "disk", "slog", "pool"]
Op = Literal["read", "write", "commit"]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,40}$")]
# Where the load of a phase goes.
Target = Literal["nfs", "device:data", "device:cache", "device:log"]

# Canonical names and fio's values.
FioOptions = Annotated[dict[str, Setting], AfterValidator(fio_job.check_options)]


class Phase(Table):
    """One phase of load with one fio job, or of forced writes (`force`).

    `remove`: devices removed from the pool before it.

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
    job: str = ""
    force: Annotated[ForceTable | None, Field(exclude_if=lambda force: force is None)] = None
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
        if self.force:
            return f"force ({self.name})"
        return f"{self.job} ({self.name})" if self.options else self.job

    @property
    def on_devices(self) -> bool:
        return self.target != "nfs"

    @property
    def load_text(self) -> str:
        """Its load, for people."""
        return self.force.text if self.force else self.job

    @model_validator(mode="after")
    def _check_load(self) -> Self:
        if not self.force:
            if not self.job:
                raise KeyProblem(
                    "job",
                    'which load? name a fio job beside the workload, or write force = { record = "600B" }',
                )
            return self
        if self.job or self.options:
            key = "job" if self.job else "options"
            raise KeyProblem(
                key, f"{key} is for a phase with a fio job, and this one has force: remove one of the two"
            )
        if self.log == "every-io":
            raise KeyProblem("log", '"every-io" is a log of fio; a phase with force counts: remove log')
        return self

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
