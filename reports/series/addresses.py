"""What a sweep of addresses says: how much faster the first are than the last, or that all are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.store.series import Ratio, Series, SeriesAxis, SeriesCell
from reports.series.view import Cells, bytes_rate_of, cells_of, lines_of, never_written_of

# A rate is flat if it is nowhere further from another: that of an SSD that is filled.
FLAT = 0.05
_KEY = "job.offset"


def address_sentences(series: Series, axis: SeriesAxis) -> Iterator[str]:
    """For each phase, and each line along the axis; none of an axis of something else."""
    if axis.keys != (_KEY,):
        return
    for phase, _ in cells_of(series, axis):
        for line in lines_of(series, axis, phase):
            name = ", ".join(filter(None, (phase, line.name)))
            measured = [each for each in line.cells if not each[0].excluded and bytes_rate_of(each[0])]
            written = [each for each in measured if not never_written_of(each[0])]
            others = [each for each in measured if never_written_of(each[0])]
            if len(written) > 1:
                yield f"{name}: {_profile(series, axis, written)}."
            if others and written:
                yield f"{name}: {_unwritten(axis, others, written)}."


def _profile(series: Series, axis: SeriesAxis, cells: Cells) -> str:
    rates = _rates(cells)
    first, last = cells[0], cells[-1]
    between = f"{first[1]}{axis.unit} to {last[1]}{axis.unit}"
    spread = max(rates) / min(rates) - 1
    if spread <= FLAT:
        mean = sum(rates) / len(rates)
        return f"flat within {spread:.1%} from {between}, {mean / 1e6:.3g} MB/s"
    # The base is measured twice: the ratio and its interval are to the mean.
    ratio = _ratio(series, axis, last[0]) if first[1] == axis.values[0] else None
    times = 1 / ratio.ratio if ratio else rates[0] / rates[-1]
    known = ""
    if ratio and (ends := ratio.interval or ratio.range):
        by = f"over {ratio.rounds} passes" if ratio.interval else "by the number of I/Os"
        known = f" (95 %, {by}: {1 / ends[1]:.3f} to {1 / ends[0]:.3f})"
    words = "outer : inner" if all(run.rotating for run in first[0].runs) else "first : last"
    return f"{words} {times:.3f}{known}, {rates[0] / 1e6:.3g} to {rates[-1] / 1e6:.3g} MB/s from {between}"


def _ratio(series: Series, axis: SeriesAxis, cell: SeriesCell) -> Ratio | None:
    """Of a cell's rate to that at the first address."""
    beside = {name: value for name, value in cell.at.items() if name != axis.name}
    found = (
        ratio
        for ratio in series.ratios
        if (ratio.axis, ratio.to, ratio.phase, ratio.figure)
        == (axis.name, cell.at.get(axis.name), cell.phase, "ios_per_s")
        and ratio.beside == beside
    )
    return next(found, None)


def _unwritten(axis: SeriesAxis, cells: Cells, written: Cells) -> str:
    mean, other = (sum(rates) / len(rates) for rates in (_rates(cells), _rates(written)))
    values = ", ".join(f"{value}{axis.unit}" for _, value in cells)
    return (
        f"at {values} nothing was ever written: answered from the map, without flash, {mean / 1e6:.3g} MB/s, "
        f"{mean / other:.2f} times what is filled"
    )


def _rates(cells: Cells) -> Sequence[float]:
    """Bytes a second of cells that have it."""
    return [rate for cell, _ in cells if (rate := bytes_rate_of(cell))]
