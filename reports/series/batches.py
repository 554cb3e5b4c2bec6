"""Records a force against the time of a force: a line of two parameters, and what it says of a log. Pure.

The time until a group of n records is safe is taken to be t = a + b n: a is paid once for each force, b for
each record. Then n / t records are safe a second: in proportion to n while a is most of t, and 1 / b at most.
The line is fitted to relative errors, so that a force of one record counts as much as one of many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kit.core.units import commas, format_factor, format_latency, format_percent
from kit.store.series import Series, SeriesAxis
from reports.series.view import bytes_rate_of, cells_of, forces_of

_KEY = "force.per_force"
# A line that is farther off says little.
WITHIN = 0.15
_LEAST_POINTS = 3


@dataclass(frozen=True)
class Batches:
    """`points`: records a force, us until they are safe (the median), records a second.

    `force_us`, `record_us`: the line's. `device_bytes_per_s`: what other writes of the series reach at most;
    None without any.
    """

    axis: SeriesAxis
    phase: str
    record_bytes: int
    points: tuple[tuple[int, float, float], ...]
    force_us: float
    record_us: float
    device_bytes_per_s: float | None

    def us(self, records: float) -> float:
        """By the line."""
        return self.force_us + self.record_us * records

    @property
    def worst(self) -> float:
        """The largest difference of a point from the line, of the line."""
        return max(abs(us / self.us(records) - 1) for records, us, _ in self.points)

    @property
    def sentence(self) -> str:
        first, last = self.points[0], self.points[-1]
        held = self.worst <= WITHIN
        within = format_percent(max(self.worst, 0.01) if held else WITHIN)
        text = (
            f"{self.phase}: it is forces in series that count. At the median a force takes "
            f"{format_latency(self.force_us)} and {format_latency(max(self.record_us, 0))} more for each "
            f"record of {self.record_bytes} bytes: a line that holds all {len(self.points)} batches "
            f"{'' if held else 'not even '}within {within}. "
            f"With {last[0]} records a force instead of {first[0]}, {commas(last[2])} records a second are "
            f"safe instead of {commas(first[2])}: {format_factor(last[2] / first[2])} as many"
        )
        if self.device_bytes_per_s:
            share = first[2] * self.record_bytes / self.device_bytes_per_s
            rate = f"{commas(self.device_bytes_per_s / 1e6)} MB/s"
            text += f"; one by one they are {format_percent(share, 1)} of the {rate} of large writes"
        return f"{text}."


def batches_of(series: Series) -> Iterator[Batches]:
    """For each axis of records a force, and phase: the line through its cells."""
    rates = [rate for cell in series.cells if not forces_of(cell) and (rate := bytes_rate_of(cell))]
    for axis in series.axes:
        if _KEY not in axis.keys or any(key != _KEY and not key.startswith("phase.") for key in axis.keys):
            continue
        for phase, cells in cells_of(series, axis):
            points, sizes = [], set()
            for row in (row for cell, _ in cells if cell.verdict == "valid" for row in forces_of(cell)):
                if not row.may_lose:
                    points.append((row.per_force, row.p50_us or row.mean_us, row.records_per_s))
                    sizes.add(row.record_bytes)
            if len({records for records, _, _ in points}) >= _LEAST_POINTS and len(sizes) == 1:
                a, b = line_of([(records, us) for records, us, _ in points])
                yield Batches(axis, phase, sizes.pop(), tuple(sorted(points)), a, b, max(rates, default=None))


def line_of(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The line t = a + b n of the least squares of relative errors. At least two different n."""
    n, t = np.array(points, dtype=np.float64).T
    (a, b), *_ = np.linalg.lstsq(np.stack([1 / t, n / t], axis=1), np.ones_like(t), rcond=None)
    return float(a), float(b)
