"""Cells of a series: verdicts, drift, what is excluded, ratios and their intervals."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reports
from kit.store.run_directory import RunDir
from kit.store.series import CellRow, Ratio, Series, SeriesRun, read_series, write_series
from reports.series.drift import drift_of
from reports.series.figures import figures_of
from reports.series.ratios import ratios_of
from reports.series.sentences import answer
from reports.statistics.ratios import mean
from tests.reports import synthetic_series as synthetic

pytestmark = pytest.mark.slow

WISH = {"axis": "io-size", "from": "512", "to": "4k", "phase": "write-slog", "layer": "nfs-server",
        "op": "write", "tier": "slog"}  # fmt: skip


def analysed(results: Path, *args: Any, **named: Any) -> Series:
    return reports.analyse_series(synthetic.series(results, *args, **named), ended=True)


def p50(series: Series, to: str) -> Ratio:
    return next(
        ratio for ratio in series.ratios if (ratio.to, ratio.layer, ratio.figure) == (to, "nfs-server", "p50")
    )


def test_each_cell_is_held_against_the_base(tmp_path: Path) -> None:
    series = analysed(tmp_path)
    assert (series.verdict, {cell.verdict for cell in series.cells}) == ("valid", {"valid"})
    assert p50(series, "4k").ratio == pytest.approx(1.5, rel=0.01)
    assert p50(series, "128k").ratio == pytest.approx(4, rel=0.01)
    assert p50(series, "4k").interval is None, "none is claimed for one round"


def test_the_median_lies_in_its_range(tmp_path: Path) -> None:
    row = analysed(tmp_path).cells[0].runs[0].rows[0]
    assert row.p50_us and row.p50_range_us and row.p50_range_us[0] < row.p50_us < row.p50_range_us[1]
    assert row.p50_range_us[1] / row.p50_range_us[0] < 1.02


def test_ranges_are_those_of_batches_and_hold_the_figure(tmp_path: Path) -> None:
    """The logarithm spreads by 0.04, so that of 4000 I/Os the median has a standard error of 0.08 %."""
    series = analysed(tmp_path)
    run = series.cells[1].runs[0]
    (row,) = [row for row in run.rows if row.layer == "nfs-server"]
    assert row.p99_us and row.p99_range_us and row.p99_range_us[0] < row.p99_us < row.p99_range_us[1]
    # The same number of I/Os in each interval: one more or less is all that is open.
    even = series.cells[0].runs[0]
    assert even.ios_per_s and even.ios_per_s_range
    assert even.ios_per_s_range[1] / even.ios_per_s == pytest.approx(1 + 2.3 / 4000, abs=1e-4)
    ratio = p50(series, "4k")
    assert ratio.range and ratio.range[0] < 1.5 < ratio.range[1]
    # Of the cell and of the base, that was measured twice. Where they lie in their bins adds to it.
    by_ranks = 1.96 * 1.25 * 0.04 / 4000**0.5 * (1 + 1 / 2) ** 0.5
    assert by_ranks < ratio.range[1] / ratio.ratio - 1 < 4 * by_ranks


def test_a_series_of_an_older_kit_has_no_ranges(tmp_path: Path) -> None:
    run = analysed(tmp_path).cells[0].runs[0]
    row = run.rows[0].model_copy(update={"p50_range_us": None, "p99_range_us": None})
    old = figures_of(run.model_copy(update={"rows": (row,), "ios_per_s_range": None}))
    new = figures_of(run)
    assert {figure.reach for figure in old.values()} == {None}
    key = row.layer, row.op, row.tier, "p50"
    assert old[key].minus(new[key]).range is None and mean([old[key], new[key]]).range is None


def test_rounds_give_intervals(tmp_path: Path) -> None:
    ratio = p50(analysed(tmp_path, rounds=3), "4k")
    assert ratio.rounds == 3 and ratio.interval
    assert ratio.interval[0] < 1.5 < ratio.interval[1] < 1.6


def test_a_ratio_has_the_scatter_of_its_own_rounds_alone(tmp_path: Path) -> None:
    """Other figures, whose rounds agree, lend nothing to one whose rounds do not."""
    series, wild = analysed(tmp_path, rounds=3), (0.9, 1.0, 1.1)
    cell = next(each for each in series.cells if each.name == "io-size=4k")
    runs = [
        run.model_copy(update={"rows": tuple(_slower(row, factor) for row in run.rows)})
        for run, factor in zip(cell.runs, wild, strict=True)
    ]
    cells = [
        each if each is not cell else each.model_copy(update={"runs": tuple(runs)}) for each in series.cells
    ]
    found = p50(series.model_copy(update={"ratios": ratios_of(series, cells)[0]}), "4k")
    reach = 4.303 * np.log(wild).std(ddof=1) / 3**0.5
    assert found.interval and np.log(found.interval[1] / found.interval[0]) / 2 == pytest.approx(
        reach, rel=0.02
    )


def _slower(row: CellRow, factor: float) -> CellRow:
    """Of the p50 at the server alone."""
    if row.layer != "nfs-server" or not row.p50_us:
        return row
    return row.model_copy(update={"p50_us": row.p50_us * factor, "p50_range_us": None})


def test_a_base_that_drifts_makes_the_cells_between_unknown(tmp_path: Path) -> None:
    series = analysed(tmp_path, (1, 1.5, 4, 1.2))
    assert series.verdict == "unknown" and not series.ratios
    assert [each.ok for each in series.drift if each.layer == "nfs-server"] == [False]
    assert all("drifted" in (cell.excluded or "") for cell in series.cells)


def test_a_base_that_is_known_too_little_says_so(tmp_path: Path) -> None:
    series = analysed(tmp_path, drift_max=0.001)
    assert {each.ok for each in series.drift} == {None} and series.verdict == "valid"
    assert "cannot be told of write-slog" in series.notes[0]


def test_a_base_within_the_bound_does_notdrift_of(tmp_path: Path) -> None:
    assert analysed(tmp_path, (1, 1.5, 4, 1.04)).verdict == "valid"


def test_the_median_of_a_mixture_of_tiers_does_notdrift_of(tmp_path: Path) -> None:
    """It jumps between tiers when their shares change by a little: each tier is judged by itself."""

    def row(tier: str, share: float, p50_us: float) -> CellRow:
        layer = "client" if tier == "all" else "nfs-server"
        return CellRow(
            layer=layer, op="read", tier=tier, count=4000, share=share, p50_us=p50_us,
            p50_range_us=(p50_us, p50_us), p99_us=None, mean_us=None, published_us=None,
        )  # fmt: skip

    cell = analysed(tmp_path).cells[0]
    both = [
        cell.model_copy(update={"again": again, "runs": (cell.runs[0].model_copy(update={"rows": rows}),)})
        for again, rows in (
            (False, (row("dram", 0.49, 6), row("l2arc", 0.51, 180), row("all", 1, 180))),
            (True, (row("dram", 0.51, 6), row("l2arc", 0.49, 280), row("all", 1, 20))),
        )
    ]
    judged = {each.tier: each.ok for each in drift_of(analysed(tmp_path / "b"), both)}
    assert judged == {"dram": True, "l2arc": False}


def test_a_run_that_cannot_be_trusted_is_kept_out_of_ratios(tmp_path: Path) -> None:
    path = synthetic.series(tmp_path)
    builds = reports.analyse_series(path).builds
    bad = synthetic.run(
        tmp_path, 77, {"write-slog": 150_000}, {"problems": [{"code": "error", "text": "the disk failed"}]}
    )
    series = _with_run(path, builds[1].name, bad)
    assert [cell.verdict for cell in series.cells] == ["valid", "unknown", "valid", "valid"]
    assert {ratio.to for ratio in series.ratios} == {"128k"}


def _with_run(path: Path, build: str, run: str) -> Series:
    series = read_series(path)
    builds = tuple(
        each.model_copy(update={"runs": (each.runs[0].model_copy(update={"run": run}),)})
        if each.name == build
        else each
        for each in series.builds
    )
    write_series(path, series.model_copy(update={"builds": builds}))
    return reports.analyse_series(path)


def test_a_run_that_is_gone_leaves_its_cells_unmeasured(tmp_path: Path) -> None:
    series = _with_run(synthetic.series(tmp_path), "io-size=4k", "20260101T000000Z-000000")
    assert series.cells[1].excluded == "not measured"
    assert series.verdict == "unknown" and "1 of 4 cells are not measured." in series.reasons


@pytest.mark.parametrize(
    ("limits", "verdict", "ok"),
    [
        ({"ratio_min": 1.0, "ratio_max": 2.0}, "valid", True),
        ({"ratio_max": 1.2}, "invalid", False),
        ({"ratio_min": 2.0}, "invalid", False),
        ({"ratio_min": 2.0, "tier": "l2arc"}, "unknown", None),
    ],
)
def test_ratios_are_expected(tmp_path: Path, limits: dict[str, Any], verdict: str, ok: bool | None) -> None:
    series = analysed(tmp_path, expect=[{**WISH, **limits}])
    assert (series.verdict, series.expect[0].ok) == (verdict, ok)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_limit_within_the_interval_of_the_ratio_is_open(tmp_path: Path, rounds: int) -> None:
    """A ratio just below 1.5 does not show that it is below: that is unknown, with what to do."""
    limit = p50(analysed(tmp_path, rounds=rounds), "4k").ratio
    for share, ok in ((0.9, True), (1.0001, None), (1.1, False)):
        series = analysed(tmp_path / str(share), rounds=rounds, expect=[{**WISH, "ratio_min": limit * share}])
        (judged,) = series.expect
        assert judged.interval and judged.ratio and judged.interval[0] < judged.ratio < judged.interval[1]
        assert judged.ok is ok, judged
        assert series.verdict == {True: "valid", None: "unknown", False: "invalid"}[ok]
        assert ok is not None or "--repeat" in judged.reason
        assert ok or (f"over {rounds} rounds" if rounds > 1 else "within this run") in judged.reason


def test_a_ratio_between_two_values_that_are_not_the_base(tmp_path: Path) -> None:
    series = analysed(tmp_path, expect=[{**WISH, "from": "4k", "to": "128k", "ratio_min": 2.5}])
    assert series.expect[0].ratio == pytest.approx(4 / 1.5, rel=0.02)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The latency.parquet files that are read."""
    read, found = reports.latency.read, []

    def counted(run: RunDir, *args: Any) -> Any:
        found.append(run.path)
        return read(run, *args)

    monkeypatch.setattr(reports.latency, "read", counted)
    return found


