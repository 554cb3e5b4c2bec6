"""A figure as Plotly has it, and what all figures of a page have in common.

A figure is made whole in Python: `plotly.graph_objects.Figure(data=..., layout=...)` opens it. figure.js
draws it in the colours of the page. Axes of latency are in seconds: Plotly then writes µs, ms and s, at every
zoom.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.core.units import format_latency
from kit.store.stored import Json
from reports.figures import palette
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text

# Zero has no logarithm: a bin that begins there is drawn from here on.
FLOOR_S = 1e-8


@dataclass(frozen=True)
class Figure:
    """`data` and `layout` as Plotly has them. `caption`: below it, in words.

    `cells`: the block of stored counts behind it (reports.figures.heat_map.block), by which figure.js answers
    a selected range, a zoom and the table that is saved. `link`: what figures with one time axis share, the
    phase.
    `about`: what scripts of the page need to know; "per" is what colours count by, where a script draws the
    map anew from its cells.
    `csv`: the table that is saved where there are no cells; the first row names the columns.
    `narrow`: the parts of the layout that a small screen has instead.
    """

    title: str
    data: list[Trace]
    layout: Layout
    caption: str = ""
    cells: Json | None = None
    link: str = ""
    about: Json = field(default_factory=lambda: {"per": ""})
    csv: list[list[Any]] = field(default_factory=list)
    narrow: Layout = field(default_factory=dict)

    @property
    def spec(self) -> Json:
        """For figure.js, but for its cells."""
        made = {
            "title": plotly_text(self.title), "data": self.data, "layout": self.layout, "narrow": self.narrow,
            "link": self.link, "about": self.about, "csv": self.csv,
        }  # fmt: skip
        # JSON has no infinities and no NaN: they become null, as Plotly writes them.
        spec: Json = json.loads(json.dumps(made), parse_constant=lambda name: None)
        return spec


def numbers(values: npt.NDArray[Any]) -> Trace:
    """An array as plotly.js reads it fastest (plotly.js, lib/array.js): its bytes, type and shape."""
    kind = {"float32": "f4", "float64": "f8", "int32": "i4"}[values.dtype.name]
    packed: Trace = {
        "dtype": kind,
        "bdata": base64.b64encode(np.ascontiguousarray(values).tobytes()).decode(),
    }
    if values.ndim > 1:
        packed["shape"] = ", ".join(map(str, values.shape))
    return packed


# Plotly leaves the unit out between the powers of ten of a logarithmic axis.
_BETWEEN = {
    f"{digit * power}{prefix}": f"{digit * power}{prefix}s"
    for prefix in ("n", "µ", "m", "")
    for power in (1, 10, 100)
    for digit in range(2, 10)
}


def latency_axis(low_s: float, high_s: float, **values: Any) -> Layout:
    """A logarithmic axis from `low_s` to `high_s` (seconds), with numbers at every zoom."""
    low, high = np.log10(max(low_s, FLOOR_S)), np.log10(max(high_s, 2 * FLOOR_S))
    return {
        "type": "log", "range": [float(low), float(high)], "tickformat": ".3~s", "ticksuffix": "s",
        "minor": {"ticks": "outside", "dtick": "D1"}, "nticks": 6, "labelalias": _BETWEEN, **values,
    }  # fmt: skip


def linear_axis(high_s: float, **values: Any) -> Layout:
    """An axis of latency from 0 to `high_s` (seconds)."""
    return {"type": "linear", "range": [0, high_s], "tickformat": ".3~s", "ticksuffix": "s", **values}


def time_axis(end_s: float, **values: Any) -> Layout:
    """An axis of seconds from 0 to `end_s`. From half an hour on figure.js labels it as h:mm."""
    return {"range": [0.0, end_s], "title": {"text": "h:mm" if end_s >= 1800 else "seconds"}, **values}


def error_bars(
    values: Sequence[float | None], ranges: Sequence[Sequence[float] | None], unit: float = 1.0
) -> Trace:
    """Bars from `ranges`' lower to their upper ends, both of `unit`; none where something is not known."""
    high, low = (
        [
            abs(ends[side] - value) / unit if value and ends else 0.0
            for value, ends in zip(values, ranges, strict=True)
        ]
        for side in (1, 0)
    )
    return {"type": "data", "array": high, "arrayminus": low, "thickness": 1.5, "width": 4}


