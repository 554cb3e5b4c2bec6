"""`hsp show --checks`: a stored run judged again, with what is stored beside it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import reports
from kit.config.workload_base import WORKLOADS
from kit.store.json_file import read_json, write_json
from tests.conftest import Called
from tests.reports import synthetic, synthetic_series
from tests.reports.features.forces import test_forces

pytestmark = pytest.mark.slow

_stored: dict[str, dict[str, bytes]] = {}


def stored(path: Path, p99_us_max: float = 100.0, **more: Any) -> Path:
    """A run with its report; what was made once is copied."""
    key = repr((path.name, p99_us_max, more))
    if key in _stored:
        path.mkdir(parents=True, exist_ok=True)
        for name, content in _stored[key].items():
            (path / name).write_bytes(content)
        return path
    manifest = {**synthetic.manifest(), **more}
    manifest["expect"][0]["p99_us_max"] = p99_us_max
    reports.analyse(synthetic.write(path, manifest, synthetic.latency()))
    _stored[key] = {file.name: file.read_bytes() for file in path.iterdir()}
    return path


def lines(hsp: Called, *arguments: object) -> tuple[int, dict[str, str]]:
    """The exit code, and outcome by id of one run."""
    done = hsp("show", "--checks", *map(str, arguments), "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["exit_code"] == done.returncode
    return done.returncode, {each["id"]: each["outcome"] for each in (*run["files"], *run["checks"])}


def test_a_run_as_it_was_stored(hsp_here: Called, tmp_path: Path) -> None:
    code, found = lines(hsp_here, stored(tmp_path / "a"))
    assert code == 0 and set(found.values()) == {"ok", "not available", "not asked for"}
    assert found["STORED-SUMMARY"] == "ok" and found["EXPECT:read:read:dram:p99_us_max"] == "ok"
    text = hsp_here("show", "--checks", str(tmp_path / "a")).stdout
    # What passed is a line, until it is asked for; then its words stand before its id.
    assert text.splitlines()[0] == f"VALID  {tmp_path / 'a'}" and "checks hold" in text.splitlines()[1]
    every = " ".join(hsp_here("show", "--checks", "--all", str(tmp_path / "a")).stdout.split())
    assert re.search(r" ok not so: [A-Z][^()]* \(LOST-EVENTS\)", every)


@pytest.mark.parametrize(("change", "words"), [
    ({"verdict": "valid"}, "the verdict is invalid, stored is valid"),
    ({"causes": []}, ""),
    ({"accounting": {"client_ios": 1, "server_ios": 1, "lost_events": 0, "phases": []}}, "client_ios is"),
    ({"rows": []}, "not stored"), ({"rows": 5}, "rows"), ({"run": "another"}, "stored is another"),
])  # fmt: skip
def test_a_summary_that_was_changed(
    hsp_here: Called, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    path = stored(tmp_path / "a", 1.0)
    write_json(path / "summary.json", read_json(path / "summary.json") | change)
    code, found = lines(hsp_here, path)
    assert (code, found["STORED-SUMMARY"]) == ((3, "failed") if words else (1, "ok"))
    assert words in hsp_here("show", "--checks", str(path), COLUMNS="400").stdout


@pytest.mark.parametrize(("change", "words"), [
    ({}, ""), ({"why": "in other words"}, ""),
    ({"p99_us": 1.0}, "p99_us of the forced writes of log is"),
    ({"records": 5}, "records of the forced writes of log is 1000, stored is 5"),
    ({"recovered": None}, "recovered of the forced writes of log is 1000, stored is None"),
    ({"durable": "memory"}, "durable of the forced writes of log is durable, stored is memory"),
    ({"phase": "other"}, "the forced writes of log is not stored; the forced writes of other is stored"),
])  # fmt: skip
def test_a_summary_of_forced_writes_that_was_changed(
    hsp_here: Called, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    rows = synthetic.table([(0, "log", "device", "log0", "write", "all", 98_304, 100_352, 1000)])
    path = tmp_path / "a"
    reports.analyse(synthetic.write(path, test_forces.manifest(), rows))
    summary = read_json(path / "summary.json")
    summary["forces"][0] |= change
    write_json(path / "summary.json", summary)
    code, found = lines(hsp_here, path)
    assert (code, found["STORED-SUMMARY"]) == ((3, "failed") if words else (0, "ok"))
    assert words in hsp_here("show", "--checks", str(path), COLUMNS="400").stdout


def test_a_plan_that_was_changed(hsp_here: Called, tmp_path: Path) -> None:
    from kit.config.testbed import LAB_TESTBED
    from kit.session.side import Side

    path = stored(tmp_path / "a")
    plan = Side("top-speeds", LAB_TESTBED).plan().as_json()
    write_json(path / "plan.json", plan | {"seed": 5})
    assert lines(hsp_here, path)[1]["PLAN-DIGEST"] == "ok"
    plan["workload"]["title"] = "another"
    for value in (plan, [], {"digest": 3}):
        write_json(path / "plan.json", value)
        code, found = lines(hsp_here, path)
        assert (code, found["PLAN-DIGEST"]) == (3, "failed")
        assert "checks hold" in (text := hsp_here("show", "--checks", str(path)).stdout)
        assert "1 of the stored files failed" in " ".join(text.split())


def test_several_runs_one_damaged(hsp_here: Called, tmp_path: Path) -> None:
    paths = [stored(tmp_path / "a"), stored(tmp_path / "b", 1.0), stored(tmp_path / "c")]
    (paths[2] / "manifest.json").write_text("{")
    junit = tmp_path / "junit.xml"
    done = hsp_here("show", "--checks", *map(str, paths), "--junit", str(junit))
    assert done.returncode == 2 and "NOT READABLE" in done.stdout and "Traceback" not in done.stderr
    assert junit.read_text().count("<testsuite ") == 2
    assert hsp_here("show", "--checks", *map(str, paths[:2])).returncode == 1
    assert hsp_here("show", "--checks", str(tmp_path / "none")).returncode == 2


def known_file(path: Path, check: str, until: str = "2999-12-31") -> str:
    path.write_text(f'[[known]]\ncheck = "{check}"\nreason = "firmware"\nissue = "#7"\nuntil = "{until}"\n')
    return str(path)


def test_known_then_new(hsp_here: Called, tmp_path: Path) -> None:
    path, file = stored(tmp_path / "a", 1.0), tmp_path / "known.toml"
    slow = "EXPECT:read:read:dram:p99_us_max"
    for command in (["show", "--checks"], ["show"]):
        done = hsp_here(*command, str(path), "--known", known_file(file, slow))
        assert done.returncode == 0 and "known until 2999-12-31: firmware (#7)" in " ".join(
            done.stdout.split()
        )
        assert hsp_here(*command, str(path), "--known", known_file(file, slow, "2020-01-01")).returncode == 1
        other = hsp_here(*command, str(path), "--known", known_file(file, "EXPECT:read:read:disk:*"))
        assert other.returncode == 1 and "remove it" in " ".join(other.stdout.split())
    hsp_here("show", str(path), "--known", known_file(file, slow))
    page = (path / "report.html").read_text()
    assert "Failed (known)" in page and "firmware (#7)" in page


@pytest.mark.parametrize(("text", "place"), [
    ('check = "NO-SUCH"\nreason = "r"', "known.toml:2: known[0].check: 'NO-SUCH' names no check"),
    ('check = "NOT-ENDED"\nreason = "r"', "known.toml:2: known[0].check: 'NOT-ENDED' is never excused"),
    ('check = "EXPECT:read:read:dram:p50_us_max"\nreason = "r"', "known.toml:2"),
    ('check = "THERMAL"\nreason = ""', "known.toml:3"), ('check = "THERMAL"', "known.toml:1"),
    ('check = "THERMAL"\nreason = "r"\nuntil = "soon"', "known.toml:4"),
    ('check = "THERMAL"\nreason = "r"\nuntil = 5', "known.toml:4: known[0].until: expected a string"),
    (
        'check = "THERMAL"\nreason = "r"\nuntil = 2026-01-01T10:00:00',
        "known.toml:4: known[0].until: expected a day alone, such as 2027-01-31, found 2026-01-01T10:00:00",
    ),
    ('check = "THERMAL"\nreason = "r"\nuntil = 10:00:00', "known.toml:4: known[0].until: expected a day"),
    ('check = "THERMAL"\nreason = 2026-01-01', "known.toml:3: known[0].reason: expected no date"),
    ('check = "THERMAL"\nreason = "r"\nuntil = "2026-1-1"', "known.toml:4"),
    ('check = "THERMAL"\nreason = "r"\nwhy = "x"', "known.toml:4"),
])  # fmt: skip
def test_an_entry_that_cannot_be(hsp_here: Called, tmp_path: Path, text: str, place: str) -> None:
    path, file = stored(tmp_path / "a"), tmp_path / "known.toml"
    file.write_text(f"[[known]]\n{text}\n")
    done = hsp_here("show", "--checks", str(path), "--known", str(file))
    assert done.returncode == 2 and place in done.stderr and not done.stdout


def test_a_day_needs_no_quotes_and_is_over_as_one_in_quotes(hsp_here: Called, tmp_path: Path) -> None:
    path, file = stored(tmp_path / "a", 1.0), tmp_path / "known.toml"
    for day, code in (("2999-12-31", 0), ("2020-01-01", 1)):
        known_file(file, "EXPECT:read:read:dram:p99_us_max")
        file.write_text(file.read_text().replace('"2999-12-31"', day))
        done = hsp_here("show", "--checks", str(path), "--known", str(file), "--json")
        assert done.returncode == code, done.stderr
        (entry,) = json.loads(done.stdout)["runs"][0]["entries"]
        assert entry["until"] == day


def test_an_entry_of_a_workload(hsp_here: Called, tmp_path: Path) -> None:
    text = (WORKLOADS / "top-speeds.toml").read_text()
    for job in WORKLOADS.glob("*.fio"):
        (tmp_path / job.name).write_text(job.read_text())
    mine = tmp_path / "mine.toml"
    mine.write_text(f'{text}\n[[known]]\ncheck = "EXPECT:read:read:l2arc:*"\nreason = "r"\n')
    assert hsp_here("plan", str(mine)).returncode == 0
    mine.write_text(f'{text}\n[[known]]\ncheck = "EXPECT:reed:*"\nreason = "r"\n')
    done = hsp_here("plan", str(mine))
    assert done.returncode == 2 and f"mine.toml:{text.count(chr(10)) + 3}: known[0].check" in done.stderr


def test_an_import_is_unknown_by_nature(hsp_here: Called, tmp_path: Path) -> None:
    log = tmp_path / "fio_lat.log"
    log.write_text("".join(f"{n}, {100000 + n}, 0, 4096, 0\n" for n in range(50)))
    done = hsp_here("import", str(log), "--results", str(tmp_path / "results"), "--json")
    path = json.loads(done.stdout)["path"]
    code, found = lines(hsp_here, path)
    assert code == 3 and found["IMPORTED"] == "not known" and found["LOST-EVENTS"] == "not available"
    assert "Unknown by nature: Imported" in " ".join(hsp_here("show", "--checks", path).stdout.split())
    known = known_file(tmp_path / "known.toml", "IMPORTED")
    assert lines(hsp_here, path, "--known", known)[0] == 0


def test_known_failures_of_several_runs_are_of_any_of_them(hsp_here: Called, tmp_path: Path) -> None:
    """The phases of a series' runs differ: an entry of one is no mistake for the others."""
    series, file = synthetic_series.series(tmp_path), tmp_path / "known.toml"
    reports.analyse_series(series)
    problems = {"problems": [{"code": "error", "text": "it failed"}]}
    run = synthetic_series.run(tmp_path, 77, {"write-pool": 150_000}, problems)
    other = str(series.parent / run)
    known = known_file(file, "ERROR:write-pool")
    assert hsp_here("show", "--checks", str(series), other, "--known", known).returncode == 3, (
        "it is of the whole run"
    )
    known = known_file(file, "LOST-EVENTS:write-pool")
    assert hsp_here("show", "--checks", str(series), other, "--known", known).returncode == 3
    done = hsp_here("show", "--checks", str(series), "--known", known)
    assert done.returncode == 2 and "known.toml:2: known[0].check" in done.stderr
    known = known_file(file, "ERROR")
    assert hsp_here("show", "--checks", str(series), other, "--known", known).returncode == 0


