"""series.json: read as it was written; that of a stranger names no other place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.core.errors import ConfigError
from kit.store.series import Series, create_series, is_series, read_series, run_of, write_series
from tests.reports import synthetic_series
from tests.reports.synthetic_series import document


def written(folder: Path, **changes: Any) -> Path:
    path = create_series(folder, "sizes")
    (path / "series.json").write_text(
        json.dumps({**document([{"name": n, "digest": ""} for n in BUILDS]), **changes})
    )
    return path


BUILDS = ("base", "io-size=4k", "io-size=128k", "base-again")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    series = read_series(path)
    write_series(path, series)
    assert read_series(path) == series
    assert is_series(path) and not is_series(tmp_path)


def test_keys_of_a_newer_version_are_kept(tmp_path: Path) -> None:
    path = written(tmp_path, later=3)
    write_series(path, read_series(path))
    assert json.loads((path / "series.json").read_text())["later"] == 3


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"format": 2}, "format 2, hsp .* reads format 1$"),
        ({"repeat": 0}, "repeat"),
        ({"builds": []}, "is of no build"),
        ({"axes": []}, "no axis has the value io-size=4k"),
        ({"builds": [{"name": "base", "digest": "", "runs": [{"run": "../../etc", "round": 1}]}]}, "pattern"),
        ({"cells": 3}, "cells"),
    ],
)
def test_damage_is_refused(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_series(written(tmp_path, **changes))


def test_a_run_is_beside_the_series(tmp_path: Path) -> None:
    path = written(tmp_path)
    with pytest.raises(ConfigError, match="no such run directory"):
        run_of(path, "20260101T000000Z-000000")


def test_a_value_of_another_axis_is_missing_where_it_is_not_about_the_phase(tmp_path: Path) -> None:
    series = read_series(written(tmp_path))
    axis = series.axes[0]
    assert [series.value_of(cell, axis) for cell in series.cells] == ["512", "4k", "128k", "512"]
    assert series.value_of(series.cells[0], axis.model_copy(update={"phases": ("read",)})) is None
    assert isinstance(series, Series)


def test_where_two_axes_have_a_key_only_one_has_a_value(tmp_path: Path) -> None:
    """A cell whose io-size sets the record size has none on the axis of record sizes."""
    series = read_series(written(tmp_path))
    size = series.axes[0].model_copy(update={"keys": ("job.bs", "dataset.recordsize")})
    named = {"name": "record", "keys": ("dataset.recordsize",), "values": ("512", "8k")}
    record = size.model_copy(update=named)
    both = series.model_copy(update={"axes": (size, record)})
    assert [both.value_of(cell, record) for cell in both.cells] == ["512", None, None, "512"]


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("cells.1.runs.0.rows.0.p50_us", 1e6, "p50_us is 1000000.0, its range"),
        ("cells.1.runs.0.rows.0.p99_us", 1.0, "p99_us is 1.0, its range"),
        ("cells.1.runs.0.rows.0.p99_us", 1e300, "p99_us"),
        ("cells.1.runs.0.rows.0.count", -1, "count"),
        ("cells.1.runs.0.rows.0.share", 1.5, "share"),
        ("cells.1.runs.0.ios_per_s", -1.0, "ios_per_s"),
        ("cells.1.runs.0.round", 0, "round"),
        ("builds.1.runs.0.round", 1 << 40, "round"),
        ("ratios.0.ratio", 99.0, "ratio is 99.0, its range"),
        ("ratios.0.interval", [1.0, 2.0], "of 1 rounds"),
        ("drift.0.ratio", 1e300, "ratio"),
    ],
)
def test_a_figure_that_cannot_be_is_refused(
    analysed: dict[str, Any], tmp_path: Path, place: str, value: Any, problem: str
) -> None:
    changed = copy.deepcopy(analysed)
    parent: Any = changed
    *above, last = place.split(".")
    for key in above:
        parent = parent[int(key)] if key.isdigit() else parent[key]
    assert parent[last] != value
    parent[last] = value
    (tmp_path / "series.json").write_text(json.dumps(changed))
    with pytest.raises(ConfigError, match=problem):
        read_series(tmp_path)


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = synthetic_series.series(tmp_path_factory.mktemp("series"))
    reports.analyse_series(path, ended=True)
    value: dict[str, Any] = json.loads((path / "series.json").read_text())
    return value
