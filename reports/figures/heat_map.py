"""Counts per time and latency: the one builder of heat maps, whatever page they are on.

grid() has the counts of a phase as they are stored; display() merges them to what a screen can show;
traces() are the Plotly heat maps of a grid, one per tier; block() is the stored grid as the page holds it.

Colour is density: I/Os per second and per octave of latency, or per µs on a linear axis. A count per bin
would show borders where the width of the bins changes. Stored times and latencies are in ns; figures have
seconds.

Colour may be time waited instead: the I/Os of a cell times their latency (PyLatencyMap calls it intensity),
as seconds waited per second and per octave or µs. By Little's law that is how many I/Os waited at once.
shading.js switches to it; a row's mean latency in `meta` is all that it needs.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.core.bins import IntArray, bin_edges, bin_index
from kit.store.latency import MAX_COLUMNS
from kit.store.phase import Phase
from kit.store.stored import Json
from reports.figures import encoding, palette
from reports.figures.figure import FLOOR_S, numbers
from reports.figures.plotly import Trace
from reports.figures.text import plotly_text

Floats = npt.NDArray[np.float64]
Per = Literal["octave", "us"]

# What is drawn at most: an hour of seconds then pans without a pause (docs/benchmarks.md).
DISPLAY = (480, 224)
# 60 octaves of 32 bins; what has more was not written by the kit.
_MAX_ROWS = 1920
# Rows are merged until the median cell with I/Os has this many.
_ENOUGH = 4
_MERGED_ROWS = (1, 2, 4, 8)
# The scale has three powers of ten at most: what is rarer has the colour of the rarest.
_DECADES = 3.0
# What a tooltip says after the count.
_PLACE = "<br>%{x:.6~g} s, %{y:.3~s}s<extra></extra>"


@dataclass(frozen=True)
class TimeSpan:
    """When a phase was measured. `column_ns`: its rows are already summed up over this time."""

    start_ns: int
    end_ns: int
    interval_ns: int
    column_ns: int | None = None

    @classmethod
    def of(cls, phase: Phase, column_ns: int | None = None) -> TimeSpan:
        return cls(phase.start_ns, phase.end_ns, phase.interval_ns, column_ns)


@dataclass(frozen=True)
class Cells:
    """The cells with I/Os of one tier: row, column, count and time waited (ns) of each; arrays of one length.

    `waited_ns`: each I/O counts as the middle of its stored bin.
    """

    row: IntArray
    column: IntArray
    count: IntArray
    waited_ns: Floats


@dataclass(frozen=True)
class CountGrid:
    """Counts of one phase and layer: `columns` of `width_ns` from `start_ns` on, rows between `edges_ns`.

    `tiers`: the fastest first. `merged`: (stored intervals a column, stored bins a row). `gaps`: columns
    [first, last) for which the store has no row at all: nothing was recorded, which is not a count of zero.
    """

    start_ns: int
    end_ns: int
    width_ns: int
    columns: int
    edges_ns: IntArray
    tiers: Mapping[str, Cells]
    gaps: tuple[tuple[int, int], ...]
    merged: tuple[int, int]

    @property
    def edges_s(self) -> Floats:
        """Latencies in seconds, the lowest above zero."""
        edges: Floats = self.edges_ns / 1e9
        edges[:1] = np.maximum(edges[:1], np.minimum(FLOOR_S, edges[1:2] / 2))
        return edges

    @property
    def times_s(self) -> Floats:
        """The edges of the columns in seconds since the phase began.

        The last column is as long as it was measured, where the end of the phase cuts it off: its rate is
        per second of that time, and it is drawn as wide as that.
        """
        edges = np.arange(self.columns + 1, dtype=np.float64) * (self.width_ns / 1e9)
        edges[-1] = min(edges[-1], max(self.duration_s, edges[-2] + self.width_ns / 1e12))
        return edges

    @property
    def duration_s(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def lengths_s(self) -> Floats:
        """How long each column took."""
        lengths: Floats = np.diff(self.times_s)
        return lengths

    @property
    def scaled(self) -> npt.NDArray[np.bool_]:
        """Columns that the scale of colours is of: in a sliver of time one I/O would be its upper end."""
        scaled: npt.NDArray[np.bool_] = self.lengths_s >= self.lengths_s.max() / 2
        return scaled


def grid(frame: pl.DataFrame, times: TimeSpan, by: str = "tier", most: int = MAX_COLUMNS) -> CountGrid:
    """The stored counts of the rows of one phase and layer. Raises ValueError if the bins overlap.

    Rows are the stored bins; where none is stored between two bins, one empty row fills the gap. Neighbouring
    intervals are merged until at most `most` are left. An interval outside the phase widens the time axis.
    """
    start, end, interval = times.start_ns, times.end_ns, max(times.interval_ns, 1)
    together = max((times.column_ns or interval) // interval, 1)
    last = end
    if frame.height:
        last = max(end, int(frame["time_ns"].max()) + 1)  # type: ignore[arg-type]
        early = start - int(frame["time_ns"].min())  # type: ignore[arg-type]
        if early > 0:
            start -= early if together == 1 else -(-early // (interval * together)) * interval * together
    intervals = max(-(-(last - start) // interval), 1)
    merged = together * -(-intervals // (together * most))
    width, columns = interval * merged, -(-intervals // merged)
    used = frame.filter(pl.col("count") > 0)
    lo, hi = used["lo_ns"].to_numpy(), used["hi_ns"].to_numpy()
    edges = _bin_edges_ns(lo, hi)
    row, column = np.searchsorted(edges, lo), (used["time_ns"].to_numpy() - start) // width
    tiers = {}
    for tier in used.group_by(by).agg(pl.col("lo_ns").median()).sort("lo_ns", by)[by].to_list():
        mine = (used[by] == tier).arg_true().to_numpy()
        count = used["count"].to_numpy()[mine]
        tiers[str(tier)] = _summed(row[mine], column[mine], count, count * _middle_ns(lo, hi)[mine], columns)
    recorded = (frame["time_ns"].unique().to_numpy() - start) // width
    # The phase cuts off its last interval, but none that begins after it.
    end = start + intervals * interval if last > end else max(end, start + 1)
    return CountGrid(start, end, width, columns, edges, tiers, _gaps(recorded, columns), (merged, 1))


def display(stored: CountGrid, most: tuple[int, int] = DISPLAY) -> CountGrid:
    """`stored` with at most `most` columns and rows, and enough I/Os in a cell for a picture.

    Rows are merged by 2, 4 or 8 stored bins, at the same places whatever the data, until the median cell with
    I/Os has four.
    """
    columns = fewer_columns(stored, most[0])
    for number in _MERGED_ROWS:
        shown = _fewer_rows(columns, number)
        counts = np.concatenate([cells.count for cells in shown.tiers.values()] or [np.array([_ENOUGH])])
        if len(shown.edges_ns) <= most[1] and np.median(counts) >= _ENOUGH:
            break
    while len(shown.edges_ns) - 1 > most[1]:
        number *= 2
        shown = _fewer_rows(columns, number)
    return shown


def fewer_columns(stored: CountGrid, most: int = DISPLAY[0]) -> CountGrid:
    """`stored` with at most `most` columns."""
    by = -(-stored.columns // most)
    columns = -(-stored.columns // by)
    tiers = {
        tier: _summed(cells.row, cells.column // by, cells.count, cells.waited_ns, columns)
        for tier, cells in stored.tiers.items()
    }
    # A merged column is a gap only if all of it is.
    gaps = [(-(-a // by), columns if b == stored.columns else b // by) for a, b in stored.gaps]
    kept = tuple((a, b) for a, b in gaps if a < b)
    merged, width_ns = (stored.merged[0] * by, 1), stored.width_ns * by
    return replace(stored, width_ns=width_ns, columns=columns, tiers=tiers, gaps=kept, merged=merged)


def _fewer_rows(stored: CountGrid, number: int) -> CountGrid:
    """Rows of `number` bins of the kit's own division; where a stored bin is wider, it stays as it is."""
    if number == 1 or len(stored.edges_ns) < 2:
        return stored
    lo, hi = stored.edges_ns[:-1], stored.edges_ns[1:]
    used = np.zeros(len(lo), dtype=bool)
    for cells in stored.tiers.values():
        used[cells.row] = True
    group = bin_index(lo) // number
    # The first and the last used row of each group.
    names, first = np.unique(group[used], return_index=True)
    rows = np.flatnonzero(used)
    last = np.append(first[1:], len(rows)) - 1
    low, high = lo[rows[first]], hi[rows[last]]
    # As wide as the division has it, unless a neighbour is in the way.
    wide_low, wide_high = bin_edges(names * number)[0], bin_edges(names * number + number - 1)[1]
    low = np.maximum(np.minimum(low, wide_low), np.append(0, high[:-1]))
    high = np.minimum(np.maximum(high, wide_high), np.append(low[1:], np.iinfo(np.int64).max))
    edges = np.unique(np.concatenate([low, high]))
    to = np.searchsorted(edges, low)[np.searchsorted(names, group.clip(names[0], names[-1]))]
    tiers = {
        tier: _summed(to[cells.row], cells.column, cells.count, cells.waited_ns, stored.columns)
        for tier, cells in stored.tiers.items()
    }
    return replace(stored, edges_ns=edges, tiers=tiers, merged=(stored.merged[0], number))