def anchor(x: str = "x", y: str = "y") -> Trace:
    """Plotly lets nobody select on axes that have no points, nor draws axes that have no trace."""
    return {"type": "scatter", "x": [None], "y": [None], "xaxis": x, "yaxis": y, "showlegend": False,
            "hoverinfo": "skip"}  # fmt: skip


def panel_title(text: str, x: float, y: float) -> Layout:
    """The words above a panel whose upper left corner is at `x`, `y` (0 to 1, of the whole figure)."""
    return {
        "x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
        "showarrow": False, "align": "left", "text": text, "font": {"size": 13},
    }  # fmt: skip


def upright(x: float, dash: str, **values: Any) -> Layout:
    """The shape of a mark at `x`, over the whole height."""
    return {
        "type": "line", "xref": "x", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, **values,
        "line": {"color": palette.EVENTS[0], "width": 1.5, "dash": dash},
    }  # fmt: skip


def upright_name(text: str, x: float, y: float, side: str) -> Layout:
    """Its name beside `x` of a logarithmic axis, `y` (0 to 1) above the lower end. `side`: what is at `x`."""
    return {
        "xref": "x", "yref": "paper", "x": math.log10(x), "y": y, "yanchor": "bottom", "xanchor": side,
        "text": text, "showarrow": False, "font": {"size": 11}, "borderpad": 2,
    }  # fmt: skip


def published_band(span_s: Sequence[float]) -> list[Layout]:
    """The shapes of a published range on the axes x and y: translucent, its edges dotted."""
    common: Layout = {"xref": "x domain", "yref": "y", "x0": 0, "x1": 1, "layer": "below"}
    line = {"color": palette.PUBLISHED, "width": 1.2, "dash": "dot"}
    area = {
        **common, "type": "rect", "y0": max(span_s[0], FLOOR_S), "y1": span_s[1], "line": {"width": 0},
        "fillcolor": palette.PUBLISHED_FILL,
    }  # fmt: skip
    return [area, *({**common, "type": "line", "y0": v, "y1": v, "line": line} for v in span_s if v > 0)]


def limit_words(limit_us: float, name: str) -> str:
    """Such as "limit p99 150 µs"."""
    return plotly_text(f"limit {name} {format_latency(limit_us)}")


def limit_line(limit_us: float, axis: str = "x") -> Layout:
    """The shape of a limit that the workload declares."""
    return {
        "type": "line", "xref": f"{axis} domain", "yref": "y", "x0": 0, "x1": 1, "y0": limit_us / 1e6,
        "y1": limit_us / 1e6, "line": {"color": palette.FAULT, "width": 2},
    }  # fmt: skip


def limit_name(limit_us: float, name: str, *, log: bool) -> Layout:
    """Its name, below its line at the left, on a ground of its own: cells are behind it."""
    limit_s = limit_us / 1e6
    return {
        "xref": "x domain", "yref": "y", "x": 0, "y": float(np.log10(limit_s)) if log else limit_s,
        "xanchor": "left", "yanchor": "top", "showarrow": False, "text": limit_words(limit_us, name),
        "font": {"size": 11, "color": palette.FAULT}, "borderpad": 1,
    }  # fmt: skip


def published_name(text: str, high_s: float, *, log: bool) -> Layout:
    """The name of a published range, above its upper end at the right."""
    return {
        "xref": "x domain", "yref": "y", "x": 1, "y": float(np.log10(high_s)) if log else high_s,
        "xanchor": "right", "yanchor": "bottom", "showarrow": False, "text": plotly_text(text),
        "font": {"size": 10}, "borderpad": 1, "opacity": 0.9,
    }  # fmt: skip


def layout(height_px: int, margin: Layout, **values: Any) -> Layout:
    """Plotly's layout of a figure."""
    return {
        "template": palette.FOR_SCRIPTS["light"]["template"], "height": height_px, "autosize": True,
        "hovermode": "closest", "margin": margin, "bargap": 0, "barmode": "overlay",
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom",
                   "font": {"size": 11}}, **values,
    }  # fmt: skip
