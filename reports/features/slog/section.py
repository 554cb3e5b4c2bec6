"""The page's tables and curves of a bare device as a log device, and the sentence on its write cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit.core.units import format_binary_bytes, format_latency
from kit.store.manifest import Manifest
from kit.store.printed.slog import DSYNC, FLUSHED, SlogTest
from kit.store.summary import Summary
from reports.devices.slog import slog_tests
from reports.features.section import Section
from reports.features.slog import rows
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


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of a run with the phases of `hsp slog`."""
    if not summary.slog:
        return None
    told, tests = {row.device: row for row in summary.slog}, [*slog_tests(manifest)]
    devices = [
        {
            "name": f"{rows.identity(test)}, {rows.state(test)}", "told": told.get(test.device.name),
            "flushes": test.flushes, "sizes": [*rows.by_size(test)], "threads": [*rows.by_threads(test)],
            "idle": [*rows.idle(test)],
        }
        for test in tests
    ]  # fmt: skip
    values = {"devices": devices, "head": [*_head()], "threads_head": rows.THREADS_HEAD}
    return Section("slog", "As a log device", "slog/slog.html.j2", values, [*map(_curves, tests)])


def _head() -> Iterator[str]:
    """Each column with the name of its group, which a small screen shows beside the value."""
    group = ""
    for name in rows.HEAD:
        first, _, rest = name.partition("\n")
        group = first if rest else group
        yield f"{group} {rest or first}".strip()


def _curves(test: SlogTest) -> Figure:
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
    table: list[list[Any]] = [["line", "bytes", *rows.QUANTILES]]
    table += [[name, size, *(us[key] for key in rows.QUANTILES)] for name, _, of in lines for size, us in of]
    return Figure(
        plotly_text(f"{test.device.name}: latency over the size of a write"), traces, layout,
        f"{rows.identity(test)}, {rows.state(test)}. One write at a time. Solid: p50; dotted: p99, where "
        "there are enough writes.",
        csv=table, narrow={"margin": {"l": 50, "r": 10, "t": 110}, "height": _HEIGHT_PX + 50},
    )  # fmt: skip


def _points(test: SlogTest, method: str, part: str) -> _Points:
    """Percentiles by size."""
    parts = ((forces.record_bytes, getattr(forces, part)) for forces in test.by_size(method))
    return [(size, rows.quantiles(latencies)) for size, latencies in parts if latencies]


def _traces(name: str, tier: str, points: _Points) -> Iterator[Trace]:
    colour, sizes = palette.line(tier), [size for size, _ in points]
    for key, words in (("p50_us", "p50"), ("p99_us", "p99")):
        is_median, values = key == "p50_us", [of[key] for _, of in points]
        yield {
            "type": "scatter", "mode": "lines+markers" if is_median else "lines", "name": name,
            "x": sizes, "y": [us and us / 1e6 for us in values],
            "meta": {"tier": tier}, "showlegend": is_median, "connectgaps": False,
            "line": {"color": colour, "width": 2.5 if is_median else 1.5,
                     "dash": "solid" if is_median else "dot"},
            "marker": {"size": 7, "color": colour},
            "customdata": [
                f"{name}, {format_binary_bytes(size)}: {words} {format_latency(us)}" if us else ""
                for size, us in zip(sizes, values, strict=True)
            ],
            "hovertemplate": "%{customdata}<extra></extra>",
        }  # fmt: skip
