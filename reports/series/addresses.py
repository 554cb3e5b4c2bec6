"""What a sweep of addresses says: how much faster the first are than the last, or that all are alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kit.core.units import format_factor, format_percent
from kit.store.series import Series, SeriesAxis
from reports.series.view import Cells, bytes_rate_of, cells_of, lines_of, never_written_of, places_of
from reports.statistics.ratios import Realisation, along

# A profile is flat if the line through it is shown to change by no more: that of an SSD that is filled.
FLAT = 0.05
# A line, and how places scatter around it.
_FEWEST = 4
_KEY = "job.offset"


def address_sentences(series: Series, axis: SeriesAxis) -> Iterator[str]:
    """For each phase, and each line along the axis; none of an axis of something else.

    What it comes to, and in brackets how well that is known.
    """
    if axis.keys != (_KEY,):
        return
    for phase, _ in cells_of(series, axis):
        for line in lines_of(series, axis, phase):
            name = ", ".join(filter(None, (phase, line.name)))
            measured = [each for each in line.cells if not each[0].excluded and bytes_rate_of(each[0])]
            written = [each for each in measured if not never_written_of(each[0])]
            others = [each for each in measured if never_written_of(each[0])]
            if len(written) > 1:
                yield f"{name}: {_profile(axis, written)}."
            if others and written:
                yield f"{name}: {_unwritten(axis, others, written)}."


def _profile(axis: SeriesAxis, cells: Cells) -> str:
    rates = _rates(cells)
    (first, begin), (_, end) = cells[0], cells[-1]
    whole = " of the device" if axis.unit == "%" else ""
    between = f"from {axis.worded(begin)} to {axis.worded(end)}{whole}"
    least, most = (f"{rate / 1e6:.3g}" for rate in (min(rates), max(rates)))
    at = f"{most} MB/s at each address" if least == most else f"{least} to {most} MB/s"
    differ = f"{len(cells)} places differ by {format_percent(max(rates) / min(rates) - 1, 1)} at most"
    if len(cells) < _FEWEST:
        return f"{at} {between}, too few places to tell whether it is flat ({differ})"
    known = places_of([value for _, value in cells])
    logs = [Realisation(math.log(rate), None) for rate in rates]
    line = along(known[0] if known else range(len(cells)), logs)
    low, high = line.range or (0.0, math.inf)
    fitted = f"by a line {1 / line.value:.3f}, 95 %: {1 / high:.3f} to {1 / low:.3f}"
    words = "outer : inner" if all(run.rotating for run in first.runs) else "first : last"
    if line.inside(1 / (1 + FLAT), 1 + FLAT):
        return f"{at} {between}, flat within {format_percent(FLAT)} ({differ}; {words} {fitted})"
    if line.inside(1, 1) is None:
        return f"{at} {between}, no trend is shown ({differ}; {words} {fitted})"
    return (
        f"{words} {rates[0] / rates[-1]:.3f}, {rates[0] / 1e6:.3g} to {rates[-1] / 1e6:.3g} MB/s {between} "
        f"({fitted})"
    )


def _unwritten(axis: SeriesAxis, cells: Cells, written: Cells) -> str:
    mean, other = (sum(rates) / len(rates) for rates in (_rates(cells), _rates(written)))
    values = ", ".join(axis.worded(value) for _, value in cells)
    return (
        f"never-written {values}: {mean / 1e6:.3g} MB/s, {format_factor(mean / other)} what is filled: "
        "no flash was read"
    )


def _rates(cells: Cells) -> Sequence[float]:
    """Bytes a second of cells that have it."""
    return [rate for cell, _ in cells if (rate := bytes_rate_of(cell))]
