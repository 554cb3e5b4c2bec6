"""Latency of forced writes over the size of a write, of one device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kit.core.units import format_binary_bytes, format_latency
from kit.store.parts.forces import Latencies
from kit.store.printed.slog import DSYNC, FLUSHED, SlogTest
from reports.features.slog.rows import identity, quantiles, state
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Trace
from reports.figures.text import plotly_text

_HEIGHT_PX = 420
# Of each line: its name, the method, a part of the group, and the hue of a tier.
_LINES = (
    ("write alone", FLUSHED, "write", "dram"), ("FLUSH after it", FLUSHED, "force", "l2arc"),
    ("write and FLUSH", FLUSHED, "group", "pool"), ("O_DSYNC", DSYNC, "group", "slog"),
)  # fmt: skip
# Each n-th size has its name below the axis.
_NAMED = 2
_Points = list[tuple[int, dict[str, float | None]]]


def by_size(test: SlogTest) -> Figure:
    """A line of p50 for each part of a forced write, dotted of p99 where there are enough writes."""
    lines = [(name, tier, _points(test, method, part)) for name, method, part, tier in _LINES
             if part != "force" or test.flushes]  # fmt: skip
    traces = [trace for name, tier, points in lines for trace in _traces(name, tier, points)]
    seen = [us for _, _, points in lines for _, found in points for us in found.values() if us]
    sizes = sorted({size for _, _, points in lines for size, _ in points})
    named = sizes[::_NAMED]
    layout = figure.layout(
        _HEIGHT_PX, {"l": 58, "r": 20, "t": 66, "b": 50}, dragmode=False,
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        xaxis={"type": "log", "title": {"text": "size of a write"}, "tickvals": named,
               "ticktext": [format_binary_bytes(size) for size in named]},
        yaxis=figure.latency_axis(min(seen, default=1) / 1.3e6, max(seen, default=1) * 1.5e-6),
    )  # fmt: skip
    keys = ("p50_us", "p99_us", "p999_us")
    table: list[list[Any]] = [["line", "bytes", *keys]]
    table += [[name, size, *(us[key] for key in keys)] for name, _, of in lines for size, us in of]
    return Figure(
        plotly_text(f"{test.device.name}: latency over the size of a write"), traces, layout,
        f"{identity(test)}, {state(test)}. One write at a time. Solid: p50; dotted: p99, where there are "
        "enough writes.",
        csv=table, narrow={"margin": {"l": 50, "r": 10, "t": 110}, "height": _HEIGHT_PX + 50},
    )  # fmt: skip


def _points(test: SlogTest, method: str, part: str) -> _Points:
    """Percentiles by size."""
    parts: list[tuple[int, Latencies | None]] = [
        (forces.record_bytes, getattr(forces, part)) for forces in test.by_size(method)
    ]
    return [(size, quantiles(latencies)) for size, latencies in parts if latencies]


def _traces(name: str, tier: str, points: Sequence[tuple[int, dict[str, float | None]]]) -> Iterator[Trace]:
    colour = palette.scale(tier)[1][1]
    for key, words in (("p50_us", "p50"), ("p99_us", "p99")):
        is_median = key == "p50_us"
        yield {
            "type": "scatter", "mode": "lines+markers" if is_median else "lines", "name": name,
            "x": [size for size, _ in points], "y": [us and us / 1e6 for us in (of[key] for _, of in points)],
            "meta": {"tier": tier}, "showlegend": is_median, "connectgaps": False,
            "line": {"color": colour, "width": 2.5 if is_median else 1.5,
                     "dash": "solid" if is_median else "dot"},
            "marker": {"size": 7, "color": colour},
            "customdata": [
                f"{name}, {format_binary_bytes(size)}: {words} {format_latency(us)}" if us else ""
                for size, us in ((size, of[key]) for size, of in points)
            ],
            "hovertemplate": "%{customdata}<extra></extra>",
        }  # fmt: skip
