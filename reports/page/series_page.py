"""report.html of a series: a figure for each axis, thumbnails, a matrix for crossed axes, one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

import polars as pl

from kit.store.labels import verdict_name
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.series import CellRow, Ratio, Series, SeriesAxis, SeriesCell
from kit.store.tables import deciding_layer
from reports.analysis.import_source import phase_frame
from reports.devices.stripes import sentences_of, stripes_of
from reports.figures import heat_map
from reports.figures.runs import series as figures
from reports.figures.runs.batches import batches_figure
from reports.figures.thumbnail import thumbnail
from reports.page import document
from reports.page.document import Figures, Placed, StripesPart
from reports.published import references
from reports.series.batches import batches_of
from reports.series.sentences import answer, sentences
from reports.series.sync_methods import sync_table
from reports.series.view import bytes_rate_of, cell_ratio, cpu_of, merged_rows, rate_of

# Of each run, by the name of its directory.
Runs = Mapping[str, tuple[Manifest, Latency]]


@dataclass(frozen=True)
class Thumbnail:
    """A cell on an axis as a small picture, which links to the report of its run."""

    value: str
    image: str
    link: str
    verdict: str | None


@dataclass(frozen=True)
class AxisPart:
    """An axis of which cells were measured. `figures`: each with the pictures of its cells."""

    axis: SeriesAxis
    sentences: Sequence[str]
    figures: Sequence[tuple[Placed, Sequence[Thumbnail]]]


@dataclass(frozen=True)
class MatrixCell:
    """`ratio`: of the p50 to that of the base. `excluded`: why there is no ratio."""

    p50_us: float | None
    ratio: float | None
    excluded: str | None


@dataclass(frozen=True)
class Matrix:
    """A row at two crossed axes: `rows` by the value of `down`, their cells in the order of `columns`."""

    down: str
    across: str
    phase: str
    op: str
    tier: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[MatrixCell]]]


@dataclass(frozen=True)
class TableRow:
    """A row of a cell in the one table; None: the cell has no row. `at`: its values, axis by axis."""

    cell: SeriesCell
    at: Sequence[str | None]
    link: str
    rate: float | None
    bytes_rate: float | None
    cpu: float | None
    row: CellRow | None
    ratio: Ratio | None

    @property
    def reasons(self) -> list[str]:
        return [reason for run in self.cell.runs for reason in run.reasons]


@document.damage_refused("series.json, or a run of the series", "look at each run with `hsp show`")
def render(series: Series, runs: Runs) -> str:
    """The page as HTML that needs nothing else; it links to the reports of the runs beside it."""
    collected = Figures()
    drawn = list(figures.figures(series))
    axes = []
    for axis in series.axes:
        mine = [
            (collected.add(figure, "series"), list(_thumbnails(series, axis.name, phase, runs)))
            for of, phase, figure in drawn
            if of is axis
        ]
        batches = [each for each in batches_of(series) if each.axis is axis]
        mine += [(collected.add(batches_figure(each), "series"), []) for each in batches]
        # Without one: of --only or --quick, none of its cells was measured.
        if mine:
            axes.append(AxisPart(axis, list(sentences(series, axis)), mine))
    verdict = series.verdict or "unknown"
    sync = sync_table(series, references.forces_of_series(series.reference))
    made = (stripes_of(latency.intervals, manifest.phases) for manifest, latency in runs.values())
    arrays = [each for each in made if each]
    return document.render(
        "series.html.j2",
        collected,
        [f"{series.title}: {verdict_name(verdict)}", series.id],
        series=series,
        verdict=verdict,
        axes=axes,
        matrices=list(_matrices(series)),
        stripes=[StripesPart.of(each, collected) for each in arrays],
        rows=list(_rows(series)),
        answer=answer(series, [text for each in arrays for text in [*sentences_of(each)][:1]], sync),
        sync=sync,
        published_in=references.source_of_series(series.reference),
        with_bytes=[(cell, run) for cell in series.cells for run in cell.runs if run.bytes],
        axis_names=[axis.name for axis in series.axes],
    )


def _thumbnails(series: Series, axis: str, phase: str, runs: Runs) -> Iterator[Thumbnail]:
    base = series.axis(axis).values[0]
    for cell in series.cells:
        if cell.phase != phase or cell.again or any(name != axis for name in cell.at) or not cell.runs:
            continue
        run = cell.runs[-1].run
        image = _image(cell, *runs[run]) if run in runs else ""
        yield Thumbnail(cell.at.get(axis, base), image, _link(cell), cell.verdict)


def _image(cell: SeriesCell, manifest: Manifest, latency: Latency) -> str:
    phase = manifest.phase_named(cell.in_run)
    if phase is None:
        return ""
    of_phase = latency.cells.filter(pl.col("phase") == phase.name)
    frame = phase_frame(of_phase, phase.name, deciding_layer(set(of_phase["layer"].unique())))
    times = heat_map.TimeSpan.of(phase, latency.column_ns.get(phase.name))
    return thumbnail(heat_map.grid(frame, times)) if frame.height else ""


def _link(cell: SeriesCell) -> str:
    """The report of the cell's last run, at its phase. The directory's name is checked when read."""
    return f"../{cell.runs[-1].run}/report.html#{quote(cell.in_run)}" if cell.runs else ""


def _matrices(series: Series) -> Iterator[Matrix]:
    """For each pair of crossed axes, phase and tier: p50 and the ratio to the base, by both values."""
    for group in series.cross:
        if len(group) != 2:
            continue
        down, across = (series.axis(name) for name in group)
        for phase in dict.fromkeys(cell.phase for cell in series.cells if set(group) <= set(cell.at)):
            cells = {
                (cell.at.get(down.name, down.values[0]), cell.at.get(across.name, across.values[0])): cell
                for cell in series.cells
                if cell.phase == phase and not cell.again and set(cell.at) <= set(group)
            }
            keys = dict.fromkeys((row.op, row.tier) for cell in cells.values() for row in merged_rows(cell))
            for op, tier in keys:
                rows = [(v, [_entry(cells, (v, w), (op, tier)) for w in across.values]) for v in down.values]
                yield Matrix(down.name, across.name, phase, op, tier, across.values, rows)


def _entry(
    cells: Mapping[tuple[str, str], SeriesCell], at: tuple[str, str], row_key: tuple[str, str]
) -> MatrixCell:
    cell = cells.get(at)
    base = next((each for each in cells.values() if not each.at), next(iter(cells.values())))
    row, of_base = (
        next((r for r in merged_rows(each) if (r.op, r.tier) == row_key), None) if each else None
        for each in (cell, base)
    )
    if cell is None or row is None or row.p50_us is None:
        return MatrixCell(None, None, cell.excluded if cell else "not measured")
    is_kept = not cell.excluded and not base.excluded
    ratio = row.p50_us / of_base.p50_us if is_kept and of_base and of_base.p50_us else None
    return MatrixCell(row.p50_us, ratio, cell.excluded)


def _rows(series: Series) -> Iterator[TableRow]:
    """The one table: axes first."""
    for cell in series.cells:
        values = [series.value_of(cell, axis) for axis in series.axes]
        of_cell = TableRow(
            cell, values, _link(cell), rate_of(cell), bytes_rate_of(cell), cpu_of(cell), row=None, ratio=None
        )
        rows = merged_rows(cell)
        for row in rows:
            yield replace(of_cell, row=row, ratio=cell_ratio(series, cell, None, row))
        if not rows:
            yield of_cell