def _begun(path: Path) -> list[tuple[str, SeriesRun]]:
    """Take its runs out of series.json; returns them in the order in which they end, each with its build."""
    series = read_series(path)
    builds = tuple(build.model_copy(update={"runs": ()}) for build in series.builds)
    write_series(path, series.model_copy(update={"builds": builds}))
    return [(build.name, build.runs[turn]) for turn in range(series.repeat) for build in series.builds]


def _whole_anew(path: Path, build: str, run: SeriesRun) -> None:
    """Add the run, and read all runs again."""
    series = read_series(path)
    builds = tuple(
        each.model_copy(update={"runs": (*each.runs, run)}) if each.name == build else each
        for each in series.builds
    )
    write_series(path, series.model_copy(update={"builds": builds}))
    reports.analyse_series(path)


def test_a_series_that_grows_reads_each_run_once_and_says_the_same(tmp_path: Path, reads: list[Path]) -> None:
    """Three rounds with a base that drifts, and a run that is gone; two commands measure it."""
    wish = {**WISH, "ratio_max": 1.4}
    path = synthetic.series(tmp_path / "a", (1, 1.5, 4, 1.02), rounds=3, drift_max=0.01, expect=[wish])
    ended, commands = _begun(path), (0, 7)
    shutil.rmtree(path.parent / ended[9][1].run)
    other = tmp_path / "b" / "sizes" / path.name
    shutil.copytree(path.parent, other.parent)
    for number, (build, run) in enumerate(ended):
        reads.clear()
        if number in commands:
            ongoing = reports.OngoingSeries(path)
        ongoing.add(build, run)
        assert len(reads) == (number + 1 if number in commands else number != 9)
        _whole_anew(other, build, run)
        assert read_series(path) == read_series(other)
    reads.clear()
    series = reports.analyse_series(path, ended=True)
    assert len(reads) == len(ended) - 1
    reports.analyse_series(other, ended=True)
    for name in ("series.json", "report.html"):
        assert (path / name).read_bytes() == (other / name).read_bytes()
    assert any(not each.ok for each in series.drift) and [len(cell.runs) for cell in series.cells] == [
        3,
        2,
        3,
        3,
    ]


def test_a_series_that_grows_draws_no_page(tmp_path: Path) -> None:
    path = synthetic.series(tmp_path)
    build, run = _begun(path)[0]
    reports.OngoingSeries(path).add(build, run)
    assert not (path / "report.html").exists()
    assert [cell.verdict for cell in read_series(path).cells] == ["valid", None, None, None]


@pytest.mark.parametrize(("factors", "shown"), [((1, 1, 1, 1), False), ((1, 1.5, 4, 1), True)])
def test_the_largest_change_is_known_among_all(
    tmp_path: Path, factors: tuple[float, ...], shown: bool
) -> None:
    series = analysed(tmp_path, factors, rounds=3)
    said = answer(series, [], None)
    assert ("No change of p50 is shown" in said) is not shown
    assert ", all 2 ratios at once)" in said
