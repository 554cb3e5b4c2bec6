"""A captured load that was replayed in a phase. Times in ns of the experiment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, model_validator

from kit.core.text import commas
from kit.core.units import format_latency, format_percent
from kit.store.load.scheduled import Scheduled
from kit.store.stored import Count, Number, contradiction

LATE_NS = 10**6
"""An I/O that starts later is late: far above what a timer needs, and below what a disk takes."""
MOST_LATE = 0.01


class Replayed(Scheduled):
    """`captured`: reads and writes of the capture, of which `due` had to start.

    `late_ios`: started more than `late_ns` after their intended start, for whatever reason; with those
    `unstarted` they are late. `lost`, `left_out`: requests that the capture does not have. `forced`: unstable
    writes that were written as stable ones; `commits`: COMMITs that were left out.
    """

    summed = (*Scheduled.summed, "late_ios")

    captured: Count
    lost: Count
    left_out: Count
    forced: Count
    commits: Count
    speed: Annotated[Number, Field(gt=0)]
    late_ns: Annotated[Count, Field(ge=1)]
    late_ios: Count

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.late_ios > self.started:
            raise contradiction(f"late_ios is {self.late_ios}, of {self.started} that were started")
        return self

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
        if self.started != self.captured:
            yield f"{commas(self.started)} of {commas(self.captured)} captured I/Os were replayed"
        if self.share_late > MOST_LATE:
            yield (
                f"{format_percent(self.share_late, 1)} of the I/Os started more than "
                f"{format_latency(self.late_ns / 1e3)} late, limit {format_percent(MOST_LATE)}: it is not "
                "the captured load; give it more threads (replay.threads), more clients, or a lower --speed"
            )

    def sentence(self) -> str:
        """For people."""
        text = (
            f"{commas(self.started)} of {commas(self.captured)} captured I/Os were replayed at "
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
