"""The page's curves of caches that get warm: which tier answered which share of the reads over time."""

from __future__ import annotations

from typing import Any

from kit.core.units import format_percent
from kit.store.labels import TIERS, tier_name
from kit.store.manifest import Manifest
from kit.store.parts.resource_use import CacheLife
from kit.store.summary import Summary
from reports.features.cache_life.judge import sentences
from reports.features.section import Section
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text, round_up
from reports.published import references

_HEIGHT_PX = 380
_MIB, _GIB = 1 << 20, 1 << 30


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of a run with phases in which the caches were watched."""
    if not summary.caches:
        return None
    titles = {phase.name: phase.title or phase.name for phase in manifest.phases}
    published = references.gain_of(summary.reference.name) if summary.reference else ""
    values = {"sentences": [*sentences(summary), *filter(None, [published])]}
    figures = [curve(each, titles.get(each.phase, each.phase)) for each in summary.caches]
    return Section("caches", "How caches get warm", "cache_life/cache-life.html.j2", values, figures)


def curve(life: CacheLife, title: str) -> Figure:
    """Bars of shares, a window each; a line of the bytes in the L2ARC, on an axis of its own."""
    tiers = [tier for tier in TIERS if any(tier in each.shares for each in life.points)]
    middles = [each.at_s + life.window_s / 2 for each in life.points]
    traces: list[Trace] = [
        {
            "type": "bar", "name": plotly_text(tier_name(tier)), "x": middles, "width": life.window_s,
            "y": [each.shares.get(tier, 0.0) for each in life.points], "meta": {"tier": tier, "pale": True},
            "marker": {"color": palette.HUES["light"]["classic"][tier][0], "line": {"width": 0}},
            "hovertemplate": "%{fullData.name}: %{y:.1%} at %{x:.1f} s<extra></extra>",
        }
        for tier in tiers
    ]  # fmt: skip
    most = max(each.l2arc_bytes for each in life.points)
    unit, name = (_GIB, "GiB") if most >= _GIB else (_MIB, "MiB")
    end_s = life.points[-1].at_s + life.window_s
    traces.append({
        "type": "scatter", "mode": "lines", "name": f"in the L2ARC ({name})", "yaxis": "y2",
        "x": [each.at_s + life.window_s for each in life.points],
        "y": [each.l2arc_bytes / unit for each in life.points], "meta": {"ink": True},
        "line": {"color": palette.PAGE_LIGHT["ink"], "width": 2},
        "hovertemplate": f"%{{y:.3~g}} {name} in the L2ARC at %{{x:.1f}} s<extra></extra>",
    })  # fmt: skip
    meanwhile = [each for each in life.imports if each.begin_s >= 0]
    legend: Layout = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"}
    layout = figure.layout(
        _HEIGHT_PX, {"l": 52, "r": 58, "t": 62, "b": 44}, barmode="stack", bargap=0, dragmode=False,
        legend=legend, shapes=[_import(each.begin_s, each.end_s) for each in meanwhile],
        xaxis=figure.time_axis(end_s, showgrid=False),
        yaxis={"range": [0, 1], "tickformat": ".0%", "title": {"text": "of the reads"}},
        yaxis2={"overlaying": "y", "side": "right", "range": [0, round_up(1.1 * max(most, 1) / unit)],
                "showgrid": False, "title": {"text": name}},
    )  # fmt: skip
    table: list[list[Any]] = [["from_s", "ios", *tiers, "l2arc_bytes", "arc_bytes"]]
    for each in life.points:
        shares = (each.shares.get(tier, 0.0) for tier in tiers)
        table.append([each.at_s, each.ios, *shares, each.l2arc_bytes, each.arc_bytes])
    return Figure(
        f"{title}: who answers over time", traces, layout, _caption(life), csv=table,
        narrow={"margin": {"l": 44, "r": 48, "t": 104}, "height": _HEIGHT_PX + 40},
    )  # fmt: skip


def _import(begin_s: float, end_s: float) -> Layout:
    return {
        "type": "rect", "xref": "x", "yref": "paper", "x0": begin_s, "x1": end_s, "y0": 0, "y1": 1,
        "line": {"width": 0}, "fillcolor": palette.FAULT, "opacity": 0.25,
    }  # fmt: skip


def _caption(life: CacheLife) -> str:
    text = "One bar = the reads of a window, by the tier that answered. Line: what the L2ARC holds."
    if any(each.begin_s < 0 for each in life.imports):
        text += " Before its begin the server was restarted."
    if any(each.begin_s >= 0 for each in life.imports):
        text += " Red: the pool is exported and imported."
    ends = [each for each in life.reached if each.part in (0.5, 0.9)]
    if not (ends and life.settled):
        return text
    told = ", ".join(f"{format_percent(each.part)} of it after {each.at_s:.3g} s" for each in ends)
    return f"{text} Final share of the L2ARC: {format_percent(life.final_share)}; {told}."
