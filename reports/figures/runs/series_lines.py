"""Lines of a figure of a series: latency of each tier and rate along an axis, and each pass beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.units import commas, format_latency
from kit.store.labels import op_name, tier_name
from kit.store.parts.comparison import ComparedCell
from kit.store.series import CellRow, SeriesCell
from reports.figures import figure, palette
from reports.figures.plotly import Trace
from reports.figures.text import plotly_text
from reports.series.view import SeriesLine, merged_rows, passes_of

# What lines of one figure differ in: dash and marker, and the hue where all are of one tier.
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up")
_HUES = ("l2arc", "pool", "slog", "dram")
Key = tuple[str, str]


@dataclass(frozen=True)
class Look:
    """A line in a figure. `x`: by value; `hue`: of a tier, None where each tier has its own."""

    line: SeriesLine
    x: Sequence[Any]
    dash: str
    symbol: str
    hue: str | None

    @property
    def symbols(self) -> list[str]:
        return [self.symbol + "-open" * bool(cell.excluded) for cell, _ in self.line.cells]


def looks(lines: Sequence[SeriesLine], place_of: Mapping[str, Any]) -> list[Look]:
    """How each line is drawn."""
    tiers = {row.tier for line in lines for cell, _ in line.cells for row in merged_rows(cell)}
    own_hue = len(lines) > 1 and len(tiers) < 2
    return [
        Look(
            line,
            [place_of[value] for _, value in line.cells],
            _DASHES[number % len(_DASHES)],
            _SYMBOLS[number % len(_SYMBOLS)],
            _HUES[number % len(_HUES)] if own_hue else None,
        )
        for number, line in enumerate(lines)
    ]


def latencies(look: Look) -> Iterator[Trace]:
    """p50 with its range within a run, and p99, of each tier on the axes x and y."""
    cells = look.line.cells
    rows = [{(row.op, row.tier): row for row in merged_rows(cell)} for cell, _ in cells]
    ops = {op for each in rows for op, _ in each}
    for op, tier in sorted({key for each in rows for key in each}, key=lambda key: _height(rows, key)):
        words = tier_name(tier) + (f", {op_name(op)}" if len(ops) > 1 else "")
        name = ", ".join(filter(None, (look.line.name, "" if look.hue else words))) or words
        yield from _passes(look, (op, tier), name)
        yield from _tier(look, [each.get((op, tier)) for each in rows], tier, name)


def _height(rows: Sequence[Mapping[Key, CellRow]], key: Key) -> float:
    return min((each[key].p50_us or 1e12 for each in rows if key in each), default=1e12)


def _passes(look: Look, key: Key, name: str) -> Iterator[Trace]:
    """p50 of one tier in each round."""

    def p50_s(cell: SeriesCell) -> float | None:
        found = next((row.p50_us for row in merged_rows(cell) if (row.op, row.tier) == key), None)
        return found / 1e6 if found else None

    yield from _thin(look, p50_s, name, look.hue or key[1], "")


def _painted(hue: str | None) -> tuple[Trace, Trace]:
    """`meta` and colour of a trace: of a tier, or that of the page's text."""
    return ({"tier": hue}, {"color": palette.line(hue)}) if hue else ({"ink": True}, {})


def _thin(
    look: Look, value: Callable[[SeriesCell], float | None], name: str, hue: str | None, number: str
) -> Iterator[Trace]:
    """A thin line for each round."""
    meta, coloured = _painted(hue)
    rounds = [passes_of(cell) for cell, _ in look.line.cells]
    for at in range(max(map(len, rounds), default=0)):
        y = [value(each[at]) if at < len(each) else None for each in rounds]
        yield {
            "mode": "lines", "showlegend": False, "opacity": 0.5, "type": "scatter", "x": list(look.x),
            "y": y, "xaxis": f"x{number}", "yaxis": f"y{number}",
            "name": f"{plotly_text(name)} pass {at + 1}", "legendgroup": plotly_text(name), "meta": meta,
            "line": {"width": 1, "dash": look.dash, **coloured},
            "hovertemplate": f"pass {at + 1}: %{{y:.4~s}}<extra>{plotly_text(name)}</extra>",
        }  # fmt: skip


