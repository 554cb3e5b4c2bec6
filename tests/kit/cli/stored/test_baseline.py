"""`hsp tag`: runs by name; moved, deleted and unlike ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kit.store.json_file import write_json
from tests.conftest import Called
from tests.reports import synthetic, synthetic_series


def stored(path: Path, seed: int = 1, zfs: str = "2.3.9", **more: object) -> Path:
    frame = synthetic.realistic(intervals=5, per_interval=90, seed=seed)
    manifest = synthetic.manifest(frame, 5)
    manifest |= {"run": path.name, "versions": {"zfs": zfs}, **more}
    synthetic.write(path, manifest, frame)
    return path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for number, name in enumerate(("a", "b"), 1):
        stored(tmp_path / "results" / "w" / name, number)
    return tmp_path / "results"


def test_a_run_is_compared_with_it(hsp_here: Called, results: Path) -> None:
    here = ["--results", str(results)]
    assert hsp_here("tag", str(results / "w" / "a"), "fw1", *here).returncode == 0
    assert json.loads((results / "baselines.json").read_text())["baselines"]["fw1"]["path"] == "w/a"
    b = str(results / "w" / "b")
    direct = hsp_here("compare", str(results / "w" / "a"), "--", b, "--json")
    done = hsp_here("compare", "--baseline", "fw1", b, *here, "--json")
    assert done.returncode == 0 and done.stdout == direct.stdout
    (listed,) = json.loads(hsp_here("list", "baselines", *here, "--json").stdout)["baselines"]
    assert (listed["name"], listed["found"]) == ("fw1", str(results / "w" / "a"))


def test_moved_and_deleted_runs(hsp_here: Called, results: Path) -> None:
    here, a, b = ["--results", str(results)], results / "w" / "a", str(results / "w" / "b")
    hsp_here("tag", str(a), *here)
    (results / "kept").mkdir()
    a.rename(results / "kept" / "a")
    assert hsp_here("compare", "--baseline", "default", b, *here).returncode == 0
    # Another run in its place is not it.
    stored(a, 3, run="another")
    assert "moved to kept/a" in hsp_here("list", "baselines", *here).stdout
    shutil.rmtree(results / "kept")
    done = hsp_here("compare", "--baseline", "default", b, *here)
    assert done.returncode == 2 and "is the run a, which is not at" in done.stderr
    assert "GONE: w/a" in hsp_here("list", "baselines", *here).stdout
    # A whole results directory may move.
    hsp_here("tag", b, *here)
    moved = results.rename(results.parent / "elsewhere")
    other = stored(moved / "w" / "c", 5)
    assert hsp_here("compare", "--baseline", "default", str(other), "--results", str(moved)).returncode == 0


def test_unlike_runs_and_unknown_ones_are_refused(hsp_here: Called, results: Path) -> None:
    here = ["--results", str(results)]
    unlike = stored(results / "w" / "c", 3, zfs="2.2.0")
    unknown = stored(results / "w" / "d", 4, problems=synthetic.problems("it was so"))
    smoke = stored(results / "w" / "e", 5, length="smoke")
    assert hsp_here("tag", str(unknown), *here).returncode == 3
    hsp_here("tag", str(results / "w" / "a"), *here)
    done = hsp_here("compare", "--baseline", "default", str(unlike), *here)
    assert done.returncode == 2 and "versions.zfs" in done.stderr
    assert (
        hsp_here(
            "compare", "--baseline", "default", str(unlike), "--across", "versions.zfs", *here
        ).returncode
        == 0
    )
    done = hsp_here("compare", "--baseline", "default", str(smoke), *here)
    assert done.returncode == 2 and "length" in done.stderr
    assert hsp_here("compare", "--baseline", "default", str(unknown), *here).returncode == 3


@pytest.mark.parametrize("value", [
    [], {"format": 2}, {"format": 1, "baselines": []}, {"format": 1, "baselines": {"default": {"path": 3}}},
    {"format": 1, "baselines": {"default": {"path": "../../etc", "run": "x", "set_utc": "y"}}},
    {"format": 1, "baselines": {"default": {"path": "..", "run": "x\x1b[31m", "set_utc": "y"}}},
])  # fmt: skip
def test_a_file_that_is_damaged(hsp_here: Called, results: Path, value: object) -> None:
    write_json(results / "baselines.json", value)
    done = hsp_here("compare", "--baseline", "default", str(results / "w" / "b"), "--results", str(results))
    assert done.returncode == 2 and "Traceback" not in done.stderr and "\x1b" not in done.stderr


def test_what_cannot_be(hsp_here: Called, results: Path) -> None:
    here, a = ["--results", str(results)], str(results / "w" / "a")
    assert "not a name" in hsp_here("tag", a, "../x", *here).stderr
    assert "no baseline 'default'" in hsp_here("compare", "--baseline", "default", a, *here).stderr
    assert hsp_here("tag", f"{a}:read", *here).returncode == 2
    hsp_here("tag", a, *here)
    b = str(results / "w" / "b")
    assert "the same run" in hsp_here("compare", "--baseline", "default", b, b, *here).stderr


def test_a_directory_a_series_and_the_baseline_itself_are_refused(hsp_here: Called, results: Path) -> None:
    here, a = ["--results", str(results)], str(results / "w" / "a")
    for words in (["list", "baselines"], ["tag", a], ["compare", "--baseline", "default", a]):
        done = hsp_here(*words, "--results", str(results / "none"))
        assert done.returncode == 2 and "none: no such directory" in done.stderr
    series = str(synthetic_series.series(results))
    assert "is a series" in hsp_here("tag", series, *here).stderr
    hsp_here("tag", a, *here)
    for run, words in ((series, "is a series"), (a, "is the baseline 'default' itself")):
        done = hsp_here("compare", "--baseline", "default", run, *here)
        assert done.returncode == 2 and words in done.stderr


def test_a_damaged_file_is_not_overwritten(hsp_here: Called, results: Path) -> None:
    (results / "baselines.json").write_text("{")
    done = hsp_here("tag", str(results / "w" / "a"), "--results", str(results))
    assert done.returncode == 2 and "or remove it and set each baseline again" in done.stderr
    assert (results / "baselines.json").read_text() == "{"


def test_what_a_baseline_was_is_said(hsp_here: Called, results: Path) -> None:
    here, (a, b) = ["--results", str(results)], (str(results / "w" / name) for name in "ab")
    assert hsp_here("tag", a, "fw1", *here).stderr == ""
    assert hsp_here("tag", a, "fw1", *here).stderr == ""
    assert hsp_here("tag", b, "fw1", *here).stderr.startswith("baseline fw1 was w/a, set 20")
