"""A series for the terminal, for CI servers and for other programs."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

import reports
from kit.core.errors import ConfigError
from kit.store.parts.comparison import ComparedSeries
from kit.store.series import Series
from reports.output.export import exported
from reports.output.series_export import frame
from reports.output.series_table import comparison_lines
from reports.series.compare import compare_series
from tests.reports import synthetic_series as synthetic


def test_export_has_the_axes_first(tmp_path: Path) -> None:
    series = reports.analyse_series(synthetic.series(tmp_path))
    table = pl.read_csv(io.BytesIO(exported(frame(series), "csv", None)))
    assert table.columns[:2] == ["io-size", "phase"]
    four = table.filter((pl.col("io-size") == "4k") & (pl.col("layer") == "nfs-server"))
    assert four["p50_ratio"].item() == pytest.approx(1.5, rel=0.01)
    assert pl.read_parquet(io.BytesIO(exported(frame(series), "parquet", None))).height == table.height == 8


def test_two_series_are_compared_cell_by_cell(tmp_path: Path) -> None:
    a = reports.analyse_series(synthetic.series(tmp_path / "a", rounds=2))
    path = synthetic.series(tmp_path / "b", (1, 3, 4, 1), rounds=2)
    b = reports.analyse_series(path).model_copy(update={"id": "series-20261121T060000Z-bbbbbb"})
    result = compare_series(a, b).as_json()
    rows = {
        row["cell"]: row for row in result["rows"] if (row["layer"], row["figure"]) == ("nfs-server", "p50")
    }
    assert rows["io-size=4k"]["ratio"] == pytest.approx(2, rel=0.02)
    assert rows["base"]["interval"][0] < 1 < rows["base"]["interval"][1]


def other(path: Path) -> Series:
    return reports.analyse_series(path).model_copy(update={"id": "series-20261121T060000Z-bbbbbb"})


@pytest.mark.parametrize(
    ("factor", "findings"),
    [(1.5, {"same"}), (1.55, {"differs", "open"}), (1.53, {"same", "open"}), (3, {"differs"})],
)
def test_what_differs_is_known_from_the_number_of_ios(
    tmp_path: Path, factor: float, findings: set[str]
) -> None:
    a = reports.analyse_series(synthetic.series(tmp_path / "a"))
    result = compare_series(a, other(synthetic.series(tmp_path / "b", (1, factor, 4, 1)))).as_json()
    rows = [row for row in result["rows"] if row["cell"] == "io-size=4k" and row["layer"] == "nfs-server"]
    ratios = [row for row in result["ratios"] if row["to"] == "4k" and row["layer"] == "nfs-server"]
    assert {row["finding"] for row in (*rows, *ratios)} <= findings
    assert all(row["range"][0] < row["ratio"] < row["range"][1] for row in (*rows, *ratios))
    text = "\n".join(comparison_lines(ComparedSeries.from_json(result, "x"), 100))
    assert ("ratios to the base that differ" in text) == ("differs" in {row["finding"] for row in ratios})


def test_few_ios_leave_a_comparison_open(tmp_path: Path) -> None:
    series = reports.analyse_series(synthetic.series(tmp_path))
    wide = [
        cell.model_copy(update={"runs": tuple(
            run.model_copy(update={"ios_per_s_range": None, "rows": tuple(
                row.model_copy(update={"p50_range_us": (1.0, 1e6), "p99_range_us": None}) for row in run.rows
            )}) for run in cell.runs
        )}) for cell in series.cells
    ]  # fmt: skip
    changes = {"id": "series-20261121T060000Z-bbbbbb", "cells": tuple(wide), "ratios": ()}
    result = compare_series(series, series.model_copy(update=changes)).as_json()
    assert {row["finding"] for row in result["rows"]} == {"open"} and not result["ratios"]
    assert f"0 of {len(result['rows'])} differ" in result["conclusion"][0]


def test_excluded_cells_are_not_judged(tmp_path: Path) -> None:
    a = reports.analyse_series(synthetic.series(tmp_path / "a", (1, 1.5, 4, 1.2)))
    result = compare_series(a, other(synthetic.series(tmp_path / "b"))).as_json()
    assert {row["finding"] for row in result["rows"]} == {None}
    assert "excluded cells are not judged" in result["conclusion"][0]


def test_a_series_is_not_compared_with_itself(tmp_path: Path) -> None:
    series = reports.analyse_series(synthetic.series(tmp_path))
    with pytest.raises(ConfigError, match="on both sides"):
        compare_series(series, series)
