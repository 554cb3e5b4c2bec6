"""Figures of a series along places: rate above latency, passes, what was never written, two series."""

from __future__ import annotations

from typing import Any

import pytest

from kit.store.series import Series
from reports.figures.figure import Figure
from reports.figures.runs.series import compared, figures
from reports.series.compare import compare_series
from tests.reports import addresses


def of(series: Series, phase: str = "read") -> Figure:
    return next(figure for axis, name, figure in figures(series) if (axis.name, name) == ("address", phase))


def lines(figure: Figure, axis: str) -> list[Any]:
    return [t for t in figure.data if t["mode"] == "lines+markers" and t["yaxis"] == axis]


def test_rate_and_latency_stand_over_the_address() -> None:
    figure = of(addresses.series({("read", "100"): addresses.DISK}))
    (latency,), (rate,) = lines(figure, "y"), lines(figure, "y2")
    assert latency["x"] == rate["x"] == [10.0 * tenth for tenth in range(10)]
    assert rate["y"] == [pytest.approx(each * 1e6) for each in addresses.DISK]
    assert figure.layout["xaxis"]["type"] == "linear" and figure.layout["xaxis"]["ticksuffix"] == " %"
    assert "xaxis3" not in figure.layout and figure.layout["shapes"] == []


def test_each_pass_has_a_line_beside_the_mean() -> None:
    figure = of(addresses.series({("read", "100"): addresses.DISK}, rounds=3))
    for axis, least in (("y", 1e-3), ("y2", 1e6)):
        passes = [t for t in figure.data if t["mode"] == "lines" and t["yaxis"] == axis]
        (mean,) = lines(figure, axis)
        assert [t["name"].rpartition(" ")[2] for t in passes] == ["1", "2", "3"]
        assert len({t["y"][0] for t in passes}) == 3 and all(t["line"]["width"] == 1 for t in passes)
        low, high = min(t["y"][0] for t in passes), max(t["y"][0] for t in passes)
        assert least < low < mean["y"][0] < high
    assert "Thin lines: each pass by itself." in figure.caption


def test_one_pass_has_no_second_line() -> None:
    assert not [t for t in of(addresses.half_filled()).data if t["mode"] == "lines"]


def test_what_was_never_written_is_shaded_on_both_panels() -> None:
    figure = of(addresses.half_filled())
    assert [(s["x0"], s["x1"], s["yref"]) for s in figure.layout["shapes"]] == [
        (50, 100, "y domain"), (50, 100, "y2 domain"),
    ]  # fmt: skip
    assert "Shaded: never written: answered from the map, without flash." in figure.caption
    assert any("filled 50 %<br>never written:" in each["text"] for each in figure.layout["annotations"])
    assert of(addresses.half_filled(), "write").layout["shapes"] == []


def test_stretches_apart_are_shaded_apart() -> None:
    rates = {("read", "50"): addresses.HALF, ("read", "100"): [160.0] * 10}
    figure = of(addresses.series(rates, half=("20", "30", "90")))
    assert [(s["x0"], s["x1"]) for s in figure.layout["shapes"][::2]] == [(20, 40), (90, 100)]


def test_reasons_are_said_once_with_their_cells() -> None:
    series = addresses.half_filled()
    cells = tuple(cell.model_copy(update={"excluded": "bound by CPU"}) for cell in series.cells[:2])
    figure = of(series.model_copy(update={"cells": (*cells, *series.cells[2:])}))
    assert figure.caption.endswith("Hollow: kept out of ratios. filled 100 % (0, 10): bound by CPU")


def test_crossed_lines_differ_in_name_dash_marker_and_hue() -> None:
    whole, half = lines(of(addresses.half_filled()), "y2")
    assert (whole["line"]["dash"], half["line"]["dash"]) == ("solid", "dash")
    assert whole["marker"]["symbol"][0] != half["marker"]["symbol"][0]
    assert whole["meta"]["tier"] != half["meta"]["tier"]
    names = [each["name"] for each in lines(of(addresses.half_filled()), "y")]
    assert names == ["filled 100 %", "filled 50 %"]


def test_the_table_has_line_and_what_was_never_written() -> None:
    head, *table = of(addresses.half_filled()).csv
    column = {name: [row[head.index(name)] for row in table] for name in ("line", "never_written", "address")}
    assert column["line"] == ["filled 100 %"] * 10 + ["filled 50 %"] * 10
    assert column["never_written"] == [0.0] * 15 + [1.0] * 5


def test_two_series_are_one_ratio_along_the_axis() -> None:
    a = addresses.series({("read", "100"): addresses.DISK})
    rates = [rate / 2 for rate in addresses.DISK[::3]]
    b = addresses.series({("read", "100"): rates}, addresses=addresses.ADDRESSES[::3], identity="bbbbbb")
    (figure,) = compared(compare_series(a, b), a)
    drawn = {trace["name"]: (trace["x"], trace["y"]) for trace in figure.data}
    assert drawn["all tiers p50"] == ([0, 30, 60, 90], [pytest.approx(2)] * 4)
    assert drawn["I/Os a second"] == ([0, 30, 60, 90], [pytest.approx(0.5)] * 4)