def _middle_ns(lo: IntArray, hi: IntArray) -> Floats:
    """The middle of the whole nanoseconds of each bin [lo, hi), as percentiles have it."""
    middle: Floats = (lo.astype(np.float64) + hi - 1) / 2
    return middle


def _summed(row: IntArray, column: IntArray, count: IntArray, waited_ns: Floats, columns: int) -> Cells:
    place = row * columns + column
    order = np.argsort(place, kind="stable")
    place = place[order]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    if first.size:
        count, waited_ns = (np.add.reduceat(each[order], first) for each in (count, waited_ns))
    return Cells(*np.divmod(place[first], columns), count, waited_ns)


def _density(shown: CountGrid, per: Per) -> Floats:
    """What a count of 1 is in each row and column: I/Os per second and per octave or µs, [rows, columns]."""
    lo, hi = shown.edges_s[:-1], shown.edges_s[1:]
    rows = np.log2(hi / lo) if per == "octave" else (hi - lo) * 1e6
    unit: Floats = 1 / (rows[:, None] * shown.lengths_s[None, :])
    return unit


def traces(
    shown: CountGrid,
    tiers: Sequence[str],
    per: Per,
    axes: tuple[str, str] = ("x", "y"),
    names: Mapping[str, str] | None = None,
    weight: float = 1.0,
) -> list[Trace]:
    """A Plotly heat map per tier of `tiers` that has I/Os: z is log10 of the density, customdata the count.

    `names`: what the legend calls a tier. Counts are multiplied by `weight`. Colours are set together, by
    coloured(). `meta.wait_s`: the mean latency (s) of the I/Os of each row; the sum of counts times it is the
    time waited in the whole map.
    """
    unit = _density(shown, per) * weight
    made = []
    for tier in tiers:
        cells = shown.tiers.get(tier)
        if cells is None or not cells.count.size:
            continue
        first, last = int(cells.row.min()), int(cells.row.max()) + 1
        z = np.full((last - first, shown.columns), np.nan, dtype=np.float32)
        spread, whole = cells.count.dtype.kind == "f", weight == 1 and cells.count.dtype.kind == "i"
        small = np.int32 if whole and cells.count.max() < 1 << 31 else np.float64
        # More digits of counts that are spread over rows would make the page larger.
        digits = 2 if spread else 3
        counts = np.zeros(z.shape, dtype=np.float32 if spread else small)
        at = cells.row - first, cells.column
        z[at] = np.round(np.log10(cells.count * unit[cells.row, cells.column]), digits)
        counts[at] = np.round(cells.count * weight, digits) if spread else cells.count * weight
        # Slivers of an I/O are no end of the scale.
        ends = z[(counts >= 0.5) & shown.scaled]
        ends = ends if ends.size else z[at]
        wait_s = _mean_s(cells, first, last)
        name = plotly_text((names or {}).get(tier, tier))
        made.append({
            "type": "heatmap", "name": name, "x": shown.times_s.round(9).tolist(),
            "y": [float(f"{edge:.9g}") for edge in shown.edges_s[first : last + 1]],
            "z": numbers(z), "customdata": numbers(counts), "xaxis": axes[0], "yaxis": axes[1],
            "meta": {
                "tier": tier, "zmin": float(ends.min()), "zmax": float(ends.max()),
                "wait_s": [float(f"{each:.6g}") for each in wait_s],
            },
            "hoverongaps": False, "zsmooth": False, "showscale": False, "showlegend": True,
            "legendgroup": tier, "colorscale": palette.scale(tier),
            "hovertemplate": f"{name}: %{{customdata:{',d' if whole else ',.4~r'}}} I/O{_PLACE}",
        })  # fmt: skip
    return made


