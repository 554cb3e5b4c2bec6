"""`hsp list`: every run of a results directory, whatever is beside it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.store.json_file import read_json, write_json
from tests.conftest import Called
from tests.reports import synthetic

RUNS = [f"2026112{day}T053000Z-ab12cd" for day in range(1, 5)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = synthetic.write(tmp_path_factory.mktemp("list") / "run", synthetic.manifest(), synthetic.latency())
    reports.analyse(run)
    return run.path


@pytest.fixture
def results(template: Path, tmp_path: Path) -> Path:
    """Four whole runs of two workloads, and `latest` beside them."""
    for number, name in enumerate(RUNS):
        path = tmp_path / "results" / ("top-speeds" if number % 2 else "ageing") / name
        shutil.copytree(template, path)
        manifest = read_json(path / "manifest.json")
        started = f"{name[:4]}-{name[4:6]}-{name[6:8]}T05:30:02Z"
        write_json(
            path / "manifest.json",
            manifest | {"run": name, "started_utc": started, "workload": path.parent.name},
        )
        (path.parent / "latest").unlink(missing_ok=True)
        (path.parent / "latest").symlink_to(name)
    return tmp_path / "results"


def listed(hsp_here: Called, results: Path) -> list[dict[str, Any]]:
    done = hsp_here("list", "--results", os.fspath(results), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["format"] == 1
    return list(answer["runs"])


def test_the_newest_is_first(hsp_here: Called, results: Path) -> None:
    done = hsp_here("list", "--results", os.fspath(results))
    assert (done.returncode, done.stderr) == (0, "")
    first = done.stdout.split("\n\n")[0].splitlines()
    assert first == [
        f"VALID  top-speeds  2026-11-24 05:30:02 UTC  {RUNS[3]}",
        "  Median latency of reads: SSD cache (L2ARC) 141 µs, disk 5.05 ms, 36 times",
        "    longer; of writes: log SSD (SLOG) 141 µs, disk 5.05 ms, 36 times longer.",
        f"  {results}/top-speeds/{RUNS[3]}",
    ]
    runs = listed(hsp_here, results)
    assert [run["run"] for run in runs] == RUNS[::-1]
    assert {run["verdict"] for run in runs} == {"valid"} and not any(run["problem"] for run in runs)


def test_the_directory_of_the_runs_can_be_named_too(hsp_here: Called, results: Path) -> None:
    assert len(listed(hsp_here, results / "ageing")) == 2


def test_no_runs(hsp_here: Called, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        assert listed(hsp_here, path) == []
        done = hsp_here("list", "--results", os.fspath(path))
        assert (done.returncode, done.stdout) == (0, "") and str(path) in done.stderr


def test_a_run_that_has_not_ended_and_one_that_was_not_analysed(hsp_here: Called, results: Path) -> None:
    (results / "ageing" / RUNS[2] / "summary.json").unlink()
    for file in ("manifest.json", "summary.json"):
        (results / "top-speeds" / RUNS[3] / file).unlink()
    killed, fresh, *_ = listed(hsp_here, results)
    assert killed["verdict"] is None and "has not ended" in killed["sentence"]
    assert killed["started_utc"] == "2026-11-24T05:30:00Z"
    assert fresh["verdict"] is None and f"hsp report {fresh['path']}" in fresh["sentence"]


def damage(results: Path, victim: Path) -> dict[str, str]:
    """Spoil all but one run; returns what is said of each path."""
    fifo, link = results / "ageing" / RUNS[0], results / "top-speeds" / RUNS[1]
    (fifo / "manifest.json").unlink()
    os.mkfifo(fifo / "manifest.json")
    (link / "summary.json").unlink()
    (link / "summary.json").symlink_to(victim)
    cut = results / "ageing" / RUNS[2]
    (cut / "summary.json").write_text('{"format": 1, "verdict": "\x1b[31m"')
    empty = results / "top-speeds" / "20261129T000000Z-abcdef"
    empty.mkdir()
    return {str(fifo): "manifest.json", str(link): "summary.json", str(cut): "summary.json"}


def test_damaged_runs_are_named_and_nothing_is_followed(
    hsp_here: Called, results: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere" / "w" / "20261130T000000Z-abcdef"
    elsewhere.mkdir(parents=True)
    (elsewhere / "manifest.json").write_text("{}")
    (results / "link").symlink_to(elsewhere.parent)
    (results / "ageing" / "20261130T000000Z-abcdef").symlink_to(elsewhere)
    (results / "wiped" / "S1-20261130T000000Z").mkdir(parents=True)
    (results / "a file").touch()
    expected = damage(results, elsewhere / "manifest.json")
    runs = listed(hsp_here, results)
    assert {run["path"]: run["problem"] for run in runs if run["problem"]}.keys() == expected.keys()
    for run in runs:
        assert expected.get(run["path"], "") in (run["problem"] or "")
    assert len(runs) == len(RUNS) + 1 and runs[0]["run"] == "20261129T000000Z-abcdef"
    done = hsp_here("list", "--results", os.fspath(results))
    assert done.returncode == 0 and done.stdout.count("DAMAGED") == 3 and "\x1b" not in done.stdout


@pytest.mark.parametrize("bands", [[{}], [{"kernel": None, "bands": 5}], [{"kernel": None, "bands": [1, 2]}]])
def test_damaged_bands_are_named_with_their_file(hsp_here: Called, results: Path, bands: list[Any]) -> None:
    path = results / "ageing" / RUNS[0] / "summary.json"
    write_json(path, read_json(path) | {"bands": bands})
    (damaged,) = (run for run in listed(hsp_here, results) if run["problem"])
    assert damaged["problem"].startswith(f"{path}: bands[0]")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_strangers_run_is_named_and_not_read(hsp_here: Called, results: Path) -> None:
    os.chown(results / "ageing" / RUNS[0], 65534, 65534)
    (stranger,) = (run for run in listed(hsp_here, results) if run["problem"])
    assert "not to you" in stranger["problem"] and stranger["verdict"] is None
