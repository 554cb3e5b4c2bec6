"""Published latency ranges to set a run beside, and what they were measured on.

Data in references/*.toml; latencies in microseconds.
"""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.core.units import DurationNs, SizeBytes
from kit.store.summary import Reference

_DIRECTORY = Path(__file__).with_name("references")


def _printable(text: str) -> str:
    if safe_text(text) != text:
        raise ValueError(f"control characters cannot be shown: '{safe_text(text)[:60]}'")
    return text


Words = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Number = Annotated[int, Field(ge=0, le=1_000_000)]
PositiveSize = Annotated[SizeBytes, Field(gt=0)]
NfsVersion = Literal["2", "3", "4.0", "4.1", "4.2"]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SetupNotes(_Table):
    """Words to the keys of a Setup: what the publication says that is no number."""

    server: Words | None = None
    disks: Words | None = None
    disk_rpm: Words | None = None
    cache_devices: Words | None = None
    log_devices: Words | None = None
    record_size: Words | None = None
    io_size: Words | None = None
    nfs_version: Words | None = None
    clients: Words | None = None
    threads: Words | None = None
    working_set_min: Words | None = None
    aged: Words | None = None
    duration: Words | None = None


class Setup(_Table):
    """What the published ranges were measured on, and how; None: the publication does not state it.

    Sizes in bytes, `duration` in ns. `threads`: of each client. `aged`: the SSDs were written before.
    """

    server: Words | None = None
    disks: Number | None = None
    disk_rpm: Number | None = None
    cache_devices: Number | None = None
    log_devices: Number | None = None
    record_size: PositiveSize | None = None
    io_size: PositiveSize | None = None
    nfs_version: NfsVersion | None = None
    clients: Number | None = None
    threads: Number | None = None
    working_set_min: PositiveSize | None = None
    aged: bool | None = None
    duration: Annotated[DurationNs, Field(gt=0)] | None = None
    notes: SetupNotes = SetupNotes()


class RangeConditions(_Table):
    """With what a range was measured: it stands beside phases that have the same. None: beside any.

    `io_size` in bytes. `outstanding`: I/Os on their way at a time, of all clients together. `random`: each
    I/O to a random place, or all in order.
    """

    io_size: PositiveSize | None = None
    outstanding: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    nfs_version: NfsVersion | None = None
    random: bool | None = None


class Span(_Table):
    """What `op` takes when `tier` answers it: low and high, in microseconds."""

    op: Literal["read", "write", "commit"]
    tier: Literal["dram", "l2arc", "special", "disk", "slog", "pool", "shared", "indirect", "direct"]
    range_us: tuple[float, float]
    conditions: RangeConditions | None = None

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        low, high = self.range_us
        if not 0 <= low < high < math.inf:
            raise ValueError(f"range_us = [{low:g}, {high:g}] must be two numbers, 0 <= low < high")
        return self


class PublishedForces(_Table):
    """What pg_test_fsync printed: us an operation, in each configuration. `split`: of its table of 16 KiB."""

    method: Words
    record: PositiveSize
    per_force: Annotated[int, Field(ge=1, le=1024)] = 1
    split: bool = False
    us: Annotated[tuple[Annotated[float, Field(gt=0, lt=math.inf)], ...], Field(min_length=1, max_length=16)]


class Document(_Table):
    """A file of ranges, as those in references/ are; for kit.config.toml.load.

    `reads_gain_min`: how many times the reads a second a warm L2ARC gave at least, against disks and ARC.
    """

    title: Annotated[str, Field(min_length=1, max_length=200)]
    source: Annotated[str, Field(max_length=500)]
    ranges: Annotated[tuple[Span, ...], Field(max_length=100)] = ()
    configurations: Annotated[tuple[Words, ...], Field(max_length=16)] = ()
    forces: Annotated[tuple[PublishedForces, ...], Field(max_length=100)] = ()
    reads_gain_min: Annotated[float, Field(gt=1, lt=1e6)] | None = None
    setup: Setup | None = None

    @field_validator("ranges")
    @classmethod
    def _says_each_once(cls, ranges: tuple[Span, ...]) -> tuple[Span, ...]:
        seen: dict[tuple[str, str], int] = {}
        for number, span in enumerate(ranges):
            if (first := seen.setdefault((span.op, span.tier), number)) != number:
                both = f"[{first}] and [{number}] are both"
                raise ValueError(f"{both} for op '{span.op}' and tier '{span.tier}'")
        return ranges

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not (self.ranges or self.forces or self.reads_gain_min):
            raise ValueError("no ranges, no forces and no reads_gain_min")
        if any(len(each.us) != len(self.configurations) for each in self.forces):
            raise ValueError(
                f"each of forces has one time for each of {len(self.configurations)} configurations"
            )
        return self

    def reference(self, name: str) -> Reference:
        """The same as a Reference called `name`."""
        value = self.model_dump(mode="json", include={"title", "source", "ranges"}, exclude_none=True)
        return Reference.from_json({"name": name, **value}, name)


def known(directory: Path = _DIRECTORY) -> list[str]:
    """The names that load() takes."""
    return sorted(path.stem for path in directory.glob("*.toml"))


def load(name: str, directory: Path = _DIRECTORY) -> Reference:
    """The reference called `name`. Raises ConfigError, which lists those that exist."""
    return _document(name, directory).reference(name)


def setup_of(name: str, directory: Path = _DIRECTORY) -> Setup | None:
    """What the ranges of the reference called `name` were measured on; None if it does not say.

    summary.json has the ranges alone. Raises ConfigError as load() does.
    """
    return _document(name, directory).setup


def gain_of(name: str) -> str:
    """What was published of a warm L2ARC, in a sentence; "" without it, or of no known reference."""
    document = _if_known(name)
    if document is None or document.reads_gain_min is None:
        return ""
    times = f"more than {document.reads_gain_min:g} times the reads a second"
    return f"Published ({document.source}): a warm L2ARC gave {times} of disks and a warm ARC alone."


def forces_of_series(name: str | None) -> dict[str, dict[tuple[str, int, int, bool], float]]:
    """By configuration: us by method, bytes of a record, records a force, and whether of the split table.

    Empty where the reference has none, or is not known: the runs say so.
    """
    document = _if_known(name)
    if document is None:
        return {}
    return {
        configuration: {
            (each.method, each.record, each.per_force, each.split): each.us[number]
            for each in document.forces
        }
        for number, configuration in enumerate(document.configurations)
    }


def source_of_series(name: str | None) -> str:
    """What was published, and when; "" where it is not known, as in forces_of_series."""
    document = _if_known(name)
    return document.source if document else ""


def _if_known(name: str | None) -> Document | None:
    return _document(name, _DIRECTORY) if name and name in known() else None


def _document(name: str, directory: Path) -> Document:
    names = known(directory)
    if name not in names:
        raise ConfigError(f"no reference {name!r}", f"known are: {', '.join(names)}")
    path = directory / f"{name}.toml"
    try:
        # JSON: only so do strict types take a list for a tuple.
        data = json.dumps(tomllib.loads(path.read_text("utf-8")))
        return Document.model_validate_json(data)
    except ValueError as error:
        raise ConfigError(
            f"{path}: not a reference ({error!r})",
            "reports/published/references/sun-7410-2009.toml shows the form",
        ) from error
