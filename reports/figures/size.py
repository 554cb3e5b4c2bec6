"""Curves of `hsp size`: what caches answer over their size, with the range, the size of now, and the bend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from kit.core.units import format_binary_bytes
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text
from reports.size.curve import Size, Sizing
from reports.size.words import words

_BAND = "rgba(47, 128, 190, 0.22)"
_MOST_TICKS = 8


def figures(sizing: Sizing) -> Iterator[Figure]:
    """One of ARC sizes and one of L2ARC sizes, where there are figures for two sizes at least."""
    server = sizing.server
    arcs = [(each.arc, each) for each in sizing.arcs if each.answered]
    l2arcs = [(each.l2arc, each) for each in sizing.l2arcs if each.answered and each.l2arc]
    if len(arcs) > 1:
        bend = sizing.arc_knee.arc if sizing.arc_knee else None
        yield _figure("ARC", arcs, server.arc, bend)
    if len(l2arcs) > 1:
        bend = sizing.l2arc_knee.l2arc if sizing.l2arc_knee else None
        yield _figure("L2ARC", l2arcs, server.l2arc, bend)


def _figure(name: str, sizes: Sequence[tuple[int, Size]], now: int, bend: int | None) -> Figure:
    x = [size / 2**30 for size, _ in sizes]
    found = [each for _, each in sizes]
    low, high = ([getattr(each.answered, end) for each in found] for end in ("low", "high"))
    colour = palette.scale("l2arc")[1][1]
    both = [each.answered.value for each in found if each.answered]
    ends: Trace = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip", "line": {"width": 0}}
    traces: list[Trace] = [
        {**ends, "y": high, "showlegend": False},
        {**ends, "y": low, "fill": "tonexty", "fillcolor": _BAND, "name": "range of 95 %"},
        {"type": "scatter", "mode": "lines+markers", "x": x, "y": both, "name": "DRAM and L2ARC",
         "line": {"color": colour, "width": 2.5}, "marker": {"size": 7, "color": colour},
         "meta": {"tier": "l2arc"}, "customdata": [_hover(size, each) for size, each in sizes],
         "hovertemplate": "%{customdata}<extra></extra>"},
        {"type": "scatter", "mode": "lines", "x": x, "name": "DRAM alone", "hoverinfo": "skip",
         "y": [each.dram.value if each.dram else None for each in found], "meta": {"tier": "dram"},
         "line": {"color": palette.scale("dram")[1][1], "width": 2, "dash": "dash"}},
    ]  # fmt: skip
    if not any(each.l2 and each.l2.value > 0 for each in found):
        del traces[3]
        traces[2] |= {"name": "DRAM", "meta": {"tier": "dram"}}
    return Figure(
        f"Reads answered by the caches, over the size of the {name}", traces, _layout(sizes, now, bend),
        "Share of all reads that do not reach the disks. Band: range of 95 %.", csv=_csv(sizes),
        about={"per": ""}, narrow={"margin": {"l": 46, "r": 10}, "xaxis": {"nticks": 4}},
    )  # fmt: skip


def _layout(sizes: Sequence[tuple[int, Size]], now: int, bend: int | None) -> Layout:
    shown = sizes[:: math.ceil(len(sizes) / _MOST_TICKS)]
    ends = [math.log10(size / 2**30) for size, _ in (sizes[0], sizes[-1])]
    margin = 0.03 * (ends[1] - ends[0])
    made = figure.layout(
        400, {"l": 52, "r": 20, "t": 40, "b": 50}, shapes=[], annotations=[],
        yaxis={"range": [0, 1.02], "tickformat": ".0%"},
        xaxis={
            "type": "log", "range": [ends[0] - margin, ends[1] + margin],
            "tickvals": [size / 2**30 for size, _ in shown],
            "ticktext": [format_binary_bytes(size) for size, _ in shown],
        },
    )  # fmt: skip
    for text, size, dash, side in (("now", now, "solid", "left"), ("bends here", bend, "dot", "right")):
        if size and sizes[0][0] <= size <= sizes[-1][0]:
            gib = size / 2**30
            made["shapes"].append({
                "type": "line", "xref": "x", "yref": "paper", "x0": gib, "x1": gib, "y0": 0, "y1": 1,
                "line": {"color": palette.EVENTS[0], "width": 1.5, "dash": dash},
            })  # fmt: skip
            made["annotations"].append({
                "xref": "x", "yref": "paper", "x": math.log10(gib), "y": 0.02, "xanchor": side,
                "yanchor": "bottom", "text": text, "showarrow": False, "font": {"size": 11}, "borderpad": 2,
            })  # fmt: skip
    return made


def _hover(size: int, each: Size) -> str:
    assert each.answered, "only known sizes are drawn"
    share = (
        f"{100 * each.answered.value:.1f} % ({100 * each.answered.low:.1f} to {100 * each.answered.high:.1f})"
    )
    gain = f"<br>{words(each.gain)} of the reads that disks answer now" if each.gain else ""
    return plotly_text(f"{format_binary_bytes(size)}: {share}", 200) + gain


def _csv(sizes: Sequence[tuple[int, Size]]) -> list[list[Any]]:
    rows: list[list[Any]] = [["bytes", "answered", "low", "high", "dram"]]
    for size, each in sizes:
        if each.answered and each.dram:
            rows.append([size, each.answered.value, each.answered.low, each.answered.high, each.dram.value])
    return rows
