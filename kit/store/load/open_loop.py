"""An open loop in a phase, and the search for the rate up to which a limit is kept. Times in ns.

`intended`: latencies from the start that the schedule has; `actual`: from the start that the I/O had, as fio
and most programs measure. An I/O that waits for a free thread is in the first alone (coordinated omission).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kit.store.parts.forces import Latencies, together
from kit.store.stored import Count, Many, Number, Stored, contradiction

_SUMMED = ("due", "unstarted", "above", "slow")
_Rate = Annotated[Number, Field(gt=0)]
Judged = Literal["keeps", "breaks", "unclear", "late"]
Purpose = Literal["ramp", "between", "above", "confirm"]
End = Literal["found", "below", "beyond", "unknown"]


class OpenLoop(Stored):
    """I/Os of one rate. `due`: all that had to start; `unstarted`: those that never did, the rest is counted.

    `above`: that took longer than `limit_ns` from their intended start, with all that never started. `late`:
    how long after its time, and after a thread was free, an I/O started: the delay of the load's program.
    `slow`: are above the limit also without that. `batches`: by time, how many I/Os, `above` and `slow`.
    """

    op: Literal["read", "write"]
    block_bytes: Count
    threads: Count
    rate_per_s: _Rate
    elapsed_ns: Annotated[Count, Field(ge=1)]
    limit_ns: Annotated[Count, Field(ge=1)]
    due: Count
    unstarted: Count
    above: Count
    slow: Count
    actual: Latencies
    intended: Latencies
    late: Latencies
    batches: Many[tuple[Count, Count, Count]]

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if not self.actual.ios == self.intended.ios == self.late.ios == self.due - self.unstarted:
            raise contradiction(
                f"due is {self.due} and unstarted {self.unstarted}, but there are {self.actual.ios} actual, "
                f"{self.intended.ios} intended and {self.late.ios} late latencies"
            )
        counts = self.due, self.above, self.slow
        if not self.unstarted <= self.slow <= self.above <= self.due:
            raise contradiction(f"due, above and slow are {counts}, unstarted is {self.unstarted}")
        if (found := tuple(sum(each[part] for each in self.batches) for part in range(3))) != counts:
            raise contradiction(f"due, above and slow are {counts}, the sums of batches {found}")
        return self

    @classmethod
    def together(cls, parts: Sequence[Self], *, in_turn: bool = False) -> Self:
        """Of several clients at one time, whose rates add up; or of several looks `in_turn`, at one rate."""
        first = parts[0]
        if len(parts) == 1:
            return first
        sums = {name: sum(getattr(each, name) for each in parts) for name in _SUMMED}
        latencies = {
            name: together([getattr(each, name) for each in parts]) for name in ("actual", "intended", "late")
        }
        elapsed = [each.elapsed_ns for each in parts]
        own = {"elapsed_ns": sum(elapsed)} if in_turn else {
            "elapsed_ns": max(elapsed),
            "rate_per_s": sum(each.rate_per_s for each in parts),
            "threads": sum(each.threads for each in parts),
        }  # fmt: skip
        batches = [each.batches for each in parts]
        joined = chain.from_iterable(batches) if in_turn else (
            tuple(map(sum, zip(*each, strict=True)))
            for each in zip_longest(*batches, fillvalue=(0, 0, 0))
        )  # fmt: skip
        return first.model_copy(update={**sums, **latencies, **own, "batches": tuple(joined)})

    def rank_ns(self, q: float, *, intended: bool = True) -> float | None:
        """The q-quantile, to the middle of a bin; None where it is of an I/O that never started."""
        latencies = self.intended if intended else self.actual
        return latencies.rank_ns(math.ceil(q * (self.due if intended else latencies.ios)))


class CapacityStep(Stored):
    """The looks at one rate. `low`, `high`: 95 % range of the share of I/Os above the limit (of 1)."""

    purpose: Purpose
    judged: Judged
    low: Annotated[Number, Field(ge=0, le=1)]
    high: Annotated[Number, Field(ge=0, le=1)]
    load: OpenLoop


class CapacitySearch(Stored):
    """`rate_per_s`: the highest rate that kept `p99_max_ns` and was confirmed.

    `broken_per_s`: the lowest above it that broke the limit, for sure. None: there is none. `why`: why the
    answer is not known.
    """

    p99_max_ns: Annotated[Count, Field(ge=1)]
    end: End
    rate_per_s: _Rate | None = None
    broken_per_s: _Rate | None = None
    why: str = ""
    steps: Many[CapacityStep] = ()

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.end in ("found", "beyond") and self.rate_per_s is None:
            raise contradiction(f"end is {self.end}, and rate_per_s is not there")
        if self.end == "found" and (self.broken_per_s or 0) <= (self.rate_per_s or 0):
            raise contradiction(f"rate_per_s is {self.rate_per_s}, broken_per_s {self.broken_per_s}")
        return self


class RatePoint(Stored):
    """One rate of summary.json. `done_per_s`: were done. `share`: above the limit (of 1), with its range.

    Percentiles are None with too few I/Os, or where they are of one that never started.
    """

    rate_per_s: Number
    done_per_s: Number
    ios: Count
    judged: Judged | None = None
    confirms: bool = False
    share: Number
    low: Number | None = None
    high: Number | None = None
    p50_us: Number | None
    p99_us: Number | None
    p999_us: Number | None
    actual_p50_us: Number | None
    actual_p99_us: Number | None
    actual_p999_us: Number | None
    late_p99_us: Number | None


class CapacityRow(Stored):
    """An open loop of summary.json, by rate. `end`: None of a phase with one rate, which has no `limit_us`.

    `knee_per_s`: the lowest rate from which on p99 is more than twice as long as at the lowest of all.
    """

    phase: str
    op: Literal["read", "write"]
    block_bytes: Count
    threads: Count
    limit_us: Number | None = None
    end: End | None = None
    rate_per_s: Number | None = None
    broken_per_s: Number | None = None
    knee_per_s: Number | None = None
    why: str = ""
    points: Many[RatePoint]
