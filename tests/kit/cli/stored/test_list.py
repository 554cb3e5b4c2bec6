"""`hsp list`: every run of a results directory, whatever is beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.store.json_file import read_json, write_json
from tests.conftest import Called
from tests.reports import synthetic

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[4]
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


def test_that_filters_leave_nothing_is_said(hsp_here: Called, results: Path) -> None:
    done = hsp_here("list", "--results", os.fspath(results), "--workload", "nosuch")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"no such runs in {results}\n")


def test_the_newest_is_first(hsp_here: Called, results: Path) -> None:
    done = hsp_here("list", "--results", os.fspath(results))
    assert (done.returncode, done.stderr) == (0, "")
    # In a pipe: a row a run, whole.
    first = done.stdout.splitlines()[0].split("\t")
    assert first[:3] == ["VALID", "top-speeds", "2026-11-24T05:30:02Z"]
    assert first[3].startswith("read DRAM 6.17 µs, L2ARC 142 µs, disk 5.05 ms; write SLOG 142 µs")
    assert first[4] == f"{results}/top-speeds/{RUNS[3]}" and len(done.stdout.splitlines()) == len(RUNS)
    runs = listed(hsp_here, results)
    assert [run["run"] for run in runs] == RUNS[::-1]
    first = runs[0]["rows"][0]
    key = {"phase": "read", "layer": "nfs-server", "op": "read", "tier": "dram"}
    assert first == {**key, "p50_us": pytest.approx(6.17, abs=0.005)}
    assert {run["verdict"] for run in runs} == {"valid"} and not any(run["problem"] for run in runs)


def test_runs_are_chosen_and_named(hsp_here: Called, results: Path) -> None:
    here = ["--results", os.fspath(results)]
    done = hsp_here("list", "-n", "1", "--workload", "ageing", "--verdict", "valid", *here)
    assert [line.split("\t")[4] for line in done.stdout.splitlines()] == [f"{results}/ageing/{RUNS[2]}"]
    assert hsp_here("list", "--verdict", "failed", *here).stdout == ""
    for words, run in (([], RUNS[3]), (["ageing"], RUNS[2]), ([RUNS[1][:8]], RUNS[1])):
        assert f"/{run}\n" in hsp_here("show", *words, *here).stdout
    for name, said in (
        ("2026112", "4 runs begin with '2026112'"), ("ageing-", "did you mean ageing?"),
        ("nothing", "no such run directory, nor a workload"),
    ):  # fmt: skip
        done = hsp_here("show", name, *here)
        assert done.returncode == 2 and said in done.stderr


def test_on_a_terminal_a_run_is_a_row_with_its_verdict_in_colour(
    results: Path,
) -> None:
    done = on_a_terminal("list", "--results", os.fspath(results))
    head, *rows = done.splitlines()
    assert head.split() == "verdict workload age p50 at the NFS server run".split() and len(rows) == len(RUNS)
    assert rows[0].startswith("\x1b[32mVALID\x1b[0m") and max(map(len, rows)) <= 80 + len("\x1b[32m\x1b[0m")
    for more in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal("list", "--results", os.fspath(results), **more)
    assert "\x1b" not in on_a_terminal("list", "--results", os.fspath(results), "--color", "never")


def on_a_terminal(*words: str, **environ: str) -> str:
    """What a process writes to a terminal of 80 columns."""
    ours, theirs = os.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "kit.cli", *words], stdout=theirs, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT), "TERM": "xterm", "COLUMNS": "80", **environ},
    )  # fmt: skip
    os.close(theirs)
    text = b""
    # Where the other end is closed, Linux says EIO.
    with contextlib.suppress(OSError):
        while more := os.read(ours, 65536):
            text += more
    os.close(ours)
    assert done.wait(60) == 0
    return text.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("kind", "said"), [
    ("workloads", "top-speeds\t2 min\tHybrid storage pool: top speeds\n"),
    ("presets", "disk-7200\t"), ("labs", "image: "),
])  # fmt: skip
def test_other_lists(hsp_here: Called, kind: str, said: str) -> None:
    done = hsp_here("list", kind)
    assert (done.returncode, done.stderr) == (0, "") and said in done.stdout
    refused = hsp_here("list", kind, "-n", "3")
    assert refused.returncode == 2 and "--number has no effect" in refused.stderr


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
    assert fresh["verdict"] is None and f"hsp show {fresh['path']}" in fresh["sentence"]


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