def _tier(look: Look, rows: Sequence[CellRow | None], tier: str, name: str) -> Iterator[Trace]:
    hue = look.hue or tier
    colour = palette.line(hue)
    p50, p99, ranges = (
        [getattr(row, name, None) for row in rows] for name in ("p50_us", "p99_us", "p50_range_us")
    )
    hollow = [bool(cell.excluded) or us is None for (cell, _), us in zip(look.line.cells, p50, strict=True)]
    common: Trace = {"type": "scatter", "x": list(look.x), "xaxis": "x", "yaxis": "y",
                    "legendgroup": plotly_text(name), "meta": {"tier": hue}}  # fmt: skip
    yield {
        **common, "y": [us and us / 1e6 for us in p50], "mode": "lines+markers", "name": plotly_text(name),
        "line": {"color": colour, "width": 2, "dash": look.dash},
        "marker": {"size": 8, "color": colour, "symbol": [look.symbol + "-open" * each for each in hollow]},
        "error_y": figure.error_bars(p50, ranges, 1e6),
        "customdata": [
            _words(cell, value, row) for (cell, value), row in zip(look.line.cells, rows, strict=True)
        ],
        "hovertemplate": "%{customdata}<extra>" + plotly_text(name) + "</extra>",
    }  # fmt: skip
    yield {
        **common, "y": [us and us / 1e6 for us in p99], "mode": "markers",
        "name": f"{plotly_text(name)} p99", "showlegend": False,
        "marker": {"size": 9, "color": colour, "symbol": "line-ew-open"},
        "hovertemplate": "p99 %{y:.3~s}s<extra>" + plotly_text(name) + "</extra>",
    }  # fmt: skip
    spans = [
        (place, row.published_us) for place, row in zip(look.x, rows, strict=True) if row and row.published_us
    ]
    for place, span in spans:
        yield {
            **common, "meta": {}, "x": [place, place],
            "y": [max(edge / 1e6, figure.FLOOR_S) for edge in span],
            "mode": "lines+markers", "name": "published", "legendgroup": "published",
            "showlegend": False,
            "line": {"color": palette.PUBLISHED, "width": 3, "dash": "dot"},
            "marker": {"symbol": "line-ew-open", "size": 12, "color": palette.PUBLISHED},
            "hovertemplate": "published range: %{y:.3~s}s<extra></extra>",
        }  # fmt: skip


def _words(cell: SeriesCell, value: str, row: CellRow | None) -> str:
    if row is None:
        return plotly_text(f"{value}: no I/O of this tier")
    p50 = "n too small" if row.p50_us is None else format_latency(row.p50_us)
    p99 = "n too small" if row.p99_us is None else format_latency(row.p99_us)
    text = f"{value}: p50 {p50}, p99 {p99}, {commas(row.count)} I/Os"
    return plotly_text(f"{text}; {cell.excluded}" if cell.excluded else text, 200)


def rates(look: Look, value: Callable[[SeriesCell], float | None], name: str, number: str) -> Iterator[Trace]:
    """A figure of the cells on the axes with that number; each pass beside it."""
    # One line has the colour of the page's text; several have those that they have above.
    meta, coloured = _painted(look.hue)
    yield from _thin(look, value, look.line.name or name, look.hue, number)
    extra = plotly_text(", ".join(filter(None, (look.line.name, name))))
    yield {
        "type": "scatter", "x": list(look.x), "y": [value(cell) for cell, _ in look.line.cells],
        "xaxis": f"x{number}", "yaxis": f"y{number}", "mode": "lines+markers", "name": name,
        "showlegend": False, "legendgroup": plotly_text(look.line.name),
        "marker": {"size": 7, "symbol": look.symbols, **coloured},
        "line": {"width": 2, "dash": look.dash, **coloured}, "meta": meta,
        "hovertemplate": "%{y:.4~g}<extra>" + extra + "</extra>",
    }  # fmt: skip


def over(look: Look, tier: str, name: str, points: Sequence[tuple[Any, ComparedCell]]) -> Trace:
    """B/A of one figure at each place, with its interval."""
    words = "I/Os a second" if name == "ios_per_s" else f"{tier_name(tier)} {name}"
    label = plotly_text(", ".join(filter(None, (look.line.name, words))))
    ends = [row.interval or row.range or (row.ratio, row.ratio) for _, row in points]
    ratios = [row.ratio for _, row in points]
    colour = {"color": palette.line(look.hue or tier)}
    return {
        "type": "scatter", "x": [place for place, _ in points], "y": ratios, "mode": "lines+markers",
        "name": label, "meta": {"ink": True} if name == "ios_per_s" else {"tier": look.hue or tier},
        "line": {**colour, "width": 2, "dash": {"p50": "solid", "p99": "dot"}.get(name, "dash")},
        "marker": {**colour, "size": 8, "symbol": look.symbol},
        "error_y": figure.error_bars(ratios, ends),
        "hovertemplate": "B : A %{y:.4~g}<extra>" + label + "</extra>",
    }  # fmt: skip
