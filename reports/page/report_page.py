"""report.html: one file that needs nothing else, drawn from manifest, latency and summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from kit.store.manifest import Manifest
from kit.store.stored import Json
from kit.store.summary import Row, Summary
from kit.store.tables import SERVER
from reports.analysis import import_source
from reports.figures import ageing, heat_map, map_figures, range_figure
from reports.figures.text import plotly_text
from reports.page import document
from reports.page.document import Figures


@document.damage_refused(
    "manifest, latency or summary of the run",
    "make the summary anew with `hsp report`; what a run itself left damaged cannot be drawn",
)
def render(
    latency: pl.DataFrame, manifest: Manifest, summary: Summary, aged: pl.DataFrame | None = None
) -> str:
    """The whole report as HTML; `aged` are the rows of ageing.parquet.

    Raises ConfigError if a part of the run is damaged.
    """
    collected = Figures()
    stored = manifest.as_json()
    listed = [{**p.as_json(), "events": (*p.events, *manifest.events)} for p in manifest.phases]
    phases = [_phase(latency, p, summary, manifest, collected) for p in listed]
    server = summary.rows_of(SERVER)
    ranged = server or summary.rows
    load = ", ".join(dict.fromkeys(p["load"] for p in phases))
    drawn = collected.add_still(range_figure.ranges(ranged, summary.reference, load), "overview")
    mark = "Verdict unknown" if summary.verdict == "unknown" else ""
    aged_figures = ageing.figures(aged, mark) if aged is not None and aged.height else []
    curves = [collected.add_still(figure, "overview") for figure in aged_figures]
    return document.render(
        "page.html.j2",
        collected,
        manifest=stored,
        summary=summary,
        reference=summary.reference,
        overview=drawn,
        phases=phases,
        ageing=curves,
        title=import_source.title(manifest),
        imported=stored.get("import"),
        sentences=import_source.sentences(manifest.import_, latency) if manifest.import_ else [],
        timed=import_source.timed(manifest),
        unseen=stored.get("appliance"),
        traced=bool(server),
        sentence=_clock(manifest),
    )


def _phase(
    latency: pl.DataFrame, phase: Json, summary: Summary, manifest: Manifest, collected: Figures
) -> Json:
    name = import_source.name(manifest, phase)
    load = map_figures.load_of(phase, manifest)
    common = {
        "phase": str(phase["name"]),
        "load": plotly_text(load),
        "mark": " - verdict unknown" if summary.verdict == "unknown" else "",
    }
    others = list(map_figures.views(latency, phase, manifest, load))
    expected = [str(t) for t in phase.get("expected_tiers") or phase.get("tiers") or []]
    rows = {r.tier: r for r in map_figures.server_rows(summary, phase)}
    drawn = []
    # A phase without any I/O has its empty map, all the same.
    if not others or (rows and not manifest.import_):
        drawn = _server(latency, phase, [*expected, *rows], rows, {**common, "name": name}, collected)
    main = not drawn
    for view in others:
        # Where there is no map of the server, the events belong here.
        spec = {**view.spec, **common, "cells": collected.cells(view.block), "events": main}
        title, layer, op = spec["title"], spec["layer"], spec["op"]
        drawn.append(collected.add(spec, view.caption + _left_out(view.block), "client"))
        if main and not spec["histogram"]:
            drawn.append(_lines(spec, title, collected))
        for row in map_figures.server_rows(summary, phase):
            if (row.layer, row.op) == (layer, op) and row.tier != "all":
                words = f"{title}: {row.tier}, linear"
                zoom, _ = map_figures.zoom_map(view.block, view.frame, row, words)
                drawn.append(collected.add({**spec, **zoom}, f"Only I/Os from {row.tier}.", "zoom"))
    missing = set() if manifest.import_ else set(expected) - set(rows)
    return {**phase, "title": name, "figures": drawn, "load": load, "missing": missing}


def _server(
    latency: pl.DataFrame,
    phase: Json,
    tiers: Sequence[str],
    rows: Mapping[str, Row],
    common: Json,
    collected: Figures,
) -> list[Json]:
    """The figures of a server that was traced: all tiers together, their percentiles, and each alone."""
    name, load = common["name"], common["load"]
    server = map_figures.phase_frame(latency, phase, SERVER)
    block = heat_map.block(server, phase)
    cell = map_figures.cell_text(block)
    op = " + ".join(server["op"].unique().sort())
    at_server = {**common, "layer": SERVER, "op": op, "cells": collected.cells(block)}
    spec = {**map_figures.log_map(block, f"{name}: NFS server"), **at_server, "events": True}
    caption = (
        f"{load}. Latency at the NFS server. {cell} The bars at the left are the average rate per row, of "
        "the range that is selected. The tier is what the kernel did for the request; by colour, where tiers "
        f"share a cell, the last of the list is seen.{_left_out(block)}"
    )
    drawn = [collected.add(spec, caption, "map"), _lines(spec, name, collected)]
    # The expected ones first; what else answered is shown as well.
    for tier in dict.fromkeys(tiers):
        if tier in rows:
            zoom, hidden = map_figures.zoom_map(block, server, rows[tier], f"{name}: {tier}, linear")
            out = f" {hidden} of {rows[tier].count} I/Os are above what is shown." if hidden else ""
            lines = " The dashed lines are the published range." if rows[tier].published else ""
            caption = f"{load}. Only I/Os from {tier}, latency linear from 0. {cell}{lines}{out}"
            drawn.append(collected.add({**zoom, **at_server}, caption, "zoom"))
    return drawn


def _lines(spec: Json, name: str, collected: Figures) -> Json:
    """Percentiles over time of the heat map `spec`."""
    title = plotly_text(f"{name}: percentiles over time")
    caption = (
        f"{spec['load']}. Of the tiers that are ticked, together. A line has a gap where the I/Os are too "
        "few for a bound on the percentile; a longer interval takes more of them together."
    )
    return collected.add({**spec, "title": title, "lines": True, "height": 380}, caption, "lines")


def _left_out(block: Json) -> str:
    number = block["events_ignored"]
    return f" {number} events are damaged or too many and left out." if number else ""


def _clock(manifest: Manifest) -> str:
    """A sentence about the machines and the clock that the numbers come from."""
    lab = (
        "These numbers come from the lab: they show how the software path behaves with devices that are "
        "modelled with the latencies listed below, not what your hardware does"
    )
    hardware = "These numbers come from the hardware of the testbed below and hold for it alone"
    text, clock = lab if manifest.testbed.emulated else hardware, manifest.clock
    if clock and clock.kind == "virtual":
        text += "; times are those of a virtual clock"
    if clock and clock.dilation != 1:
        text += (
            f"; the experiment ran {clock.dilation} times slower than shown, and all times are divided by it"
        )
    return text + "."