def _mean_s(cells: Cells, first: int, last: int) -> Floats:
    """The mean latency (s) of the I/Os in each of the rows [first, last); 0 in one without I/O."""
    count, waited_ns = (
        np.bincount(cells.row - first, weights=each, minlength=last - first)
        for each in (cells.count, cells.waited_ns)
    )
    mean: Floats = waited_ns / np.maximum(count, 1) / 1e9
    return mean


def in_hue_of(trace: Trace, tier: str) -> Trace:
    """A heat map of what is no tier, in the hue of `tier`, and without a place in the legend."""
    meta = {**trace["meta"], "tier": tier}
    return {**trace, "showlegend": False, "meta": meta, "colorscale": palette.scale(tier)}


def difference(shown: CountGrid, weights: Mapping[str, float], axes: tuple[str, str], name: str) -> Trace:
    """The heat map of a difference: the I/Os of each tier times its weight, added up, per octave and second.

    z is the root of its size with its sign: a linear scale would show the one cell that differs most.
    """
    counts = np.zeros((max(len(shown.edges_ns) - 1, 0), shown.columns))
    used = np.zeros(counts.shape, dtype=bool)
    for tier, weight in weights.items():
        if cells := shown.tiers.get(tier):
            counts[cells.row, cells.column] += weight * cells.count
            used[cells.row, cells.column] = True
    values = counts * _density(shown, "octave")
    z = np.where(used, np.sign(values) * np.sqrt(np.abs(values)), np.nan).astype(np.float32)
    most = float(np.max(np.abs(z), where=used & shown.scaled, initial=0.0))
    most = most or 1.0
    steps = [-1, -0.25, 0, 0.25, 1]
    return {
        "type": "heatmap", "name": plotly_text(name), "x": shown.times_s.round(9).tolist(),
        "y": shown.edges_s.tolist(), "z": numbers(z), "customdata": numbers(counts), "xaxis": axes[0],
        "yaxis": axes[1], "meta": {"difference": True}, "zmin": -most, "zmax": most, "hoverongaps": False,
        "zsmooth": False, "showlegend": False,
        "colorscale": [[n / 6, colour] for n, colour in enumerate(palette.DIFFERENCE["light"])],
        "colorbar": {
            "title": {"text": "I/O/s/octave", "side": "right", "font": {"size": 11}}, "thickness": 10,
            "outlinewidth": 0, "x": 1.01, "tickvals": [np.sign(s) * np.sqrt(abs(s)) * most for s in steps],
            "ticktext": [f"{s * most**2:+.3g}" if s else "0" for s in steps],
        },
        "hovertemplate": f"{plotly_text(name)}: %{{customdata:+,.4~r}} I/O{_PLACE}",
    }  # fmt: skip


