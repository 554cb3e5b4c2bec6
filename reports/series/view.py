"""What tables and figures of a series share: cells by axis and phase, rows over rounds. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kit.store.series import CellRow, Ratio, Series, SeriesAxis, SeriesCell
from kit.store.summary import ForcesRow
from kit.store.tables import deciding_layer

_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

# Cells with their value on an axis.
Cells = Sequence[tuple[SeriesCell, str]]


@dataclass(frozen=True)
class SeriesLine:
    """Cells along an axis, the same on all others. `name`: what tells it from other lines of a figure."""

    name: str
    cells: Cells


def cells_of(series: Series, axis: SeriesAxis) -> Iterator[tuple[str, Cells]]:
    """For each phase that an axis is about: its cells with their value, in order. Only it varies."""
    phases = list(dict.fromkeys(cell.phase for cell in series.cells if axis.name in cell.at))
    for phase in phases:
        yield phase, _along(series, axis, phase, {})


def lines_of(series: Series, axis: SeriesAxis, phase: str) -> list[SeriesLine]:
    """The base's line along the axis, and one for each combination of values on axes crossed with it."""
    besides: list[dict[str, str]] = [{}]
    for cell in series.cells:
        beside = {name: value for name, value in cell.at.items() if name != axis.name}
        if cell.phase == phase and axis.name in cell.at and beside not in besides:
            besides.append(beside)
    crossed = {name for beside in besides for name in beside}
    lines = []
    for beside in besides:
        values = {name: beside.get(name, series.axis(name).values[0]) for name in sorted(crossed)}
        name = ", ".join(f"{name} {series.axis(name).worded(value)}" for name, value in values.items())
        lines.append(SeriesLine(name, _along(series, axis, phase, beside)))
    return lines


def _along(series: Series, axis: SeriesAxis, phase: str, beside: Mapping[str, str]) -> Cells:
    cells = []
    for value in axis.values:
        at = {**beside, **({} if value == axis.values[0] else {axis.name: value})}
        cell = next((c for c in series.cells if c.phase == phase and c.at == at and not c.again), None)
        if cell is not None:
            cells.append((cell, value))
    return cells


def places_of(values: Sequence[str]) -> tuple[list[float], bool] | None:
    """Where values stand on an axis, and whether it is linear: from 0, or in equal steps; else logarithmic.

    None where one is not a number, with a unit or without: then they stand by their names.
    """
    numbers = []
    for value in values:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kmgKMG]?)(?:i?[bB])?", value)
        if match is None:
            return None
        numbers.append(float(match[1]) * _FACTORS[match[2].lower()])
    steps = {round(b - a, 9) for a, b in itertools.pairwise(numbers)}
    is_linear = len(numbers) > 2 and (min(numbers) == 0 or len(steps) == 1)
    return (numbers, is_linear) if is_linear or min(numbers, default=0) > 0 else None


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
    low, high = geometric_mean(lows), geometric_mean(highs)
    return rows[0].model_copy(
        update={
            "count": sum(row.count for row in rows),
            "share": sum(row.share for row in rows) / len(rows),
            "p50_us": geometric_mean([row.p50_us for row in rows]),
            "p99_us": geometric_mean([row.p99_us for row in rows]),
            "p50_range_us": (low, high) if low is not None and high is not None else None,
        }
    )


def geometric_mean(values: Sequence[float | None]) -> float | None:
    """None where one is missing."""
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


def forces_of(cell: SeriesCell) -> list[ForcesRow]:
    """Its forced writes, by round."""
    return [run.forces for run in cell.runs if run.forces]


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


def passes_of(cell: SeriesCell) -> list[SeriesCell]:
    """The cell as each of its rounds alone has it; none where there is one."""
    alone = [cell.model_copy(update={"runs": (run,)}) for run in cell.runs]
    return alone if len(alone) > 1 else []


def never_written_of(cell: SeriesCell) -> float:
    """Part of the addresses that nothing had written when they were read, the most of the rounds."""
    return max((run.never_written for run in cell.runs), default=0.0)
