"""The table [precondition] of a workload: how devices are brought to a known state before there is a pool."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kit.core.sample_size import sample_needed
from kit.core.units import DurationNs, SizeBytes

Method = Literal["snia", "fills", "none"]
Role = Literal["data", "log", "cache"]
Tracked = Literal["p99", "iops"]
Size = Annotated[SizeBytes, Field(gt=0)]

# As SNIA has it: the workload-independent part, and the most rounds of the workload-dependent one.
SNIA_FILLS = 2
SNIA_ROUNDS = 25
# A round writes this part of the capacity unless the workload says how much.
_ROUND_PART = 4
_SECTOR = 512
MIN_IOS = sample_needed(0.99)


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Budget(_Table):
    """What may be spent on each device: bytes written, time, part of the rated endurance (0 to 1)."""

    write: Size | None = None
    time: Annotated[DurationNs, Field(gt=0)] | None = None
    endurance: Annotated[float, Field(gt=0, le=1)] | None = None

    def bytes_for(self, endurance_bytes: int | None) -> int | None:
        """The lower of the limits in bytes for a device of that rated endurance; None without one."""
        limits = [self.write] if self.write is not None else []
        if self.endurance is not None and endurance_bytes is not None:
            limits.append(int(endurance_bytes * self.endurance))
        return min(limits, default=None)


class Precondition(_Table):
    """`method`: "snia" (purge, two fills, rounds until steady), "fills" (purge, that many fills) or "none".

    `roles`: which devices. `tracked`: what must be steady. `block` and `read_block`: sizes of the sync writes
    and of the reads that are measured, one after another, at each point; `ios`: how many of each. Rounds
    write `round_size` (a quarter of the device by default) at random places in units of `block`.
    """

    method: Method
    fills: Annotated[int, Field(ge=1, le=100)] | None = None
    # Not strict in themselves: what passed a validator of mode "before" comes as Python's lists.
    roles: Annotated[tuple[Role, ...], Field(strict=False, min_length=1)] | None = None
    purge: Literal["auto", "format", "sanitize", "discard"] = "auto"
    tracked: Annotated[tuple[Tracked, ...], Field(strict=False, min_length=1)] = ("p99", "iops")
    block: Size = 4096
    read_block: Size = 512
    round_size: Size | None = None
    ios: Annotated[int, Field(ge=MIN_IOS, le=1_000_000)] = 4000
    budget: Budget = Budget()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.method == "fills" and self.fills is None:
            raise ValueError('method = "fills" needs fills = N, how many times the devices are filled')
        if self.method != "fills" and self.fills is not None:
            raise ValueError(f'fills = {self.fills} is of method = "fills", found method = "{self.method}"')
        for name in ("block", "read_block"):
            value = getattr(self, name)
            if value % _SECTOR or value > 1 << 20:
                raise ValueError(f"{name} = {value} bytes: a multiple of 512, at most 1MiB, is needed")
        if self.round_size is not None and self.round_size % self.block:
            raise ValueError(f"round_size = {self.round_size} bytes is no multiple of block = {self.block}")
        for name in ("roles", "tracked"):
            listed = getattr(self, name) or ()
            if len(set(listed)) < len(listed):
                raise ValueError(f"{name} names something twice: {', '.join(listed)}")
        return self

    @property
    def writes(self) -> bool:
        """Whether there is anything to do."""
        return self.method != "none"

    @property
    def wanted_roles(self) -> tuple[Role, ...]:
        """The roles whose devices are preconditioned: cache and log unless others are named."""
        return self.roles or ("cache", "log")

    @property
    def passes(self) -> int:
        """How many times the whole device is written, in order."""
        return {"snia": SNIA_FILLS, "fills": self.fills or 0, "none": 0}[self.method]

    @property
    def rounds(self) -> int:
        """The most rounds there can be."""
        return SNIA_ROUNDS if self.method == "snia" else 0

    def round_bytes(self, capacity_bytes: int) -> int:
        """What one round writes to a device of that capacity."""
        wanted = self.round_size or capacity_bytes // _ROUND_PART
        return max(wanted // self.block, 1) * self.block


def _none_is_a_table(value: Any) -> Any:
    """`precondition = "none"` is short for the table with that method."""
    if isinstance(value, str) and value != "none":
        raise ValueError(f'{value[:40]!r}: it is either "none" or a table [precondition] with a method')
    return {"method": "none"} if value == "none" else value


PreconditionTable = Annotated[Precondition, BeforeValidator(_none_is_a_table)]
