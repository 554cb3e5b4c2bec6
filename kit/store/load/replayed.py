"""A captured load that was replayed in a phase. Times in ns of the experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from kit.core.text import commas
from kit.core.units import format_latency, format_percent
from kit.store.parts.forces import Latencies, together
from kit.store.stored import Count, Number, Stored, contradiction

LATE_NS = 10**6
"""An I/O that starts later is late: far above what a timer needs, and below what a disk takes."""
MOST_LATE = 0.01
_SUMMED = ("due", "unstarted", "late_ios")


class Replayed(Stored):
    """`captured`: reads and writes of the capture, of which `due` had to start; `unstarted` never did.

    `late_ios`: started more than `late_ns` after their intended start, for whatever reason; with those
    `unstarted` they are late. `lost`, `left_out`: requests that the capture does not have. `forced`: unstable
    writes that were written as stable ones; `commits`: COMMITs that were left out. `intended`: latencies from
    the intended start; `late`: the delay of the load's own program.
    """

    captured: Count
    lost: Count
    left_out: Count
    forced: Count
    commits: Count
    speed: Annotated[Number, Field(gt=0)]
    threads: Count
    elapsed_ns: Annotated[Count, Field(ge=1)]
    late_ns: Annotated[Count, Field(ge=1)]
    due: Count
    unstarted: Count
    late_ios: Count
    intended: Latencies
    late: Latencies

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        started = self.due - self.unstarted
        if not self.intended.ios == self.late.ios == started:
            raise contradiction(
                f"due is {self.due} and unstarted {self.unstarted}, but there are {self.intended.ios} "
                f"intended and {self.late.ios} late latencies"
            )
        if self.late_ios > started:
            raise contradiction(f"late_ios is {self.late_ios}, of {started} that were started")
        return self

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Of several clients at one time."""
        latencies = {name: together([getattr(each, name) for each in parts]) for name in ("intended", "late")}
        update = {name: sum(getattr(each, name) for each in parts) for name in (*_SUMMED, "threads")}
        update["elapsed_ns"] = max(each.elapsed_ns for each in parts)
        return parts[0].model_copy(update={**update, **latencies})

    @property
    def share_late(self) -> float:
        """Of all that had to start, of 1."""
        return (self.late_ios + self.unstarted) / max(self.due, 1)

    @property
    def rate_per_s(self) -> float:
        """I/Os that were done."""
        return self.intended.ios * 1e9 / self.elapsed_ns

    def problems(self) -> Iterator[str]:
        """Why this is not the captured load."""
        done = self.due - self.unstarted
        if done != self.captured:
            yield f"{commas(done)} of {commas(self.captured)} captured I/Os were replayed"
        if self.share_late > MOST_LATE:
            yield (
                f"{format_percent(self.share_late, 1)} of the I/Os started more than "
                f"{format_latency(self.late_ns / 1e3)} late, limit {format_percent(MOST_LATE)}: it is not "
                "the captured load; give it more threads (replay.threads), more clients, or a lower --speed"
            )

    def sentence(self) -> str:
        """For people."""
        text = (
            f"{commas(self.due - self.unstarted)} of {commas(self.captured)} captured I/Os were replayed at "
            f"speed {self.speed:g}, {commas(self.rate_per_s)} a second; {format_percent(self.share_late, 2)} "
            f"started more than {format_latency(self.late_ns / 1e3)} late."
        )
        if self.forced or self.commits:
            text += f" {commas(self.forced)} unstable writes were written as stable ones, without"
            text += f" {commas(self.commits)} COMMITs."
        if self.lost or self.left_out:
            text += f" The capture lacks {commas(self.lost)} requests that were lost, and"
            text += f" {commas(self.left_out)} after it was full."
        return text
