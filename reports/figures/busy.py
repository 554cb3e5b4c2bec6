"""How busy each member of an array is over time: a row a drive."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from kit.core.units import format_percent
from kit.store.parts.resource_use import DeviceSample, DeviceUse
from kit.store.phase import Phase
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Trace
from reports.figures.text import plotly_text

# The hue: writes of a device.
_HUE = "slog"
_ROW_PX = 22


def strip(phase: Phase, title: str) -> Figure | None:
    """The busy share of each member between two samples; None without an array or samples."""
    used = [
        each.model_copy(update={"samples": _of_load(phase, each)})
        for each in phase.devices
        if phase.array and each.device in phase.array.members
    ]
    if not used or any(len(each.samples) < 3 for each in used):
        return None
    edges = [(sample.at_ns - phase.start_ns) / 1e9 for sample in used[0].samples]
    rows = [_shares(each) for each in used]
    # As in the table: the first member above.
    names, shares = [plotly_text(each.device) for each in used][::-1], rows[::-1]
    trace: Trace = {
        "type": "heatmap", "x": edges, "y": names, "z": shares, "zmin": 0, "zmax": 1, "name": "busy",
        "colorscale": palette.scale(_HUE), "meta": {"tier": _HUE}, "xgap": 1, "ygap": 1,
        "colorbar": {"thickness": 10, "tickformat": ".0%", "tickvals": [0, 0.5, 1], "outlinewidth": 0},
        "hovertemplate": "%{y}, %{x:.2f} s: busy %{z:.0%}<extra></extra>",
    }  # fmt: skip
    layout = figure.layout(
        90 + _ROW_PX * len(used), {"l": 62, "r": 60, "t": 12, "b": 44}, dragmode="zoom",
        xaxis={**figure.time_axis(edges[-1], showgrid=False), "range": [edges[0], edges[-1]]},
        yaxis={"type": "category", "showgrid": False},
    )  # fmt: skip
    table: list[list[Any]] = [["device", "from_s", "to_s", "busy"]]
    for each, row in zip(used, rows, strict=True):
        table += [[each.device, a, b, share] for (a, b), share in zip(pairwise(edges), row, strict=True)]
    return Figure(
        f"{title}: how busy each drive is", [trace], layout, _words(used, rows), csv=table,
        narrow={"margin": {"l": 46, "r": 48}},
    )  # fmt: skip


def _of_load(phase: Phase, used: DeviceUse) -> tuple[DeviceSample, ...]:
    """The samples while the load ran, with the one before it and the one after it."""
    begun, ended = phase.load_span_ns
    before = [each for each in used.samples if each.at_ns <= begun][-1:]
    within = [each for each in used.samples if begun < each.at_ns < ended]
    after = [each for each in used.samples if each.at_ns >= ended][:1]
    return (*before, *within, *after)


def _shares(used: DeviceUse) -> list[float]:
    """Of the time from a sample to the next in which an I/O was on its way to the device."""
    return [
        min(1.0, max(0.0, (b.busy_ns - a.busy_ns) / (b.at_ns - a.at_ns))) if b.at_ns > a.at_ns else 0.0
        for a, b in pairwise(used.samples)
    ]


def _words(used: Sequence[DeviceUse], rows: Sequence[Sequence[float]]) -> str:
    """Over the whole phase, and how often which drive was the busiest."""
    ends = [(each.samples[0], each.samples[-1]) for each in used]
    whole = [(last.busy_ns - first.busy_ns) / max(1, last.at_ns - first.at_ns) for first, last in ends]
    columns = list(zip(*rows, strict=True))
    busiest = [max(range(len(column)), key=lambda n: column[n]) for column in columns if max(column) > 0]
    leads = {each.device: busiest.count(number) for number, each in enumerate(used)}
    parts = zip(used, map(format_percent, whole), strict=True)
    text = ", ".join(f"{each.device} {share}" for each, share in parts)
    turns = ", ".join(f"{name} {count}" for name, count in leads.items() if count)
    return f"Busy while the load ran: {text}. The busiest, of {len(busiest)} samples: {turns}."
