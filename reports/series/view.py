"""What tables and figures of a series share: cells by axis and phase, rows over rounds. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kit.store.series import CellRow, Ratio, Series, SeriesAxis, SeriesCell
from kit.store.tables import deciding_layer


def cells_of(series: Series, axis: SeriesAxis) -> Iterator[tuple[str, list[tuple[SeriesCell, str]]]]:
    """For each phase that an axis is about: its cells with their value, in order. Only it varies."""
    phases = list(dict.fromkeys(cell.phase for cell in series.cells if axis.name in cell.at))
    for phase in phases:
        cells = []
        for value in axis.values:
            at = {} if value == axis.values[0] else {axis.name: value}
            cell = next((c for c in series.cells if c.phase == phase and c.at == at and not c.again), None)
            if cell is not None:
                cells.append((cell, value))
        yield phase, cells


def merged_rows(cell: SeriesCell) -> list[CellRow]:
    """The rows of a cell at the NFS server, over its rounds; of its clients or devices where there are none.

    Counts are summed; a percentile is the geometric mean of the rounds'.
    """
    every = [row for run in cell.runs for row in run.rows]
    layer = deciding_layer({row.layer for row in every})
    named: dict[tuple[str, str], list[CellRow]] = {}
    for row in every:
        if row.layer == layer:
            named.setdefault((row.op, row.tier), []).append(row)
    return [_merged(rows) for rows in named.values()]


def _merged(rows: Sequence[CellRow]) -> CellRow:
    lows, highs = ([row.p50_range_us[end] if row.p50_range_us else None for row in rows] for end in (0, 1))
    low, high = _mean(lows), _mean(highs)
    return rows[0].model_copy(
        update={
            "count": sum(row.count for row in rows),
            "share": sum(row.share for row in rows) / len(rows),
            "p50_us": _mean([row.p50_us for row in rows]),
            "p99_us": _mean([row.p99_us for row in rows]),
            "p50_range_us": (low, high) if low is not None and high is not None else None,
        }
    )


def _mean(values: Sequence[float | None]) -> float | None:
    """The geometric mean; None where one is missing."""
    known = [value for value in values if value is not None and value > 0]
    return math.exp(sum(map(math.log, known)) / len(known)) if known and len(known) == len(values) else None


def _over_runs(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def rate_of(cell: SeriesCell) -> float | None:
    """I/Os a second, the mean of the rounds."""
    return _over_runs([run.ios_per_s for run in cell.runs])


def bytes_rate_of(cell: SeriesCell) -> float | None:
    """Bytes a second, the mean of the rounds."""
    return _over_runs([run.bytes_per_s for run in cell.runs])


def cpu_of(cell: SeriesCell) -> float | None:
    """The highest CPU share of the rounds."""
    return max((run.cpu_busy for run in cell.runs if run.cpu_busy is not None), default=None)


def cell_ratio(series: Series, cell: SeriesCell, axis: str | None, row: CellRow) -> Ratio | None:
    """The cell's ratio of p50 to the base on one axis; on its last where none is named."""
    axes = [axis] if axis is not None else list(cell.at)[-1:]
    for ratio in series.ratios:
        if ratio.axis in axes and ratio.to == cell.at.get(ratio.axis) and ratio.figure == "p50":
            beside = {name: value for name, value in cell.at.items() if name != ratio.axis}
            key = (ratio.phase, ratio.layer, ratio.op, ratio.tier, ratio.beside)
            if key == (cell.phase, row.layer, row.op, row.tier, beside):
                return ratio
    return None
