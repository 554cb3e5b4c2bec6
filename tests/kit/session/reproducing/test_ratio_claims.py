"""Claims of the ratios of a sweep, against series with known ratios."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.core.errors import ConfigError
from kit.session.reproducing import claims
from kit.session.reproducing.claims import ClaimedRatio, DocumentedClaim
from kit.session.side import Side
from kit.store.run_directory import RunDir
from tests.reports import synthetic_series

LOW, HIGH = 1.2, 1.8
RATIO = ClaimedRatio("io-size", "4k", "write-slog", "write", LOW, HIGH, 1.5)
CLAIM = DocumentedClaim("sizes", "Writes by size", "sizes", 1, 2, "series-x", ratios=(RATIO,))
OF_SWEEPS = [each for each in claims.claims() if each.ratios]
# What the client sees more than the server, of the base.
MORE = synthetic_series.CLIENT_NS / synthetic_series.MEDIAN_NS


def series(folder: Path, ratio: float = 1.5, **changes: Any) -> RunDir:
    """Whose 4 KiB writes take `ratio` times as long at the client as those of 512 B."""
    path = synthetic_series.series(folder, (1, ratio * (1 + MORE) - MORE, 4, 1), **changes)
    reports.analyse_series(path, ended=True)
    return RunDir(path)


@pytest.mark.parametrize(
    ("ratio", "state", "code"),
    [(1.5, "pass", 0), (LOW * 1.02, "pass", 0), (LOW * 0.98, "fail", 1), (2.5, "fail", 1)],
)
def test_a_ratio_passes_within_the_limits_alone(tmp_path: Path, ratio: float, state: str, code: int) -> None:
    judged = claims.judge(CLAIM, series(tmp_path, ratio))
    (figure,) = judged.figures
    assert (judged.state, judged.exit_code, figure.state) == (state, code, state)
    assert figure.found == pytest.approx(ratio, rel=0.01) and (figure.low, figure.high) == (LOW, HIGH)
    text = " ".join(" ".join(judged.lines(200)).split())
    assert "1.2 to 1.8 times" in text and f"{figure.found:.2f} times {state}" in text


@pytest.mark.parametrize(
    "changes",
    [{"emulated": False}, {"name": "others"}, {"quick": True}, {"only": ["base"]}, {"sets": ["job.bs=4k"]}],
    ids=str,
)
def test_a_series_of_something_else_or_of_a_part_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="'sizes' is about sizes in the built-in lab, whole"):
        claims.judge(CLAIM, series(tmp_path, **changes))


def test_a_series_that_has_not_ended_is_refused(tmp_path: Path) -> None:
    path = synthetic_series.series(tmp_path)
    reports.analyse_series(path)
    with pytest.raises(ConfigError, match="in part"):
        claims.judge(CLAIM, RunDir(path))


def test_a_ratio_that_was_not_measured_is_not_known(tmp_path: Path) -> None:
    judged = claims.judge(replace(CLAIM, ratios=(replace(RATIO, phase="read"),)), series(tmp_path))
    (figure,) = judged.figures
    assert (judged.state, figure.found) == ("unknown", None) and "not known" in " ".join(judged.lines(200))


def test_a_run_is_not_judged_by_a_claim_of_a_sweep_nor_a_sweep_by_one_of_a_run(tmp_path: Path) -> None:
    found = series(tmp_path)
    name = synthetic_series.run(tmp_path / "one", 1, {"write-slog": 150_000})
    with pytest.raises(ConfigError):
        claims.judge(CLAIM, RunDir(tmp_path / "one" / "sizes" / name))
    (of_tiers,) = claims.chosen(["main-job"])
    with pytest.raises(ConfigError, match="'main-job' is about top-speeds"):
        claims.judge(of_tiers, found)


def test_a_series_that_is_not_valid_decides_nothing(tmp_path: Path) -> None:
    """Here its base drifts, which leaves nothing to compare with."""
    path = synthetic_series.series(tmp_path, (1, 1.5, 4, 1.5))
    reports.analyse_series(path, ended=True)
    judged = claims.judge(CLAIM, RunDir(path))
    assert judged.state == "unknown" and judged.reasons[0] == "The series is unknown."


@pytest.mark.parametrize("claim", OF_SWEEPS, ids=lambda each: each.name)
def test_each_ratio_that_is_claimed_is_one_that_the_workload_measures(claim: DocumentedClaim) -> None:
    planned = Side.of(claim.workload, None).sweep()
    assert planned is not None and claim.run.startswith("series-")
    cells = {(cell.phase, frozenset(cell.at.items())) for cell in planned.cells}
    for ratio in claim.ratios:
        assert 0 < ratio.ratio_min <= ratio.measured <= ratio.ratio_max
        beside = {*ratio.beside.items()}
        assert {
            (ratio.phase, frozenset(beside)),
            (ratio.phase, frozenset({*beside, (ratio.axis, ratio.to)})),
        } <= cells
