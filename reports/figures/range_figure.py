"""The summary figure: the range of each tier beside the published one. Latencies in microseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from reports.analysis.references import Reference
from reports.figures import encoding
from reports.figures.text import human_us, round_up, safe
from reports.figures.tier_figures import GRID, INK, OURS, PUBLISHED, RULE, TICKS

Json = dict[str, Any]
Span = tuple[float, float]
# About as wide as the linear panel is on a screen of 1280 pixels.
_PANEL_PX = 480
_LINE_PX = 2
_ROOM = 1.04


def ranges(rows: Sequence[Json], reference: Reference | None, load: str = "") -> Json:
    """A figure of ranges (microseconds) per op and tier beside the published ones; linear and logarithmic.

    `load` is written above it.
    """
    labels = _labels(rows)
    ours = [_span(r["range_us"]) for r in rows]
    theirs = {i: _span(r["published"]["range_us"]) for i, r in enumerate(rows) if r.get("published")}
    # Where nothing is published the bar stands in the middle of its line.
    places = [i - 0.18 if i in theirs else float(i) for i in range(len(rows))]
    bounds = [v for span in [*ours, *theirs.values()] for v in span]
    low = 10 ** np.floor(np.log10(min([b for b in bounds if b > 0] or [1.0])))
    high = max(bounds or [10.0])
    traces = _bars(places, ours, "this run: 95 % of the I/O", OURS, low)
    if theirs:
        name = f"published: {safe(reference.title)}" if reference else "published"
        traces += _bars([i + 0.18 for i in theirs], list(theirs.values()), name, PUBLISHED, low)
    step = round_up(high / 5)
    steps = [step * n for n in range(int(high / step) + 1)]
    # Room at the right for the words beside the longest bar.
    ticks = [t for t in TICKS if low <= t[0] <= high * 2]
    axes: Json = {"gridcolor": GRID, "zeroline": False, "linecolor": RULE, "showline": True}
    y: Json = {**axes, "tickvals": list(range(len(rows))), "ticktext": labels, "showgrid": False,
               "range": [len(rows) - 0.5, -0.5]}  # fmt: skip
    layout: Json = {
        "template": encoding.NO_TEMPLATE, "height": 140 + 58 * max(len(rows), 1), "autosize": True,
        "barmode": "overlay", "hovermode": "closest",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": INK},
        "title": {"text": safe(load), "x": 0, "xref": "container", "xanchor": "left",
                  "pad": {"l": 12, "t": 18}, "y": 1, "yref": "container", "yanchor": "top",
                  "font": {"size": 12}},
        "margin": {"l": 128, "r": 16, "t": 62, "b": 54},
        "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff",
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "xanchor": "left"},
        "xaxis": {**axes, "domain": [0, 0.45], "range": [0, high * _ROOM], "tickvals": steps,
                  "ticktext": ["0", *[human_us(v) for v in steps[1:]]], "title": {"text": "latency, linear"}},
        "xaxis2": {**axes, "domain": [0.5, 1], "type": "log", "range": [np.log10(low), np.log10(high * 40)],
                   "tickvals": [t[0] for t in ticks], "ticktext": [t[1] for t in ticks],
                   "title": {"text": "latency, logarithmic"}},
        "yaxis": {**y, "anchor": "x"}, "yaxis2": {**y, "anchor": "x2", "showticklabels": False},
    }  # fmt: skip
    return encoding.strict({"data": traces, "layout": layout})


def table(rows: Sequence[Json]) -> list[list[Any]]:
    """What the figure shows as rows, the first of them the names of the columns."""
    head = ["phase", "op", "tier", "from_us", "to_us", "published_from_us", "published_to_us"]
    found: list[list[Any]] = [head]
    for row in rows:
        theirs = (row.get("published") or {}).get("range_us") or ["", ""]
        found.append([str(row["phase"]), row["op"], row["tier"], *row["range_us"], *theirs])
    return found


def too_small(rows: Sequence[Json]) -> list[str]:
    """The op and tier of those ranges that are less than a pixel wide in the linear panel."""
    bounds = [v for r in rows for v in (r["range_us"][1], *((r.get("published") or {}).get("range_us", ())))]
    pixel = max(bounds, default=1.0) * _ROOM / _PANEL_PX
    labels = _labels(rows)
    return [
        label for label, r in zip(labels, rows, strict=True) if r["range_us"][1] - r["range_us"][0] < pixel
    ]


def _labels(rows: Sequence[Json]) -> list[str]:
    """Op and tier; the phase too where it takes that to tell rows apart."""
    seen = Counter((r["op"], r["tier"]) for r in rows)
    return [
        safe(f"{r['op']} {r['tier']}" + (f" ({r['phase']})" if seen[r["op"], r["tier"]] > 1 else ""), 40)
        for r in rows
    ]


def _span(pair: Sequence[float]) -> Span:
    return float(pair[0]), float(pair[1])


def _bars(places: Sequence[float], spans: Sequence[Span], name: str, colour: str, floor: float) -> list[Json]:
    """A bar per span in both panels. On the logarithmic one a span from 0 starts at `floor`."""
    traces = []
    for number in ("", "2"):
        low = np.array([max(s[0], floor) if number else s[0] for s in spans])
        width = np.array([s[1] for s in spans]) - low
        words = [f"{human_us(a) if a else '0'} to {human_us(b)}" for a, b in spans]
        traces.append({
            "type": "bar", "orientation": "h", "y": encoding.typed(np.array(places)),
            "x": encoding.typed(width), "base": low.tolist(), "width": 0.3, "name": safe(name),
            "legendgroup": safe(name), "meta": "ours" if colour == OURS else "published",
            "showlegend": number == "", "xaxis": f"x{number}", "yaxis": f"y{number}",
            # The outline keeps a range in sight that is less than a pixel wide.
            "marker": {"color": colour, "line": {"color": colour, "width": _LINE_PX}},
            **({"text": words} if number else {}), "textposition": "outside" if number else "none",
            "textfont": {"size": 11, "color": INK}, "cliponaxis": False, "customdata": words,
            "hovertemplate": "%{customdata}<extra>" + safe(name) + "</extra>",
        })  # fmt: skip
    return traces
