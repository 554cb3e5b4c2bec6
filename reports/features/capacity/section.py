"""The page's curve of an open loop, percentiles over the rate, and the table of its rates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit.core.units import commas, format_latency
from kit.store.load.open_loop import CapacityRow
from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.capacity.judge import sentences
from reports.features.section import Section
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text

_HEIGHT_PX = 420
# Hues that stay apart for every eye, from the quick to the slow.
_LINES = (("p50", "p50_us", "dram"), ("p99", "p99_us", "l2arc"), ("p99.9", "p999_us", "pool"))


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of a run with phases with `open`."""
    if not summary.capacity:
        return None
    titles = {phase.name: phase.title or phase.name for phase in manifest.phases}
    figures = [
        curve(row, titles.get(row.phase, row.phase)) for row in summary.capacity if len(row.points) > 1
    ]
    values = {"sentences": sentences(summary.capacity)}
    return Section("capacity", "Latency over the rate", "capacity/capacity.html.j2", values, figures)


def curve(row: CapacityRow, title: str) -> Figure:
    """A line for each percentile, dashed from the actual start; the limit, the answer and the knee."""
    # Of a rate that was confirmed, the looks that did so: they come after the others.
    row = row.model_copy(update={"points": tuple({each.rate_per_s: each for each in row.points}.values())})
    traces = [*_lines(row, "", ""), *_lines(row, "actual_", ", actual start")]
    seen = [us for each in row.points for _, key, _ in _LINES
            for us in (getattr(each, key), getattr(each, f"actual_{key}")) if us]  # fmt: skip
    known = [(each, text) for each, text in ((row.rate_per_s, "keeps"), (row.knee_per_s, "knee")) if each]
    marks = [
        (rate, f"{text} {commas(rate)}", "dot" if number else "solid", 0.02 + 0.07 * number)
        for number, (rate, text) in enumerate(known)
    ]
    limits: list[Layout] = [figure.limit_line(row.limit_us)] if row.limit_us else []
    names = [figure.limit_name(row.limit_us, "p99", log=True)] if row.limit_us else []
    edges = seen + ([row.limit_us] if row.limit_us else [])
    layout = figure.layout(
        _HEIGHT_PX, {"l": 58, "r": 20, "t": 66, "b": 50}, dragmode=False,
        shapes=[*limits, *(figure.upright(rate, dash) for rate, _, dash, _ in marks)],
        annotations=[*names, *(figure.upright_name(text, rate, y, "right") for rate, text, _, y in marks)],
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        xaxis={"type": "log", "title": {"text": f"{row.op}s a second, asked for"}, "nticks": 6,
               "tickformat": ",.3~s"},
        yaxis=figure.latency_axis(min(edges, default=1) / 1.3e6, max(edges, default=1) * 1.5e-6),
    )  # fmt: skip
    keys = ["rate_per_s", "ios", *(key for _, key, _ in _LINES), *(f"actual_{key}" for _, key, _ in _LINES)]
    table: list[list[Any]] = [keys, *([getattr(each, key) for key in keys] for each in row.points)]
    return Figure(
        plotly_text(f"{title}: latency over the rate"), traces, layout, _caption(row), csv=table,
        narrow={"margin": {"l": 50, "r": 10, "t": 110}, "height": _HEIGHT_PX + 50},
    )  # fmt: skip


def _lines(row: CapacityRow, prefix: str, of: str) -> Iterator[Trace]:
    """A line a percentile, of the keys that begin with `prefix`; "" has the intended start."""
    rates = [each.rate_per_s for each in row.points]
    for name, key, tier in _LINES:
        us = [getattr(each, prefix + key) for each in row.points]
        colour = palette.line(tier)
        yield {
            "type": "scatter", "mode": "lines" if prefix else "lines+markers", "name": f"{name}{of}",
            "x": rates, "y": [each and each / 1e6 for each in us], "meta": {"tier": tier},
            "line": {"color": colour, "width": 1.5 if prefix else 2.5, "dash": "dot" if prefix else "solid"},
            "marker": {"size": 7, "color": colour}, "connectgaps": False,
            "customdata": [
                f"{name}{of} {format_latency(each)} at {commas(rate)} a second" if each else ""
                for each, rate in zip(us, rates, strict=True)
            ],
            "hovertemplate": "%{customdata}<extra></extra>",
        }  # fmt: skip


def _caption(row: CapacityRow) -> str:
    text = (
        "Solid: from the start that the schedule has. Dotted: from the start that the I/O had, as fio and "
        "closed loops measure; the distance is the time that I/Os waited to be sent (coordinated omission)."
    )
    knee = (
        f" Knee: from {commas(row.knee_per_s)} a second on p99 has more than doubled."
        if row.knee_per_s
        else ""
    )
    return text + knee
