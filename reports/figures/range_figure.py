"""The summary figure: the range of each tier beside the published one. Latencies in microseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from kit.core.units import format_latency
from kit.store.stored import Json
from kit.store.summary import Reference, Row
from reports.analysis import import_source
from reports.figures import still_figure
from reports.figures.palette import LIGHT
from reports.figures.still_figure import StillFigure
from reports.figures.text import plotly_text, round_up

# About as wide as the linear panel is on a screen of 1280 pixels.
_PANEL_PX = 480
_ROOM = 1.04


def ranges(rows: Sequence[Row], reference: Reference | None, load: str = "") -> StillFigure:
    """A figure of ranges (microseconds) per op and tier beside the published ones; linear and logarithmic.

    `load` is written above it.
    """
    labels = _labels(rows)
    ours = [r.range_us for r in rows]
    theirs = {i: span for i, r in enumerate(rows) if (span := _published(r))}
    # Where nothing is published the bar stands in the middle of its line.
    places = [i - 0.18 if i in theirs else float(i) for i in range(len(rows))]
    bounds = [v for span in [*ours, *theirs.values()] for v in span]
    low = 10 ** np.floor(np.log10(min([b for b in bounds if b > 0] or [1.0])))
    high = max(bounds or [10.0])
    traces = _bars(places, ours, "this run: 95 % of the I/O", LIGHT["bars"], low)
    if theirs:
        name = f"published: {plotly_text(reference.title)}" if reference else "published"
        traces += _bars([i + 0.18 for i in theirs], list(theirs.values()), name, LIGHT["published"], low)
    step = round_up(high / 5)
    steps = [step * n for n in range(int(high / step) + 1)]
    # Room at the right for the words beside the longest bar.
    ticks = [t for t in still_figure.TICKS if low <= t[0] <= high * 2]
    y = still_figure.axis(
        tickvals=list(range(len(rows))), ticktext=labels, showgrid=False, range=[len(rows) - 0.5, -0.5]
    )
    layout = still_figure.layout(
        140 + 58 * max(len(rows), 1), load, {"l": 128, "r": 16, "t": 62, "b": 54},
        barmode="overlay",
        legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "xanchor": "left"},
        xaxis=still_figure.axis(
            domain=[0, 0.45], range=[0, high * _ROOM], title={"text": "latency, linear"},
            tickvals=steps, ticktext=["0", *[format_latency(v) for v in steps[1:]]],
        ),
        xaxis2=still_figure.axis(
            domain=[0.5, 1], type="log", range=[np.log10(low), np.log10(high * 40)],
            tickvals=[t[0] for t in ticks], ticktext=[t[1] for t in ticks],
            title={"text": "latency, logarithmic"},
        ),
        yaxis={**y, "anchor": "x"}, yaxis2={**y, "anchor": "x2", "showticklabels": False},
    )  # fmt: skip
    return StillFigure("Ranges", traces, layout, _caption(rows), _table(rows))


def _table(rows: Sequence[Row]) -> list[list[Any]]:
    """The ranges of the figure as rows; the first names the columns."""
    head = ["phase", "op", "tier", "from_us", "to_us", "published_from_us", "published_to_us"]
    return [head] + [[r.phase, r.op, r.tier, *r.range_us, *(_published(r) or ("", ""))] for r in rows]


def _published(row: Row) -> Sequence[float]:
    """From and to of the published range of a row (us); empty if there is none."""
    return row.published.range_us if row.published else ()


def _caption(rows: Sequence[Row]) -> str:
    where = " and ".join(dict.fromkeys(import_source.LAYERS.get(r.layer, r.layer) for r in rows))
    words = f"95 % of the I/O at the {where or 'NFS server'} lie within the blue bar"
    words += "; the published range is below it." if any(r.published for r in rows) else "."
    small = too_small(rows)
    if small:
        words += (
            f" On the linear side {', '.join(small)} would be less than a pixel wide: "
            "the outline alone is what can be seen."
        )
    return words


def too_small(rows: Sequence[Row]) -> list[str]:
    """The op and tier of those ranges that are less than a pixel wide in the linear panel."""
    bounds = [v for r in rows for v in (r.range_us[1], *_published(r))]
    pixel = max(bounds, default=1.0) * _ROOM / _PANEL_PX
    labels = _labels(rows)
    return [label for label, r in zip(labels, rows, strict=True) if r.range_us[1] - r.range_us[0] < pixel]


def _labels(rows: Sequence[Row]) -> list[str]:
    """Op and tier; the phase too where it takes that to tell rows apart."""
    seen = Counter((r.op, r.tier) for r in rows)
    several = [f" ({r.phase})" if seen[r.op, r.tier] > 1 else "" for r in rows]
    return [plotly_text(f"{r.op} {r.tier}{phase}", 40) for r, phase in zip(rows, several, strict=True)]


def _bars(
    places: Sequence[float], spans: Sequence[Sequence[float]], name: str, colour: str, floor: float
) -> list[Json]:
    """A bar per span in both panels. On the logarithmic one a span from 0 starts at `floor`."""
    traces = []
    for number in ("", "2"):
        low = np.array([max(s[0], floor) if number else s[0] for s in spans])
        width = np.array([s[1] for s in spans]) - low
        words = [f"{format_latency(a) if a else '0'} to {format_latency(b)}" for a, b in spans]
        traces.append({
            "type": "bar", "orientation": "h", "y": list(places),
            "x": width.tolist(), "base": low.tolist(), "width": 0.3, "name": plotly_text(name),
            "legendgroup": plotly_text(name), "meta": "ours" if colour == LIGHT["bars"] else "published",
            "showlegend": number == "", "xaxis": f"x{number}", "yaxis": f"y{number}",
            # The outline keeps a range in sight that is less than a pixel wide.
            "marker": {"color": colour, "line": {"color": colour, "width": 2}},
            **({"text": words} if number else {}), "textposition": "outside" if number else "none",
            "textfont": {"size": 11, "color": LIGHT["ink"]}, "cliponaxis": False, "customdata": words,
            "hovertemplate": "%{customdata}<extra>" + plotly_text(name) + "</extra>",
        })  # fmt: skip
    return traces
