"""RUN on the command line: which directory a name is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kit.store.run_name import find_run

SERIES, FIRST, LAST, OTHER = (
    "series-20261128T141238Z-6e0839", "20261128T141238Z-c627a9", "20261128T141953Z-97073e",
    "20261128T151953Z-000001",
)  # fmt: skip


def swept(results: Path, runs: dict[str, object]) -> Path:
    """A workload's folder with a series, and the plan of each run."""
    folder = results / "which-ssd"
    (folder / SERIES).mkdir(parents=True)
    for name, plan in runs.items():
        (folder / name).mkdir()
        if plan is not None:
            (folder / name / "plan.json").write_text(json.dumps(plan))
    (folder / "latest").symlink_to([*runs][-1])
    return folder


def test_the_latest_of_a_workload_that_sweeps_is_its_series(tmp_path: Path) -> None:
    mark = {"series": {"id": SERIES, "build": "base-again", "round": 1}}
    folder = swept(tmp_path, {FIRST: mark, LAST: mark})
    assert find_run("which-ssd", tmp_path) == folder / SERIES
    assert find_run("which-ssd", tmp_path, alone=True) == folder / "latest"
    assert find_run(LAST, tmp_path) == folder / LAST


@pytest.mark.parametrize(
    "plan", [{}, None, [], {"series": None}, {"series": {"id": "series-20200101T000000Z-000000"}},
             {"series": {"id": "../other"}}, {"series": {"id": LAST}, "x": 1}]
)  # fmt: skip
def test_a_run_of_no_series_that_is_there_is_the_latest(tmp_path: Path, plan: object) -> None:
    mark = {"series": {"id": SERIES}}
    folder = swept(tmp_path, {FIRST: mark, OTHER: plan})
    found = find_run("which-ssd", tmp_path)
    assert found == folder / "latest"
