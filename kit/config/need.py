"""need.toml: what a buyer needs of a log device and of an L2ARC (docs/sheet.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kit.config.testbed_devices import Price
from kit.config.toml import Problems, Table, load
from kit.core.units import DurationNs, SizeBytes
from kit.store.sheet import Need

_Latency = Annotated[DurationNs, Field(gt=0)]
_Size = Annotated[SizeBytes, Field(gt=0)]
# Of what the sheet can judge.
_JUDGED = (
    "sync_write_p99", "read_p99", "reads_answered_min", "disk_reads_answered_min", "years",
    "survives_power_loss", "budget", "log_size", "cache_size",
)  # fmt: skip


class NeedFile(Table):
    """The whole file. Latencies are those at the NFS server; sizes and prices are as on data sheets."""

    format: Literal[1] = 1
    title: Annotated[str, Field(max_length=200)] = ""
    # The candidate that is in the server now.
    today: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    sync_write_p99: _Latency | None = None
    # Of reads that the L2ARC answers.
    read_p99: _Latency | None = None
    # Part of all reads that the L2ARC answers, of 1.
    reads_answered_min: Annotated[float, Field(gt=0, le=1)] | None = None
    # Part of the reads that disks answer now, by `hsp size`.
    disk_reads_answered_min: Annotated[float, Field(gt=0, le=1)] | None = None
    # By all clients.
    written_per_day: _Size | None = None
    years: Annotated[float, Field(gt=0, le=100)] | None = None
    survives_power_loss: bool = False
    # So many without a loss are asked for: 60 bound the share that loses data at 4.9 %.
    power_losses_min: Annotated[int, Field(ge=1, le=10_000)] = 60
    # For all devices of a candidate.
    budget: Price | None = None
    log_size: _Size | None = None
    cache_size: _Size | None = None
    same_within: Annotated[float, Field(gt=0, lt=1)] = 0.05
    drives: Annotated[int, Field(ge=2, le=1000)] = 4

    def _problems(self) -> Problems:
        if not any(getattr(self, key) for key in _JUDGED):
            yield (), f"nothing is needed, so nothing can be judged: set one of {', '.join(_JUDGED)}"
        if self.written_per_day is not None and self.years is None:
            yield "written_per_day", "for how long? add years"

    @property
    def need(self) -> Need:
        """For the sheet."""
        return Need(
            sync_write_p99_us=_us(self.sync_write_p99),
            read_p99_us=_us(self.read_p99),
            written_per_day_bytes=self.written_per_day,
            log_size_bytes=self.log_size,
            cache_size_bytes=self.cache_size,
            **self.model_dump(include=set(Need.model_fields)),
        )


def read_need(path: Path) -> Need:
    """The need in a file. Raises ConfigError with file, line and key."""
    return load(path, NeedFile).need


def _us(duration_ns: int | None) -> float | None:
    return None if duration_ns is None else duration_ns / 1e3
