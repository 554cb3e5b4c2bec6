"""report.html: one file that needs nothing else, drawn from manifest, latency and summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import polars as pl

from kit.core.errors import ConfigError
from kit.store.manifest import Manifest
from kit.store.summary import Row, Summary
from kit.store.tables import SERVER
from reports.analysis import import_source, references
from reports.figures import ageing, heat_map, layer_figures, range_figure, tier_figures
from reports.figures.text import plotly_text
from reports.page import document
from reports.page.document import Figures

Json = dict[str, Any]


def render(
    latency: pl.DataFrame, manifest: Manifest, summary: Summary, aged: pl.DataFrame | None = None
) -> str:
    """The whole report as HTML; `aged` are the rows of ageing.parquet.

    Raises ConfigError if a part of the run is damaged.
    """
    try:
        return _render(latency, manifest, summary, aged)
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        jinja2.TemplateError,
    ) as error:
        raise ConfigError(
            f"manifest, latency or summary of the run is damaged ({type(error).__name__}: {error})",
            "make the summary anew with `hsp report`; what a run itself left damaged cannot be drawn",
        ) from error


def _render(latency: pl.DataFrame, manifest: Manifest, summary: Summary, aged: pl.DataFrame | None) -> str:
    collected = Figures()
    reference = references.of_summary(summary)
    stored = manifest.as_json()
    listed = [{**p.as_json(), "events": (*p.events, *manifest.events)} for p in manifest.phases]
    phases = [_phase(latency, p, summary, manifest, collected) for p in listed]
    server = summary.rows_of(SERVER)
    ranged = server or summary.rows
    load = ", ".join(dict.fromkeys(p["load"] for p in phases))
    drawn = collected.add_still(range_figure.ranges(ranged, reference, load), "overview")
    mark = "Verdict unknown" if summary.verdict == "unknown" else ""
    found = ageing.figures(aged, mark) if aged is not None and aged.height else []
    curves = [collected.add_still(figure, "overview") for figure in found]
    return document.render(
        "page.html.j2",
        collected,
        manifest=stored,
        summary=summary,
        reference=reference,
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
    load = tier_figures.load_of(phase, manifest)
    common = {
        "phase": str(phase["name"]),
        "load": plotly_text(load),
        "mark": " - verdict unknown" if summary.verdict == "unknown" else "",
    }
    others = list(layer_figures.views(latency, phase, manifest, load))
    expected = [str(t) for t in phase.get("expected_tiers") or phase.get("tiers") or []]
    rows = {r.tier: r for r in tier_figures.server_rows(summary, phase)}
    drawn = []
    # A phase without any I/O has its empty map, all the same.
    if not others or (rows and not manifest.import_):
        drawn = _server(latency, phase, [*expected, *rows], rows, {**common, "name": name}, collected)
    main = not drawn
    for view in others:
        spec = {
            **view.spec,
            **common,
            "layer": view.layer,
            "op": view.op,
            "cells": collected.cells(view.block),
            # Where there is no map of the server, they belong here.
            **({"events": True} if main else {}),
        }
        drawn.append(collected.add(spec, int(spec["height"]), view.caption + _left_out(view.block), "client"))
        if main and not view.histogram:
            drawn.append(_lines(spec, spec["title"], collected))
        for row in _tiers_of(view, phase, summary):
            zoom, _ = tier_figures.zoom_map(
                view.block, view.frame, row, f"{spec['title']}: {row.tier}, linear"
            )
            drawn.append(
                collected.add({**spec, **zoom}, zoom["height"], f"Only I/Os from {row.tier}.", "zoom")
            )
    missing = set() if manifest.import_ else set(expected) - set(rows)
    return {**phase, "title": name, "figures": drawn, "load": load, "missing": missing}


def _tiers_of(view: layer_figures.View, phase: Json, summary: Summary) -> list[Row]:
    """The summary's rows of the tiers of a view of the server, where the files tell tiers."""
    rows = [r for r in tier_figures.server_rows(summary, phase) if (r.layer, r.op) == (view.layer, view.op)]
    return [r for r in rows if r.tier != "all"]


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
    server = tier_figures.phase_frame(latency, phase, SERVER)
    words = tier_figures.columns_words(heat_map.columns(phase, server))
    block = heat_map.block(server, phase)
    op = " + ".join(server["op"].unique().sort())
    at_server = {**common, "layer": SERVER, "op": op, "cells": collected.cells(block)}
    spec = {**tier_figures.log_map(block, f"{name}: NFS server"), **at_server, "events": True}
    caption = (
        f"{load}. Latency at the NFS server. {words} The bars at the left are the average rate per row, of "
        "the range that is selected. The tier is what the kernel did for the request; by colour, where tiers "
        f"share a cell, the last of the list is seen.{_left_out(block)}"
    )
    drawn = [collected.add(spec, spec["height"], caption, "map"), _lines(spec, name, collected)]
    # The expected ones first; what else answered is shown as well.
    for tier in dict.fromkeys(tiers):
        if tier in rows:
            zoom, hidden = tier_figures.zoom_map(block, server, rows[tier], f"{name}: {tier}, linear")
            out = f" {hidden} of {rows[tier].count} I/Os are above what is shown." if hidden else ""
            lines = " The dashed lines are the published range." if rows[tier].published else ""
            caption = f"{load}. Only I/Os from {tier}, latency linear from 0. {words}{lines}{out}"
            drawn.append(collected.add({**zoom, **at_server}, zoom["height"], caption, "zoom"))
    return drawn


def _lines(spec: Json, name: str, collected: Figures) -> Json:
    """Percentiles over time of the heat map `spec`."""
    title = plotly_text(f"{name}: percentiles over time")
    caption = (
        f"{spec['load']}. Of the tiers that are ticked, together. A line has a gap where the I/Os are too "
        "few for a bound on the percentile; a longer interval takes more of them together."
    )
    return collected.add({**spec, "title": title, "lines": True, "height": 380}, 380, caption, "lines")


def _left_out(block: Json) -> str:
    number = block["events_ignored"]
    return f" {number} events are damaged or too many and left out." if number else ""


def _clock(manifest: Manifest) -> str:
    """One honest sentence about what the numbers stand for."""
    clock = manifest.clock
    dilation = clock.dilation if clock else 1
    parts = []
    if manifest.testbed.emulated:
        parts.append(
            "These numbers come from the lab: they show how the software path behaves with devices that are "
            "modelled with the latencies listed below, not what your hardware does"
        )
    else:
        parts.append("These numbers come from the hardware of the testbed below and hold for it alone")
    if clock and clock.kind == "virtual":
        parts.append("times are those of a virtual clock")
    if dilation != 1:
        parts.append(
            f"the experiment ran {dilation} times slower than shown, and all times are divided by it"
        )
    return "; ".join(parts) + "."
