"""report.html: one file that needs nothing else, drawn from manifest, latency and summary."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from kit.core.errors import ConfigError
from kit.store.manifest import Manifest
from reports.analysis import import_source, references
from reports.analysis.summary import SERVER
from reports.figures import ageing, encoding, event_marks, heat_map, layer_figures, range_figure, tier_figures
from reports.figures import heat_map_data as cells
from reports.figures.text import safe
from reports.page import filters

Json = dict[str, Any]
_HERE = Path(__file__).parent
# In this order in one script: each uses what is above it.
_SCRIPTS = ("cells.js", "picture.js", "figure.js", "controls.js", "report.js")


def render(latency: pl.DataFrame, manifest: Manifest, summary: Json, aged: pl.DataFrame | None = None) -> str:
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


def _render(latency: pl.DataFrame, manifest: Manifest, summary: Json, aged: pl.DataFrame | None) -> str:
    collected = _Figures()
    reference = references.of_summary(summary)
    stored = manifest.as_json()
    listed = [event_marks.with_those_of_the_run(p, stored) for p in stored.get("phases", [])]
    phases = [_phase(latency, p, summary, manifest, collected) for p in listed]
    server = [r for r in summary["rows"] if r["layer"] == SERVER]
    ranged = server or summary["rows"]
    load = ", ".join(dict.fromkeys(p["load"] for p in phases))
    ranges = range_figure.ranges(ranged, reference, load)
    spec = {"title": "Ranges", "figure": ranges, "csv": range_figure.table(ranged)}
    drawn = collected.add(spec, ranges["layout"]["height"], _overview_caption(ranged), "overview")
    mark = "Verdict unknown" if summary["verdict"] == "unknown" else ""
    found = ageing.figures(aged, mark) if aged is not None and aged.height else []
    curves = [collected.add(f.spec, f.height, f.caption, "overview") for f in found]
    return _template().render(
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
        plotly=_plotly(),
        script=Markup("".join((_HERE / "js" / name).read_text("utf-8") for name in _SCRIPTS)),
        # htmlsafe_json_dumps has written every <, > and & as \\u00..: nothing can end the script.
        blocks=[*collected.blocks, *((f"{f['id']}-data", f["json"]) for f in collected.all)],
    )


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.ChainableUndefined,
    )
    environment.filters.update({f.__name__: f for f in filters.ALL})
    return environment.get_template("page.html.j2")


@functools.cache
def _plotly() -> str:
    """plotly.js, deflated: two fifths of its size."""
    return encoding.packed(get_plotlyjs().encode())


class _Figures:
    """The figures of a page, numbered, and the cells that they are drawn from."""

    def __init__(self) -> None:
        self.all: list[Json] = []
        self.blocks: list[tuple[str, Markup]] = []

    def cells(self, block: Json) -> str:
        """Keep the cells of a phase and layer; the name under which figures find them."""
        name = f"cells-{len(self.blocks) + 1}"
        self.blocks.append((name, htmlsafe_json_dumps(block)))
        return name

    def add(self, spec: Json, height: int, caption: str, kind: str) -> Json:
        entry = {
            "id": f"figure-{len(self.all) + 1}",
            "caption": caption,
            "kind": kind,
            "height": height,
            "title": spec["title"],
            "json": htmlsafe_json_dumps(spec),
        }
        self.all.append(entry)
        return entry


def packed(figure: Any) -> Markup:
    """A Plotly figure as JSON for a page's script, the cells of its heat maps deflated.

    Most cells are empty: that makes them several times smaller.
    """
    plain = json.loads(figure.to_json())
    for trace in plain["data"]:
        if trace["type"] == "heatmap":
            cells = base64.b64decode(trace["z"].pop("bdata"))
            trace["z"]["deflated"] = base64.b64encode(zlib.compress(cells, 9)).decode()
    return htmlsafe_json_dumps(plain)


def _phase(
    latency: pl.DataFrame, phase: Json, summary: Json, manifest: Manifest, collected: _Figures
) -> Json:
    name = import_source.name(manifest, phase)
    load = load_of(phase, manifest)
    common = {
        "phase": str(phase["name"]),
        "load": safe(load),
        "mark": " - verdict unknown" if summary["verdict"] == "unknown" else "",
    }
    others = list(layer_figures.views(latency, phase, manifest, load))
    expected = [str(t) for t in phase.get("expected_tiers") or phase.get("tiers") or []]
    rows = {r["tier"]: r for r in tier_figures.server_rows(summary, phase)}
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
                view.block, view.frame, row, f"{spec['title']}: {row['tier']}, linear"
            )
            drawn.append(
                collected.add({**spec, **zoom}, zoom["height"], f"Only I/Os from {row['tier']}.", "zoom")
            )
    missing = set() if manifest.import_ else set(expected) - set(rows)
    return {**phase, "title": name, "figures": drawn, "load": load, "missing": missing}


def _tiers_of(view: layer_figures.View, phase: Json, summary: Json) -> list[Json]:
    """The summary's rows of the tiers of a view of the server, where the files tell tiers."""
    rows = [
        r for r in tier_figures.server_rows(summary, phase) if (r["layer"], r["op"]) == (view.layer, view.op)
    ]
    return [r for r in rows if r["tier"] != "all"]


def _server(
    latency: pl.DataFrame, phase: Json, tiers: Sequence[str], rows: Json, common: Json, collected: _Figures
) -> list[Json]:
    """The figures of a server that was traced: all tiers together, their percentiles, and each alone."""
    name, load = common["name"], common["load"]
    server = tier_figures.phase_frame(latency, phase, SERVER)
    words = tier_figures.columns_words(heat_map.columns(phase, server))
    block = cells.block(server, phase)
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
            out = f" {hidden} of {rows[tier]['count']} I/Os are above what is shown." if hidden else ""
            lines = " The dashed lines are the published range." if rows[tier].get("published") else ""
            caption = f"{load}. Only I/Os from {tier}, latency linear from 0. {words}{lines}{out}"
            drawn.append(collected.add({**zoom, **at_server}, zoom["height"], caption, "zoom"))
    return drawn


def _lines(spec: Json, name: str, collected: _Figures) -> Json:
    """Percentiles over time of the heat map `spec`."""
    title = safe(f"{name}: percentiles over time")
    caption = (
        f"{spec['load']}. Of the tiers that are ticked, together. A line has a gap where the I/Os are too "
        "few for a bound on the percentile; a longer interval takes more of them together."
    )
    return collected.add({**spec, "title": title, "lines": True, "height": 380}, 380, caption, "lines")


def _left_out(block: Json) -> str:
    number = block["events_ignored"]
    return f" {number} events are damaged or too many and left out." if number else ""


def _overview_caption(rows: Sequence[Json]) -> str:
    where = " and ".join(dict.fromkeys(import_source.LAYERS.get(r["layer"], str(r["layer"])) for r in rows))
    words = f"95 % of the I/O at the {where or 'NFS server'} lie within the blue bar"
    words += "; the published range is below it." if any(r.get("published") for r in rows) else "."
    small = range_figure.too_small(rows)
    if small:
        words += (
            f" On the linear side {', '.join(small)} would be less than a pixel wide: "
            "the outline alone is what can be seen."
        )
    return words


def load_of(phase: Json, manifest: Manifest) -> str:
    """How many I/Os were outstanding, in words."""
    if manifest.import_:
        return "Load not recorded"
    outstanding = phase.get("outstanding")
    if isinstance(outstanding, int):
        return f"Closed loop, {outstanding} outstanding"
    return (manifest.load or "Load not recorded").capitalize()


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
