"""Known failures of a series: its verdict stays, and its exit code is 0 while nothing is new."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.session.presentation import code_of_series
from kit.store.checks.known_failures import Known
from kit.store.run_directory import RunDir
from kit.store.series import Series, read_series
from reports.output.junit import series_junit
from reports.output.series_table import series_lines
from tests.reports import synthetic_series as synthetic
from tests.reports.series.test_analyse import WISH, _with_run

RATIO = "EXPECT:write-slog:write:slog:io-size:512:4k"
LOST = Known(check="LOST-EVENTS", reason="a slow CPU", issue="#9")


def with_lost_events(results: Path, known: tuple[Known, ...], more: dict[str, Any] | None = None) -> Series:
    """A series whose cell of 4k lost events, which its run was given as known, or was not."""
    path = synthetic.series(results)
    reports.analyse_series(path)
    name = synthetic.run(results, 77, {"write-slog": 225_000}, more)
    run = RunDir(results / "sizes" / name)
    text = (run.path / "manifest.json").read_text()
    (run.path / "manifest.json").write_text(text.replace('"lost_events": 0', '"lost_events": 3'))
    reports.analyse(run, known=known)
    return _with_run(path, "io-size=4k", name)


def outcomes(series: Series) -> dict[str, str]:
    return {
        str(case.get("name")): case[0].tag for case in ET.fromstring(series_junit(series))[0] if len(case)
    }


def test_a_cell_that_is_unknown_for_a_known_reason_is_no_red(tmp_path: Path) -> None:
    known = with_lost_events(tmp_path / "a", (LOST,))
    assert (known.verdict, known.is_known, code_of_series(known)) == ("unknown", True, 0)
    assert outcomes(known) == {"io-size=4k": "skipped"}
    assert any(line.endswith("unknown (known)") for line in series_lines(known, 100))
    assert "write-slog io-size=4k (known)" in known.reasons[0]
    new = with_lost_events(tmp_path / "b", (LOST,), {"problems": [{"code": "error", "text": "it failed"}]})
    assert (new.is_known, code_of_series(new)) == (False, 3)
    assert outcomes(new) == {"io-size=4k": "error"}
    assert code_of_series(with_lost_events(tmp_path / "c", ())) == 3


def test_a_cell_that_is_not_measured_is_never_known(tmp_path: Path) -> None:
    series = with_lost_events(tmp_path, (LOST,))
    cells = tuple(cell.model_copy(update={"runs": (), "verdict": None}) for cell in series.cells[:1])
    assert not series.model_copy(update={"cells": (*cells, *series.cells[1:])}).is_known


@pytest.mark.parametrize(
    ("check", "until", "code"),
    [(RATIO, None, 0), ("EXPECT:write-slog:*", None, 0), (RATIO, "2020-01-01", 1), (f"{RATIO}:x", None, 1)],
)
def test_an_expectation_on_an_axis_can_be_known(
    tmp_path: Path, check: str, until: str | None, code: int
) -> None:
    entry = {"check": check, "reason": "why", **({"until": until} if until else {})}
    path = synthetic.series(tmp_path, expect=[{**WISH, "ratio_max": 1.1}], known=[entry])
    series = reports.analyse_series(path, ended=True)
    assert (series.verdict, code_of_series(series)) == ("invalid", code)
    assert list(outcomes(series).values()) == ["failure" if code else "skipped"]
    assert series.reasons[0].endswith("[known: why]") == (code == 0)
    # And it is stored so.
    assert read_series(path).is_known == (code == 0)


def test_a_run_is_not_told_of_what_other_cells_have(tmp_path: Path) -> None:
    """An entry of another cell's phase neither passes nor fails in it."""
    path = synthetic.series(tmp_path)
    run = RunDir(path.parent / read_series(path).builds[0].runs[0].run)
    known = (Known(check="LOST-EVENTS:other-phase", reason="r"), Known(check="LOST-EVENTS", reason="r"))
    assert [each.check for each in reports.judged(run, known).known] == ["LOST-EVENTS"]
