"""Records a second by records a force, with the line of two parameters that explains them."""

from __future__ import annotations

from typing import Any

import numpy as np

from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Trace
from reports.figures.text import plotly_text
from reports.series.batches import Batches

_STEPS = 40


def batches_figure(batches: Batches) -> Figure:
    """Both axes logarithmic: what is in proportion to the batch is a straight line of slope 1."""
    records = [n for n, _, _ in batches.points]
    along = np.geomspace(min(records), max(records), _STEPS)
    first = batches.points[0]
    traces: list[Trace] = [
        {
            "type": "scatter", "x": records, "y": [rate for _, _, rate in batches.points], "mode": "markers",
            "name": "measured", "marker": {"size": 9, "color": palette.line("slog")},
            "hovertemplate": "%{x} records a force: %{y:,.0f} records/s<extra></extra>",
        },
        _line("a + b n", along, [n / batches.us(n) * 1e6 for n in along], "solid"),
        _line("in proportion to the batch", along, [first[2] / first[0] * n for n in along], "dot"),
    ]  # fmt: skip
    if batches.device_bytes_per_s:
        most = batches.device_bytes_per_s / batches.record_bytes
        traces.append(_line("what large writes reach", along, [most] * _STEPS, "dash"))
    layout = figure.layout(
        360, {"l": 70, "r": 20, "t": 30, "b": 50}, dragmode="zoom",
        xaxis={"type": "log", "title": {"text": "records a force"}, "tickvals": records},
        yaxis={"type": "log", "title": {"text": "records a second"}, "tickformat": "~s", "dtick": "D2"},
    )  # fmt: skip
    table: list[list[Any]] = [["records_per_force", "us_per_force", "line_us", "records_per_s"]]
    table += [[n, us, batches.us(n), rate] for n, us, rate in batches.points]
    return Figure(
        plotly_text(f"{batches.phase}: records a second by records a force"), traces, layout,
        plotly_text(batches.sentence, 600), csv=table, narrow={"margin": {"l": 50, "r": 8}},
    )  # fmt: skip


def _line(name: str, x: Any, y: Any, dash: str) -> Trace:
    return {
        "type": "scatter", "x": [float(each) for each in x], "y": [float(each) for each in y],
        "mode": "lines", "name": name, "line": {"width": 2, "dash": dash}, "meta": {"ink": True},
        "hoverinfo": "skip",
    }  # fmt: skip