def coloured(maps: Sequence[Trace], per: Per, bar: Trace | None = None) -> list[Trace]:
    """The heat maps of one figure on one scale of colours, and the bar that explains it."""
    drawn = [each for each in maps if each["type"] == "heatmap"]
    if not drawn:
        return list(maps)
    unit = "octave" if per == "octave" else "µs"
    low, top = _scale([each["meta"] for each in drawn])
    for each in drawn:
        each |= {"zmin": low, "zmax": top}
    key = {
        "type": "scatter", "mode": "markers", "x": [None], "y": [None], "showlegend": False,
        "hoverinfo": "skip", "xaxis": drawn[0]["xaxis"], "yaxis": drawn[0]["yaxis"],
        "marker": _bar(low, top, f"I/O/s/{unit}", bar), "meta": {"tier": "scale"},
    }  # fmt: skip
    return [*maps, key]


def _scale(spans: Sequence[Trace]) -> tuple[float, float]:
    """The ends of the scale of colours (log10) of maps with these `zmin` and `zmax`."""
    top = max(span["zmax"] for span in spans)
    low = max(min(span["zmin"] for span in spans), top - _DECADES)
    return min(low, top - 0.3), top


def _bar(low: float, top: float, title: str, changes: Trace | None) -> Trace:
    """The marker whose colour bar explains a scale (log10)."""
    decades = range(int(np.floor(low)), int(np.ceil(top)))
    steps = [(digit * 10.0**n, float(np.log10(digit)) + n) for n in decades for digit in (1, 2, 5, 10)]
    shown = {at: value for value, at in steps if low <= at <= top}
    return {
        "color": [low], "cmin": low, "cmax": top, "colorscale": palette.scale("scale"), "showscale": True,
        "colorbar": {
            "title": {"text": title, "side": "right", "font": {"size": 11}},
            "thickness": 10, "outlinewidth": 0, "x": 1.01, "tickvals": list(shown),
            "ticktext": [f"{value:,.10g}" for value in shown.values()], **(changes or {}),
        },
    }  # fmt: skip


