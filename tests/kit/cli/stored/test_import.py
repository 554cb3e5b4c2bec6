"""hsp import."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import polars as pl
import pytest

from tests.kit.importers.samples import DATA, SUMMARIES
from tests.process import hsp

pytestmark = pytest.mark.slow

Called = Callable[..., subprocess.CompletedProcess[str]]


def test_the_command_makes_a_run_that_report_can_draw_again(tmp_path: Path) -> None:
    logs = [str(DATA / f"plain_clat.{n}.log") for n in (1, 2)]
    done = hsp("import", *logs, "--name", "mine", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verdict"] == "unknown"
    assert summary["reasons"] == ["Imported log: tiers and completeness are unknown."]
    assert sum(r["count"] for r in summary["rows"]) == 100
    run = tmp_path / "results" / "mine" / "latest"
    assert (tmp_path / summary["path"]).resolve() == run.resolve()
    names = {p.name for p in run.iterdir()}
    assert {"manifest.json", "latency.parquet", "summary.json", "report.html"} <= names
    again = hsp("show", str(run), "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["reasons"] == summary["reasons"]


def test_the_result_is_on_stdout_also_when_quiet(tmp_path: Path, hsp_here: Called) -> None:
    log = str(DATA / "plain_clat.1.log")
    loud = hsp_here("import", log, cwd=tmp_path)
    quiet = hsp_here("import", log, "--quiet", cwd=tmp_path)
    assert "drawing the report" in loud.stderr and "drawing the report" not in quiet.stderr
    for done in (loud, quiet):
        first, *_, run, report = done.stdout.splitlines()
        assert first == "IMPORTED  60 I/Os, 8/8 checks" and "drawing" not in done.stdout
        assert run.startswith("run:    results/import/") and report.startswith("report: file:///")


@pytest.mark.parametrize(
    ("content", "words", "counted"),
    [
        ((SUMMARIES / "bcc-log2.txt").read_text(), (), 1200),
        ("0.5 120\n1.5 130\n2 5e3\n", ("--from", "trace", "--unit", "us"), 3),
    ],
)
def test_standard_input_is_read_as_a_file(
    tmp_path: Path, content: str, words: tuple[str, ...], counted: int
) -> None:
    done = hsp("import", "-", *words, "--json", cwd=tmp_path, stdin=content, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert sum(row["count"] for row in json.loads(done.stdout)["rows"]) == counted
    # The copy is gone, and the run has no name of it.
    assert not list(tmp_path.glob("hsp-import-*"))
    (manifest,) = tmp_path.glob("results/import/2*/manifest.json")
    assert json.loads(manifest.read_text())["import"]["files"][0]["file"] == "standard input"


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        ("", (), "standard input: empty"),
        ("0 1\n0 x\n", ("--from", "trace", "--unit", "us"), "standard input, line 2: not two numbers"),
        ("1 2\n", ("-",), "standard input and standard input are the same file"),
        ("\0" * 300, (), "standard input, line 1: binary"),
    ],
)
def test_standard_input_that_cannot_be_read(
    tmp_path: Path, content: str, words: tuple[str, ...], said: str
) -> None:
    done = hsp("import", "-", *words, cwd=tmp_path, stdin=content)
    assert done.returncode == 2 and said in " ".join(done.stderr.split()), done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "results").exists()


def test_imports_of_one_second_have_their_order(tmp_path: Path, hsp_here: Called) -> None:
    """`hsp trend` orders by it; the names of runs have seconds, and then a random part."""
    log, paths = str(DATA / "plain_clat.1.log"), []
    for _ in range(3):
        paths.append(json.loads(hsp_here("import", log, "--json", "-q", cwd=tmp_path).stdout)["path"])
    begun = [json.loads((tmp_path / each / "manifest.json").read_text())["started_utc"] for each in paths]
    assert begun == sorted(set(begun)), begun


def test_a_file_whose_name_is_no_text(tmp_path: Path, hsp_here: Called) -> None:
    name = os.fsdecode(b"a\xff_lat.1.log")
    (tmp_path / name).write_text("0, 7, 0, 512, 0\n")
    done = hsp_here("import", name, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "results" / "import" / "latest"
    assert pl.read_parquet(run / "latency.parquet")["host"].to_list() == ["a?.1"]
    assert json.loads((run / "manifest.json").read_text())["import"]["files"][0]["file"] == "a?_lat.1.log"


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["gone.log"], "cannot be read"),
        (["."], "not a regular file"),
        ([str(DATA / "avg_lat.1.log")], "line 1: an average"),
        ([str(DATA / "plain_clat.1.log"), "--name", "../x"], "--name"),
        ([str(DATA / "plain_clat.1.log"), "--interval", "1us"], "--interval"),
        ([str(DATA / "plain_clat.1.log"), "--interval", "soon"], "--interval"),
        ([str(DATA / "plain_clat.1.log"), "--host", "a\nb"], "--host"),
        ([str(DATA / "plain_clat.1.log"), "--from", "csv"], "--from"),
    ],
)
def test_what_is_refused_leaves_no_run(tmp_path: Path, hsp_here: Called, args: list[str], error: str) -> None:
    done = hsp_here("import", *args, cwd=tmp_path)
    assert done.returncode == 2
    assert error in done.stderr and "Traceback" not in done.stderr
    assert not done.stdout and not list(tmp_path.glob("results/*/*"))


@pytest.mark.parametrize(("asked", "columns"), [([], (90, 110)), (["--interval", "1s"], (1, 1))])
def test_a_short_log_has_columns_that_show_it(
    tmp_path: Path, hsp_here: Called, asked: list[str], columns: tuple[int, int]
) -> None:
    """100 ms of I/Os, a millisecond apart: each a column, unless another interval is asked for."""
    log = tmp_path / "short_lat.1.log"
    log.write_text("".join(f"{ms}, {160_000 + ms}, 0, 512, 0, 0\n" for ms in range(100)))
    done = hsp_here("import", str(log), *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    stored = pl.read_parquet(tmp_path / "results" / "import" / "latest" / "latency.parquet")
    assert columns[0] <= stored["time_ns"].n_unique() <= columns[1] and stored["count"].sum() == 100


def _log(path: Path, latency_ns: Iterable[int]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{n}, {ns}, 0, 4096, 0, 0\n" for n, ns in enumerate(latency_ns)))
    return str(path)


def _imported(hsp_here: Called, tmp_path: Path, *logs: str) -> list[str]:
    made = [hsp_here("import", log, "--json", cwd=tmp_path) for log in logs]
    return [str(tmp_path / json.loads(each.stdout)["path"]) for each in made]


def test_a_log_that_was_imported_twice_is_one_measurement(tmp_path: Path, hsp_here: Called) -> None:
    """As two runs, it would show a difference, or a change, from no scatter at all. One copy is renamed."""
    random, logs = Random(1), []
    for name, least_ns in (("a", 160_000), ("b", 210_000)):
        took_ns = [least_ns + random.randrange(40_000) for _ in range(200)]
        logs += [_log(tmp_path / f"{name}{copy}_lat.1.log", took_ns) for copy in (1, 2)]
    a, copy, b, other = _imported(hsp_here, tmp_path, *logs)
    for words in (["compare", a, copy, "--", b, other], ["trend", a, copy, b], ["trend", a, b, other]):
        done = hsp_here(*words, cwd=tmp_path)
        assert done.returncode == 2 and "copies of one measurement" in done.stderr, done.stderr
    assert hsp_here("compare", a, "--", b, cwd=tmp_path).returncode == 0


def test_logs_by_a_coarse_clock_may_have_the_same_sum(tmp_path: Path, hsp_here: Called) -> None:
    """200 I/Os of 1 or 2 ms: that both logs have 100 of each is chance, and no copy."""
    took_ns = ([1_000_000 * (1 + (n + first) % 2) for n in range(200)] for first in (0, 1))
    a, b = _imported(
        hsp_here, tmp_path, *(_log(tmp_path / f"{n}_lat.1.log", ns) for n, ns in enumerate(took_ns))
    )
    done = hsp_here("compare", a, b, "--", a, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_conditions_of_an_import_stay_with_its_run(tmp_path: Path, hsp_here: Called) -> None:
    """And are said once for all files that have them."""
    logs = []
    for name in "abcde":
        logs.append(_log(tmp_path / f"{name}_lat.1.log", range(150_000, 150_100)))
        with Path(logs[-1]).open("a") as file:
            file.write("200, 15")
    first = hsp_here("import", *logs, "--op", "write", cwd=tmp_path)
    again = hsp_here("show", "import", cwd=tmp_path)
    for done in (first, again):
        said = " ".join(done.stdout.split())
        names = [Path(each).name for each in logs]
        assert f"- {names[0]}, {names[1]}, {names[2]} and 2 more: 1 left out: truncated last line." in said
        assert "- --op has no effect on files of the format fio-log." in said
    assert "warning" not in first.stderr
    notes = json.loads(hsp_here("show", "import", "--json", cwd=tmp_path).stdout)["notes"]
    assert len(notes) == 2
    page = (tmp_path / "results" / "import" / "latest" / "report.html").read_text()
    assert page.count("--op has no effect") == 1
