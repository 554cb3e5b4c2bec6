"""An open loop in a phase, and the search for the rate up to which a limit is kept. Times in ns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kit.store.load.scheduled import Scheduled
from kit.store.parts.forces import Latencies
from kit.store.stored import Count, Many, Number, Stored, contradiction

_Rate = Annotated[Number, Field(gt=0)]
Judged = Literal["keeps", "breaks", "unclear", "late"]
Purpose = Literal["ramp", "between", "above", "confirm"]
End = Literal["found", "below", "beyond", "unknown"]


class OpenLoop(Scheduled):
    """I/Os of one rate. `actual`: from the start that the I/O had, as fio and most programs measure.

    `above`: that took longer than `limit_ns` from their intended start, with all that never started. `slow`:
    are above the limit also without the delay of the load's program. `batches`: by time, how many I/Os,
    `above` and `slow`.
    """

    summed = (*Scheduled.summed, "above", "slow")
    counted = ("actual", *Scheduled.counted)

    op: Literal["read", "write"]
    block_bytes: Count
    rate_per_s: _Rate
    limit_ns: Annotated[Count, Field(ge=1)]
    above: Count
    slow: Count
    actual: Latencies
    batches: Many[tuple[Count, Count, Count]]

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        counts = self.due, self.above, self.slow
        if not self.unstarted <= self.slow <= self.above <= self.due:
            raise contradiction(f"due, above and slow are {counts}, unstarted is {self.unstarted}")
        if (found := tuple(sum(each[part] for each in self.batches) for part in range(3))) != counts:
            raise contradiction(f"due, above and slow are {counts}, the sums of batches {found}")
        return self

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of several clients at one time, whose rates add up."""
        batches = zip_longest(*(each.batches for each in parts), fillvalue=(0, 0, 0))
        own = {
            "rate_per_s": sum(each.rate_per_s for each in parts),
            "batches": tuple(tuple(map(sum, zip(*each, strict=True))) for each in batches),
        }
        return super().together(parts).model_copy(update=own)

    @classmethod
    def in_turn(cls, looks: Sequence[Self]) -> Self:
        """Of several looks at one rate, one after the other."""
        own = {
            "elapsed_ns": sum(each.elapsed_ns for each in looks),
            "batches": tuple(chain.from_iterable(each.batches for each in looks)),
        }
        return looks[0].model_copy(update=cls.sums(looks) | own)

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
