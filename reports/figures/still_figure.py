"""A figure that is made whole in Python: what it consists of, and what all have in common.

Axes of latency are in microseconds. still.js draws it, in the colours of the page. Figures are made as
plotly.js reads them: to import Plotly's own classes and to make figures of them takes as long as all else of
a report.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kit.core.units import format_latency
from kit.store.stored import Json
from reports.figures.palette import LIGHT
from reports.figures.text import plotly_text, round_up

TICKS = [(10.0**e, label) for e, label in zip(
    range(-2, 8),
    ("10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"),
    strict=True,
)]  # fmt: skip


@dataclass(frozen=True)
class StillFigure:
    """`data` and `layout` as Plotly has them; `csv`: what is saved, the first row names the columns.

    `blocks`: the cells that its heat maps are filled from (reports.figures.heat_map).
    """

    title: str
    data: list[Json]
    layout: Json
    caption: str = ""
    csv: list[list[Any]] = field(default_factory=list)
    blocks: list[Json] = field(default_factory=list)

    @property
    def spec(self) -> Json:
        """For still.js, but for the names of its blocks."""
        text = json.dumps({"data": self.data, "layout": self.layout})
        # JSON has no infinities and no NaN: they become null, as Plotly writes them.
        figure = json.loads(text, parse_constant=lambda name: None)
        return {"title": plotly_text(self.title), "figure": figure, "csv": self.csv}


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Ticks of a logarithmic axis from `low` to `high` microseconds: at least three, few where it is long.

    The powers of ten alone, unless the axis is too narrow for three of them.
    """
    powers = [t for t in TICKS if low <= t[0] <= high]
    if len(powers) >= 3:
        return powers
    for digits in ((1, 3), (1, 2, 5)):
        values = [power * digit for power, _ in TICKS for digit in digits]
        shown = [(v, format_latency(v)) for v in values if low <= v <= high]
        if len(shown) >= 3:
            return shown
    step = round_up((high - low) / 6)
    values = [step * n for n in range(int(np.ceil(low / step)), int(high / step) + 1)]
    return [(v, format_latency(v)) for v in values if low <= v <= high]


def axis(**values: Any) -> Json:
    """An axis of Plotly with `values` of its own."""
    return {
        "gridcolor": LIGHT["grid"], "linecolor": LIGHT["rule"], "zeroline": False, "showline": True, **values
    }  # fmt: skip


def latency_axis(low_us: float, high_us: float, **values: Any) -> Json:
    """A logarithmic axis with room around the latencies from `low_us` to `high_us`, both above zero."""
    low, high = low_us / 1.25, high_us * 1.25
    places = ticks(low, high)
    return axis(
        type="log", range=[np.log10(low), np.log10(high)],
        tickvals=[t[0] for t in places], ticktext=[t[1] for t in places], **values,
    )  # fmt: skip


def panel_title(text: str, x: float, y: float) -> Json:
    """The words above a panel whose upper left corner is at `x`, `y` (0 to 1, of the whole figure)."""
    return {
        "x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
        "showarrow": False, "text": plotly_text(text), "font": {"size": 13},
    }  # fmt: skip


def layout(height: int, title: str, margin: Json, **values: Any) -> Json:
    """Plotly's layout of a figure `height` pixels high, with `title` in small letters at its top."""
    return {
        # Plotly calls this template "none".
        "template": {"data": {"scatter": [{"type": "scatter"}]}},
        "height": height, "autosize": True, "hovermode": "closest",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": LIGHT["ink"]},
        "title": {"text": plotly_text(title), "x": 0, "xref": "container", "xanchor": "left",
                  "y": 1, "yref": "container", "yanchor": "top", "font": {"size": 12},
                  "pad": {"l": 12, "t": 14}},
        "margin": margin, "paper_bgcolor": LIGHT["paper"], "plot_bgcolor": LIGHT["paper"], **values,
    }  # fmt: skip
