"""report.html of a series: a figure for each axis, thumbnails, a matrix for crossed axes, one table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import quote

import polars as pl

from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.series import Series, SeriesCell
from kit.store.stored import Json
from kit.store.tables import deciding_layer
from reports.analysis.import_source import phase_frame
from reports.devices.stripes import stripes_of
from reports.figures import heat_map
from reports.figures.runs import series as figures
from reports.figures.runs.batches import batches_figure
from reports.figures.thumbnail import thumbnail
from reports.page import document
from reports.page.document import Figures
from reports.published import references
from reports.series.batches import batches_of
from reports.series.sentences import sentences
from reports.series.sync_methods import sync_table
from reports.series.view import bytes_rate_of, cell_ratio, cpu_of, merged_rows, rate_of

# Of each run, by the name of its directory.
Runs = Mapping[str, tuple[Manifest, Latency]]


@document.damage_refused("series.json, or a run of the series", "look at each run with `hsp report`")
def render(series: Series, runs: Runs) -> str:
    """The page as HTML that needs nothing else; it links to the reports of the runs beside it."""
    collected = Figures()
    axes = []
    drawn = list(figures.figures(series))
    for axis in series.axes:
        mine = [
            {
                "figure": collected.add(figure, "series"),
                "thumbnails": list(_thumbnails(series, axis.name, phase, runs)),
            }
            for of, phase, figure in drawn
            if of is axis
        ]
        mine += [
            {"figure": collected.add(batches_figure(each), "series"), "thumbnails": []}
            for each in batches_of(series)
            if each.axis is axis
        ]
        if not mine:
            continue  # of --only or --quick: none of its cells was measured
        axes.append(
            {
                "name": axis.name,
                "keys": axis.keys,
                "sentences": list(sentences(series, axis)),
                "figures": mine,
            }
        )
    verdict = series.verdict or "unknown"
    return document.render(
        "series.html.j2",
        collected,
        [document.plain(f"{series.title}: {verdict}"), document.plain(series.id)],
        series=series,
        verdict=verdict,
        axes=axes,
        matrices=list(_matrices(series)),
        stripes=[part for run in runs.values() if (part := _stripes(*run, collected))],
        rows=list(_rows(series)),
        sync=sync_table(series, references.forces_of_series(series.reference)),
        bytes_rows=list(_bytes(series)),
        axis_names=[axis.name for axis in series.axes],
    )


def _stripes(manifest: Manifest, latency: Latency, collected: Figures) -> Json | None:
    """Without its sentences: they are among the notes of the series."""
    part = document.stripes_part(stripes_of(latency.bins, manifest.phases), collected)
    return part and {**part, "sentences": []}


def _thumbnails(series: Series, axis: str, phase: str, runs: Runs) -> Iterator[Json]:
    for cell in series.cells:
        if cell.phase != phase or cell.again or any(name != axis for name in cell.at) or not cell.runs:
            continue
        run = cell.runs[-1].run
        image = _image(cell, *runs[run]) if run in runs else ""
        base = next(each.values[0] for each in series.axes if each.name == axis)
        yield {"value": cell.at.get(axis, base), "image": image, "link": _link(cell), "verdict": cell.verdict}


def _image(cell: SeriesCell, manifest: Manifest, latency: Latency) -> str:
    phase = next((each for each in manifest.phases if each.name == cell.in_run), None)
    if phase is None:
        return ""
    value = {**phase.as_json(), "column_ns": latency.column_ns.get(phase.name)}
    of_phase = latency.cells.filter(pl.col("phase") == phase.name)
    frame = phase_frame(of_phase, phase.name, deciding_layer(set(of_phase["layer"].unique())))
    return thumbnail(heat_map.grid(frame, value)) if frame.height else ""


def _link(cell: SeriesCell) -> str:
    """The report of the cell's last run, at its phase. The directory's name is checked when read."""
    return f"../{cell.runs[-1].run}/report.html#{quote(cell.in_run)}" if cell.runs else ""


def _matrices(series: Series) -> Iterator[Json]:
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
                yield {
                    "down": down.name, "across": across.name, "phase": phase, "op": op, "tier": tier,
                    "columns": across.values,
                    "rows": [
                        {"value": v, "cells": [_entry(cells, (v, w), (op, tier)) for w in across.values]}
                        for v in down.values
                    ],
                }  # fmt: skip


def _entry(
    cells: Mapping[tuple[str, str], SeriesCell], at: tuple[str, str], row_key: tuple[str, str]
) -> Json:
    cell, base = cells.get(at), next(iter(cells.values()))
    base = next((each for each in cells.values() if not each.at), base)
    row, of_base = (
        next((r for r in merged_rows(each) if (r.op, r.tier) == row_key), None) if each else None
        for each in (cell, base)
    )
    if cell is None or row is None or row.p50_us is None:
        return {"p50_us": None, "ratio": None, "excluded": cell.excluded if cell else "not measured"}
    known = of_base is not None and of_base.p50_us and not cell.excluded and not base.excluded
    ratio = row.p50_us / of_base.p50_us if known and of_base and of_base.p50_us else None
    return {"p50_us": row.p50_us, "ratio": ratio, "excluded": cell.excluded}


def _bytes(series: Series) -> Iterator[Json]:
    """Of each cell and run: the bytes of its phase, from the clients to the log devices."""
    for cell in series.cells:
        for run in cell.runs:
            if run.bytes:
                moved = run.bytes
                values = (moved.clients, moved.nfs, moved.log_blocks, moved.log_devices, moved.log_models)
                yield {"cell": cell.name, "phase": cell.phase, "run": run.run, "values": values}


def _rows(series: Series) -> Iterator[Json]:
    """The one table: axes first."""
    for cell in series.cells:
        values = [series.value_of(cell, axis) for axis in series.axes]
        common = {
            "at": values, "phase": cell.phase, "again": cell.again, "link": _link(cell),
            "verdict": cell.verdict, "rate": rate_of(cell), "bytes_rate": bytes_rate_of(cell),
            "cpu": cpu_of(cell), "excluded": cell.excluded,
            "reasons": [reason for run in cell.runs for reason in run.reasons],
        }  # fmt: skip
        rows = merged_rows(cell)
        for row in rows:
            yield {**common, "row": row, "ratio": cell_ratio(series, cell, None, row)}
        if not rows:
            yield {**common, "row": None, "ratio": None}
