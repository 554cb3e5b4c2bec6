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

pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize("factor", [1.5, 1.55, 3])
def test_one_round_on_a_side_decides_nothing(tmp_path: Path, factor: float) -> None:
    a = reports.analyse_series(synthetic.series(tmp_path / "a", rounds=2))
    result = compare_series(a, other(synthetic.series(tmp_path / "b", (1, factor, 4, 1)))).as_json()
    rows = [*result["rows"], *result["ratios"]]
    assert {(row["finding"], row["interval"]) for row in rows} == {(None, None)}
    assert all(row["range"][0] <= row["ratio"] <= row["range"][1] for row in rows)
    text = " ".join("\n".join(comparison_lines(ComparedSeries.from_json(result, "x"), 100)).split())
    assert "not known: one round on a side" in text and "differ by" not in text
    assert text.count("not known: one round") == len(result["rows"]) + 2


@pytest.mark.parametrize(("factor", "finding"), [(1.5, "same"), (1.7, "differs")])
def test_what_differs_is_known_by_the_scatter_of_rounds(tmp_path: Path, factor: float, finding: str) -> None:
    a = reports.analyse_series(synthetic.series(tmp_path / "a", rounds=7))
    b = other(synthetic.series(tmp_path / "b", (1, factor, 4, 1), rounds=7))
    result = compare_series(a, b.model_copy(update={"started_utc": "2026-11-22T05:00:00Z"}))
    rows = [row for row in result.rows if row.cell == "io-size=4k"]
    ratios = [row for row in result.ratios if row.to == "4k"]
    key = "nfs-server", "p50"
    found = {row.finding for row in (*rows, *ratios) if (row.layer, row.figure) == key}
    assert found == {finding}, result
    assert "All runs of B were measured after those of A" in result.conclusion[-1]


def test_excluded_cells_are_not_judged(tmp_path: Path) -> None:
    a = reports.analyse_series(synthetic.series(tmp_path / "a", (1, 1.5, 4, 1.2)))
    result = compare_series(a, other(synthetic.series(tmp_path / "b"))).as_json()
    assert {row["finding"] for row in result["rows"]} == {None}
    assert "excluded cells are not judged" in result["conclusion"][0]


def test_a_series_is_not_compared_with_itself(tmp_path: Path) -> None:
    series = reports.analyse_series(synthetic.series(tmp_path))
    with pytest.raises(ConfigError, match="on both sides"):
        compare_series(series, series)
