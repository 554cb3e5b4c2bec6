"""The table [precondition] of a workload: how devices are aged before a pool is made."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from kit.config.toml import Problems, Table, stored_unless
from kit.core.sample_size import sample_needed
from kit.core.units import DurationNs, SizeBytes

Role = Literal["data", "log", "cache", "special", "dedup"]
# Of the flash beside the disks: it ages, and is preconditioned where a workload does not say which.
BESIDE_DATA: tuple[Role, ...] = ("cache", "log", "special", "dedup")
Size = Annotated[SizeBytes, Field(gt=0)]
WHOLE = "100%"

# SNIA SSS PTS: fills of the workload-independent part, most rounds of the workload-dependent part.
SNIA_FILLS = 2
SNIA_ROUNDS = 25
# A round writes 1 / _ROUND_PART of the capacity unless the workload sets round_size.
_ROUND_PART = 4
_SECTOR = 512
# The written part of a device ends between two of its writes.
_ACTIVE_STEP = 1 << 20


def _check_part(value: str) -> str:
    if not re.fullmatch("(?:[1-9][0-9]?|100)%", value):
        raise ValueError(f'{value[:40]!r}: expected a part of the device such as "50%", from "1%" to "100%"')
    return value


Part = Annotated[str, AfterValidator(_check_part)]


class Budget(Table):
    """Limits per device: bytes written, time, part of the rated endurance (0 to 1)."""

    write: Size | None = None
    time: Annotated[DurationNs, Field(gt=0)] | None = None
    endurance: Annotated[float, Field(gt=0, le=1)] | None = None

    def bytes_for(self, endurance_bytes: int | None) -> int | None:
        """The lowest limit in bytes for a device of that rated endurance; None without a limit."""
        limits = [self.write] if self.write is not None else []
        if self.endurance is not None and endurance_bytes is not None:
            limits.append(int(endurance_bytes * self.endurance))
        return min(limits, default=None)


class Precondition(Table):
    """The table. `method`: "snia" (purge, 2 fills, rounds until steady), "fills" (purge, N fills), "purge"
    alone, or "none".

    `roles`: which devices. `tracked`: metrics that must be steady. `block` and `read_block`: sizes of the
    sync writes and of the reads that are measured, one at a time, at each point; `ios`: how many of each.
    Rounds write `round_size` (default: a quarter of the device) at random offsets in units of `block`.
    `filled`: the part of the device, from its beginning, that is written (SNIA: active range).
    """

    method: Literal["snia", "fills", "purge", "none"]
    fills: Annotated[int, Field(ge=1, le=100)] | None = None
    filled: Annotated[Part, stored_unless(WHOLE)] = WHOLE
    # Not strict: after a validator of mode "before", pydantic gets Python lists.
    roles: Annotated[tuple[Role, ...], Field(strict=False, min_length=1)] | None = None
    purge: Literal["auto", "format", "sanitize", "discard"] = "auto"
    tracked: Annotated[tuple[Literal["p99", "iops"], ...], Field(strict=False, min_length=1)] = (
        "p99",
        "iops",
    )
    block: Size = 4096
    read_block: Size = 512
    round_size: Size | None = None
    ios: Annotated[int, Field(ge=sample_needed(0.99), le=1_000_000)] = 4000
    budget: Budget = Budget()

    def _problems(self) -> Problems:
        if self.method == "fills" and self.fills is None:
            yield "fills", 'method = "fills" needs fills = N, how many times the devices are filled'
        if self.method != "fills" and self.fills is not None:
            text = f'fills = {self.fills} is for method = "fills", found method = "{self.method}": remove it'
            yield "fills", text
        if not self.writes and self.filled != WHOLE:
            text = f'filled = "{self.filled}" is for a method that writes, found method = "none": remove it'
            yield "filled", text
        for name in ("block", "read_block"):
            value = getattr(self, name)
            if value % _SECTOR or value > 1 << 20:
                yield name, f"{value} bytes: a multiple of 512, at most 1MiB, is needed"
        if self.round_size is not None and self.round_size % self.block:
            yield "round_size", f"{self.round_size} bytes is no multiple of block = {self.block}"
        for name in ("roles", "tracked"):
            listed = getattr(self, name) or ()
            if len(set(listed)) < len(listed):
                yield name, f"lists a value twice: {', '.join(listed)}"

    @property
    def writes(self) -> bool:
        """Whether the devices are written at all."""
        return self.method != "none"

    @property
    def selected_roles(self) -> tuple[Role, ...]:
        """Roles of the preconditioned devices: none with method "none"; default: all but data."""
        return self.roles or BESIDE_DATA if self.writes else ()

    @property
    def passes(self) -> int:
        """Number of sequential writes of the whole device."""
        return {"snia": SNIA_FILLS, "fills": self.fills or 0}.get(self.method, 0)

    @property
    def rounds(self) -> int:
        """Highest number of rounds."""
        return SNIA_ROUNDS if self.method == "snia" else 0

    def active_bytes(self, capacity_bytes: int) -> int:
        """Bytes at the beginning of a device of that capacity that are written; the others never are."""
        if self.filled == WHOLE:
            return capacity_bytes
        return capacity_bytes * int(self.filled.removesuffix("%")) // 100 // _ACTIVE_STEP * _ACTIVE_STEP

    def round_bytes(self, capacity_bytes: int) -> int:
        """Bytes that one round writes to a device of that capacity; whole blocks."""
        size_bytes = self.round_size or self.active_bytes(capacity_bytes) // _ROUND_PART
        return max(size_bytes // self.block, 1) * self.block


def _expand_none(value: Any) -> Any:
    """Accept `precondition = "none"` as short form of the table with that method."""
    if isinstance(value, str) and value != "none":
        raise ValueError(f'{value[:40]!r}: expected "none" or a table [precondition] with a method')
    return {"method": "none"} if value == "none" else value


PreconditionTable = Annotated[
    Precondition, BeforeValidator(_expand_none, json_schema_input_type=Literal["none"] | Precondition)
]
