"""I/Os that start at set times, whatever those before them do. Times in ns of the experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from kit.store.parts.forces import Latencies, together
from kit.store.stored import Count, Stored, contradiction


class Scheduled(Stored):
    """`due`: all I/Os that had to start; `unstarted`: those that never did, the rest is counted.

    `intended`: latencies from the start that the schedule has, so with the wait for a free thread
    (coordinated omission); `late`: how long after its time, and after a thread was free, an I/O started: the
    delay of the load's program.
    """

    summed: ClassVar[tuple[str, ...]] = ("due", "unstarted")
    counted: ClassVar[tuple[str, ...]] = ("intended", "late")

    threads: Count
    elapsed_ns: Annotated[Count, Field(ge=1)]
    due: Count
    unstarted: Count
    intended: Latencies
    late: Latencies

    @model_validator(mode="after")
    def _all_is_counted(self) -> Self:
        ios = {name: getattr(self, name).ios for name in self.counted}
        if set(ios.values()) != {self.started}:
            found = ", ".join(f"{count} {name}" for name, count in ios.items())
            raise contradiction(
                f"due is {self.due} and unstarted {self.unstarted}, but there are {found} latencies"
            )
        return self

    @property
    def started(self) -> int:
        return self.due - self.unstarted

    @classmethod
    def sums(cls, parts: Sequence[Self]) -> dict[str, Any]:
        """Fields of several parts together."""
        sums = {name: sum(getattr(each, name) for each in parts) for name in cls.summed}
        return sums | {name: together([getattr(each, name) for each in parts]) for name in cls.counted}

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of several clients at one time."""
        own = {
            "elapsed_ns": max(each.elapsed_ns for each in parts),
            "threads": sum(each.threads for each in parts),
        }
        return parts[0].model_copy(update=cls.sums(parts) | own)
