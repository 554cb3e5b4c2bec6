"""`open` and `replay` of a `[[phase]]`: I/Os at set times; `[capacity]`: the rate that keeps a limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from kit.config.fio_job import DEVICE, DIRECTORY, RUNTIME, SIZE, FioJob, FioSection
from kit.config.toml import STORED_IF_SET, Place, Problems, Table
from kit.core.units import DurationNs, SizeBytes, format_size_bytes

if TYPE_CHECKING:
    # It brings polars, which only a workload with a replay needs.
    from kit.store.load.capture import Capture

_LEAST_BLOCK, _MOST_BLOCK = 512, 1 << 20
_Rate = Annotated[int, Field(ge=1, le=10**7)]
# Of a phase with a rate of its own, what has not started so long after its end never does.
NO_LIMIT_NS = 10 * 10**9
# Of a search: the mean of those in tests/truth/capacity.py.
_EXPECTED_LOOKS = 28


class OpenTable(Table):
    """An open loop: random reads, or O_DSYNC writes in order, that start as a Poisson process says.

    Writes at random places would each dirty an indirect block too: txgs get long, and writes wait for them.

    `threads`: most at a time, of each client; with all of them busy a start is late, and is counted so.
    `rate`: a second, of all clients together; None: `[capacity]` looks for it.
    `p99_max`: in place of that of `[capacity]`.
    """

    op: Literal["read", "write"] = "read"
    block: SizeBytes = 4096
    threads: Annotated[int, Field(ge=1, le=1024)] = 64
    rate: _Rate | None = None
    p99_max: Annotated[DurationNs | None, Field(gt=0), STORED_IF_SET] = None

    @property
    def text(self) -> str:
        """For people."""
        block, rate = format_size_bytes(self.block), f", {self.rate} a second" if self.rate else ""
        return f"{block} {'random reads' if self.op == 'read' else 'O_DSYNC writes in order'}{rate}"

    def _problems(self) -> Problems:
        if not _LEAST_BLOCK <= self.block <= _MOST_BLOCK or self.block % _LEAST_BLOCK:
            most = format_size_bytes(_MOST_BLOCK)
            yield "block", f"{self.block} bytes: write a multiple of {_LEAST_BLOCK}, {most} at most"


class Capacity(Table):
    """The highest rate at which `p99_max` is kept, of each phase with `open` and without a rate of its own.

    The search doubles the rate from `rate_min` on, until the limit is broken or `rate_max` is kept, then
    halves what is between, until both ends are within `precision` (of 1), and confirms the result. Each look
    has at least `ios` I/Os and the duration of the phase.
    """

    p99_max: Annotated[DurationNs, Field(gt=0)]
    rate_min: _Rate = 100
    rate_max: _Rate = 1_000_000
    precision: Annotated[float, Field(ge=0.01, le=0.5)] = 0.05
    ios: Annotated[int, Field(ge=1000, le=10**7)] = 5000

    def expected_ns(self, duration_ns: int) -> int:
        """How long a search takes, about: the looks at low rates last until they have their I/Os."""
        rate, longer_ns = self.rate_min, 0
        while rate <= self.rate_max and (left_ns := self.ios * 10**9 // rate - duration_ns) > 0:
            rate, longer_ns = 2 * rate, longer_ns + left_ns
        return _EXPECTED_LOOKS * duration_ns + longer_ns

    def _problems(self) -> Problems:
        if self.rate_min > self.rate_max:
            yield "rate_min", f"{self.rate_min} is above rate_max, {self.rate_max}: make it smaller"


@dataclass(frozen=True)
class OpenJob(FioJob):
    """The load of a phase with `open`, as the fio job would be that makes such I/Os; fio does not run it."""

    open: OpenTable
    limit_ns: int

    @property
    def direct(self) -> bool:
        """Past the page cache."""
        return self.sections[0].options["direct"] == "1"

    @classmethod
    def of(cls, table: OpenTable, file: str, limit_ns: int, place: Place) -> OpenJob:
        """`file`: the working set; "": the phase goes to devices."""
        options = {
            "rw": "randread" if table.op == "read" else "write",
            "bs": str(table.block),
            "numjobs": str(table.threads),
            "direct": "1",
            **({"directory": DIRECTORY} if file else {}),
            "filename": file or DEVICE,
            "size": SIZE,
            "time_based": "1",
            "runtime": RUNTIME,
            **({"sync": "dsync"} if table.op == "write" else {}),
        }
        section = FioSection("open", MappingProxyType(options), place)
        return cls(f"{table.model_dump_json()} {limit_ns}", (section,), table, limit_ns)


class ReplayTable(Table):
    """The requests of a capture, at its times. `capture`: a file beside the workload.

    `speed`: 2 is twice as fast. `threads`: most at a time, of each client. `unstable`: whether a capture with
    unstable writes is refused, or these are written as stable ones, without COMMITs.
    """

    # Where it lies is no part of what is measured: the digest of its content is in the job.
    capture: Annotated[str, Field(min_length=1, exclude=True)]
    speed: Annotated[float, Field(ge=0.01, le=100)] = 1
    threads: Annotated[int, Field(ge=1, le=1024)] = 64
    unstable: Literal["refuse", "force"] = "refuse"

    @property
    def text(self) -> str:
        """For people."""
        return f"a captured load, speed {self.speed:g}"


@dataclass(frozen=True)
class ReplayJob(FioJob):
    """The load of a phase with `replay`: what plan and run ask of a job. It has no sections of fio.

    `file`: the working set.
    """

    replay: ReplayTable
    file: str
    capture: Capture = field(compare=False, repr=False)

    @classmethod
    def of(cls, table: ReplayTable, file: str, capture: Capture) -> ReplayJob:
        text = table.model_dump_json(exclude={"capture"})
        return cls(f"{text} {capture.digest}", (), table, file, capture)

    @property
    def operations(self) -> frozenset[str]:
        return self.capture.operations

    @property
    def outstanding(self) -> int:
        return self.replay.threads
