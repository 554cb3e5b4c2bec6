"""Curves of `hsp size`: what caches answer over their size, and special vdevs over the room they need."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kit.core.units import format_binary_bytes
from kit.store.printed.sizing import CacheSize, EstimatedPart, SizeResult
from reports.figures import figure, palette
from reports.figures.figure import Figure
from reports.figures.plotly import Layout, Trace
from reports.figures.text import plotly_text
from reports.size.words import words

_BAND = "rgba(47, 128, 190, 0.22)"
_MOST_TICKS = 8
_NOTE = "Share of all reads that do not reach the disks. Band: range of 95 %."


@dataclass(frozen=True)
class _Curve:
    """Parts over bytes. `marks`: text and bytes of vertical lines; `alone`: a second line, of DRAM alone.

    `labels`: texts of the points.
    """

    title: str
    note: str
    name: str
    tier: str
    x: Sequence[float]
    parts: Sequence[EstimatedPart]
    hover: Sequence[str]
    marks: Sequence[tuple[str, int | None]] = ()
    alone: Sequence[float] = ()
    labels: Sequence[str] = ()


def figures(result: SizeResult) -> Iterator[Figure]:
    """One of ARC sizes, of L2ARC sizes, and of special vdevs, where there are figures for two at least."""
    now = result.now
    kinds = (
        ("ARC", result.arc, "arc_bytes", now.arc_bytes, result.arc_knee_bytes),
        ("L2ARC", result.l2arc, "l2arc_bytes", now.l2arc_bytes, result.l2arc_knee_bytes),
    )
    for name, sizes, key, at, bend in kinds:
        known = [each for each in sizes if each.answered and getattr(each, key)]
        if len(known) > 1:
            yield _figure(_of_caches(name, known, key, (("now", at), ("bends here", bend))))
    small = result.small_blocks
    if result.shows_special and len(small) > 1:
        hover = [
            f"special_small_blocks = {format_binary_bytes(each.limit_bytes)}: {words(each.of_disk_reads_now)}"
            f"<br>in {format_binary_bytes(each.vdev_bytes.value)} at least"
            for each in small
        ]
        yield _figure(_Curve(
            "Disk reads answered by a special vdev, over the size that special_small_blocks needs",
            "Of the reads that disks answer now. Each point is a value of special_small_blocks, with the "
            "room of the blocks that were asked for. Band: range of 95 %.",
            "special vdev", "special", [each.vdev_bytes.value for each in small],
            [each.of_disk_reads_now for each in small], hover,
            [("", each.special_bytes) for each in result.special],
            labels=[format_binary_bytes(each.limit_bytes) for each in small],
        ))  # fmt: skip


def _of_caches(
    name: str, sizes: Sequence[CacheSize], key: str, marks: Sequence[tuple[str, int | None]]
) -> _Curve:
    x = [getattr(each, key) for each in sizes]
    alone = [each.dram.value for each in sizes if each.dram]
    with_l2arc = any(each.l2arc and each.l2arc.value > 0 for each in sizes)
    both, tier = ("DRAM and L2ARC", "l2arc") if with_l2arc else ("DRAM", "dram")
    return _Curve(
        f"Reads answered by the caches, over the size of the {name}", _NOTE, both, tier, x,
        [each.answered for each in sizes if each.answered],
        [_hover(size, each) for size, each in zip(x, sizes, strict=True)], marks,
        alone if with_l2arc else (),
    )  # fmt: skip


def _figure(curve: _Curve) -> Figure:
    x = [size / 2**30 for size in curve.x]
    low, high, value = ([getattr(each, end) for each in curve.parts] for end in ("low", "high", "value"))
    colour = palette.line("l2arc")
    ends: Trace = {"type": "scatter", "mode": "lines", "x": x, "hoverinfo": "skip", "line": {"width": 0}}
    traces: list[Trace] = [
        {**ends, "y": high, "showlegend": False},
        {**ends, "y": low, "fill": "tonexty", "fillcolor": _BAND, "name": "range of 95 %"},
        {"type": "scatter", "mode": "lines+markers" + "+text" * bool(curve.labels), "x": x, "y": value,
         "text": list(curve.labels), "textposition": "bottom right", "cliponaxis": False,
         "name": curve.name,
         "line": {"color": colour, "width": 2.5}, "marker": {"size": 7, "color": colour},
         "meta": {"tier": curve.tier}, "customdata": list(curve.hover),
         "hovertemplate": "%{customdata}<extra></extra>"},
    ]  # fmt: skip
    if curve.alone:
        traces.append({
            "type": "scatter", "mode": "lines", "x": x, "name": "DRAM alone", "hoverinfo": "skip",
            "y": list(curve.alone), "meta": {"tier": "dram"},
            "line": {"color": palette.line("dram"), "width": 2, "dash": "dash"},
        })  # fmt: skip
    rows: list[list[Any]] = [["bytes", "part", "low", "high", *(["dram"] if curve.alone else [])]]
    rows += [list(each) for each in zip(curve.x, value, low, high, *filter(None, [curve.alone]), strict=True)]
    return Figure(
        curve.title, traces, _layout(curve), curve.note, csv=rows,
        narrow={"margin": {"l": 46, "r": 10}, "xaxis": {"nticks": 4}},
    )  # fmt: skip


def _layout(curve: _Curve) -> Layout:
    shown = curve.x[:: math.ceil(len(curve.x) / _MOST_TICKS)]
    ends = [math.log10(size / 2**30) for size in (curve.x[0], curve.x[-1])]
    margin = 0.03 * (ends[1] - ends[0])
    marks = [
        (size, text, number)
        for number, (text, size) in enumerate(curve.marks)
        if size and curve.x[0] <= size <= curve.x[-1]
    ]
    return figure.layout(
        400, {"l": 52, "r": 20, "t": 40, "b": 50},
        shapes=[figure.upright(size / 2**30, "dot" if number else "solid") for size, _, number in marks],
        annotations=[
            figure.upright_name(
                text or format_binary_bytes(size), size / 2**30, 0.02, "right" if number else "left"
            )
            for size, text, number in marks
        ],
        yaxis={"range": [0, 1.02], "tickformat": ".0%"},
        xaxis={
            "type": "log", "range": [ends[0] - margin, ends[1] + margin * (7 if curve.labels else 1)],
            "tickvals": [size / 2**30 for size in shown],
            "ticktext": [format_binary_bytes(size) for size in shown],
        },
    )  # fmt: skip


def _hover(size: int, each: CacheSize) -> str:
    assert each.answered, "only known sizes are drawn"
    share = (
        f"{100 * each.answered.value:.1f} % ({100 * each.answered.low:.1f} to {100 * each.answered.high:.1f})"
    )
    gain = each.of_disk_reads_now
    more = f"<br>{words(gain)} of the reads that disks answer now" if gain else ""
    return plotly_text(f"{format_binary_bytes(size)}: {share}", 200) + more
