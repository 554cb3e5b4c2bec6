"""The page's bars and table of the parts of requests: where the time went, from the first to the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kit.core.units import format_latency
from kit.store.labels import tier_name
from kit.store.manifest import Manifest
from kit.store.parts.split import Part, SplitPhase, SplitTier
from kit.store.summary import Summary
from reports.features.section import Section
from reports.features.split.judge import MOST_OBSERVED, WORDS, sentences
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text

# A bar with two lines of text above it.
_ROW_PX, _LEGEND_PX, _NARROW_LEGEND_PX = 74, 104, 240
_BAR = 0.32


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of a run with phases that have split_of."""
    if not summary.split:
        return None
    values = {"sentences": [*sentences(summary.split)], "words": WORDS, "most_observed": MOST_OBSERVED}
    drawn = bars(summary.split, {phase.name: phase.title or "" for phase in manifest.phases})
    return Section("why-slow", "Why it is slow", "split/split.html.j2", values, [drawn] if drawn else [])


def bars(phases: Sequence[SplitPhase], titles: Mapping[str, str]) -> Figure | None:
    """The mean request of each tier, by its parts; None if no phase has parts. `titles`: of phases."""
    shown = [(phase, tier) for phase in phases for tier in phase.tiers if tier.parts]
    if not shown:
        return None
    # The first bar above.
    rows = shown[::-1]
    tiers = [tier for _, tier in rows]
    traces = [
        _trace(part, tiers)
        for part in WORDS
        if any(each.part == part for tier in tiers for each in tier.parts)
    ]
    words = [
        {"x": 0, "y": place + _BAR / 2 + 0.02, "xref": "x", "yref": "y", "xanchor": "left",
         "yanchor": "bottom", "align": "left", "showarrow": False, "borderpad": 0, "font": {"size": 12},
         "text": f"<b>{tier.op}s, {plotly_text(tier_name(tier.tier))}: mean "
                 f"{format_latency(tier.mean_us)}</b><br>{plotly_text(_title(phase, titles))}"}
        for place, (phase, tier) in enumerate(rows)
    ]  # fmt: skip
    legend: Layout = {
        "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "traceorder": "normal",
        "font": {"size": 11},
    }  # fmt: skip
    layout = figure.layout(
        _LEGEND_PX + _ROW_PX * len(rows), {"l": 16, "r": 26, "t": 58, "b": 44}, barmode="stack",
        dragmode=False, annotations=words, legend=legend,
        xaxis={"range": [0, 1], "tickformat": ".0%", "title": {"text": "of the mean latency"},
               "fixedrange": True},
        yaxis={"range": [-0.4, len(rows) - 0.15], "visible": False, "fixedrange": True},
    )  # fmt: skip
    table: list[list[Any]] = [["phase", "op", "tier", "ios", "mean_us", "part", "part_mean_us", "share"]]
    for phase, tier in shown:
        head = [phase.phase, tier.op, tier.tier, tier.ios, tier.mean_us]
        table += [[*head, each.part, each.mean_us, each.share] for each in tier.parts]
    return Figure(
        "Where the time of a request goes", traces, layout,
        "One bar = mean request of a tier (not p50). Warm: device. Cold: software.",
        csv=table,
        narrow={"margin": {"l": 10, "r": 26, "t": 194}, "height": _NARROW_LEGEND_PX + _ROW_PX * len(rows)},
    )  # fmt: skip


def _title(phase: SplitPhase, titles: Mapping[str, str]) -> str:
    """That of the phase with the same load, by which people know it, and the name of its own."""
    return f"{titles.get(phase.of) or phase.of} ({phase.phase})"


def _trace(part: Part, tiers: Sequence[SplitTier]) -> Trace:
    of = [next((each for each in tier.parts if each.part == part), None) for tier in tiers]
    colour, hatched = palette.PARTS[part]
    return {
        "type": "bar", "orientation": "h", "name": WORDS[part], "y": list(range(len(tiers))), "width": _BAR,
        "x": [each.share if each else 0 for each in of],
        "marker": {"color": colour, "line": {"width": 0},
                   "pattern": {"shape": "/" if hatched else "", "size": 6}},
        "customdata": [format_latency(each.mean_us) if each else "" for each in of],
        "hovertemplate": "%{fullData.name}: %{customdata}, %{x:.1%}<extra></extra>",
    }  # fmt: skip