def rows_text(shown: CountGrid) -> str:
    """How many stored bins and intervals a cell of the picture is."""
    intervals, bins = shown.merged
    wide = f"{shown.width_ns / 1e9:.3g} s" + (f" ({intervals} intervals)" if intervals > 1 else "")
    rows = [row for cells in shown.tiers.values() for row in np.unique(cells.row) if shown.edges_ns[row]]
    percent = max((100 * (shown.edges_ns[row + 1] / shown.edges_ns[row] - 1) for row in rows), default=0)
    high = f"{bins} bin{'s' * (bins > 1)}" + (f" ({percent:.0f} %)" if percent else "")
    return f"Cell: {wide} \N{MULTIPLICATION SIGN} {high}."


def finest_text(stored: CountGrid) -> str:
    """How long the columns are below which the page has nothing; "" where they are the stored intervals."""
    intervals = stored.merged[0]
    return (
        f" Exact bins are {stored.width_ns / 1e9:.3g} s wide ({intervals} intervals)."
        if intervals > 1
        else ""
    )


def block(stored: CountGrid) -> Json:
    """The cells of a grid, for cells.js.

    `tiers` has sparse rows, deflated. Of each two lists: how many empty cells lie before each cell with I/Os,
    counted along time from the lowest row, row by row, and the I/Os in the cell. A bin has about the same
    rate all the time: along a row the numbers are alike, and deflate to a fifth less than column by column.
    """
    tiers = {}
    for tier, cells in stored.tiers.items():
        steps = np.diff(cells.row * stored.columns + cells.column, prepend=-1) - 1
        tiers[tier] = {"steps": _packed(steps), "counts": _packed(cells.count)}
    return {
        "width_s": stored.width_ns / 1e9,
        "columns": stored.columns,
        "merged": stored.merged[0],
        "duration_s": stored.duration_s,
        "edges_us": (stored.edges_s * 1e6).tolist(),
        "tiers": tiers,
    }


def _bin_edges_ns(lo: IntArray, hi: IntArray) -> IntArray:
    """The edges of the bins [lo, hi), ascending; an empty bin is between two that do not touch."""
    edges = np.unique(np.concatenate([lo, hi]))
    if len(edges) - 1 > _MAX_ROWS or (np.searchsorted(edges, hi) != np.searchsorted(edges, lo) + 1).any():
        raise ValueError("the bins of latency.parquet overlap, or are too many")
    return edges


def _gaps(recorded: IntArray, columns: int) -> tuple[tuple[int, int], ...]:
    """Columns [first, last) that are not in `recorded`."""
    seen = np.zeros(columns + 2, dtype=bool)
    seen[[0, -1]] = True
    seen[1 + recorded] = True
    turns = np.flatnonzero(np.diff(seen.astype(np.int8)))
    return tuple((int(a), int(b)) for a, b in zip(turns[::2], turns[1::2], strict=True))


def _packed(values: IntArray) -> str:
    # Small numbers without much order: what repeats is not worth a long search, nor a reference to it.
    return encoding.packed(encoding.varints(values), 5, zlib.Z_FILTERED)