def test_a_run_of_a_series_that_was_deleted_is_one_line(hsp_here: Called, tmp_path: Path) -> None:
    series = synthetic_series.series(tmp_path)
    reports.analyse_series(series)
    gone = next(each for each in sorted(series.parent.glob("2*")))
    shutil.rmtree(gone)
    done = hsp_here("show", "--checks", str(series), "--json")
    assert done.returncode == 2 and f"{gone}: no such run directory" in done.stderr
    verdicts = [run["verdict"] for run in json.loads(done.stdout)["runs"]]
    assert verdicts == [None, "valid", "valid", "valid"]


@pytest.mark.parametrize(
    "words", [("show", "--checks"), ("show",), ("tag",), ("compare", "--baseline", "default")]
)
def test_what_is_no_run_is_named_with_one_that_is(
    hsp_here: Called, tmp_path: Path, words: tuple[str, ...]
) -> None:
    run = stored(tmp_path / "top-speeds" / "20261121T050001Z-000001")
    if words[0] == "compare":
        assert hsp_here("tag", str(run), "--results", str(tmp_path)).returncode == 0
    more = ("--results", str(tmp_path)) if words[0] == "compare" else ()
    for path in (tmp_path, tmp_path / "top-speeds"):
        done = hsp_here(*words, str(path), *more)
        assert done.returncode == 2 and f"{path} holds runs, and is not a run" in done.stderr
        assert f"such as {run}" in done.stderr
    if words[0] == "compare":
        series = synthetic_series.series(tmp_path)
        done = hsp_here(*words, str(series), *more)
        assert done.returncode == 2 and f"{series} is a series, not a run" in done.stderr
        assert f"name a run of it: {series.parent}/2" in done.stderr


def test_twice_is_the_same(hsp_here: Called, tmp_path: Path) -> None:
    path, xml = stored(tmp_path / "a", 1.0), [tmp_path / "1.xml", tmp_path / "2.xml"]
    found = [hsp_here("show", "--checks", str(path), "--junit", str(file)) for file in xml]
    assert found[0].stdout == found[1].stdout and xml[0].read_bytes() == xml[1].read_bytes()
