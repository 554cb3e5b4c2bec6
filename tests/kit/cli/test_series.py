"""`hsp show`, `export`, `compare`, `list` and `run --resume` of a series, through the command line."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import reports
from kit.config.testbed import LAB_TESTBED
from kit.recovery import registry
from tests.reports import synthetic_series as synthetic

SWEPT = (
    'format = 1\nname = "w"\ntitle = "W"\nbase = "top-speeds"\n[sweep.t]\nset = "job.numjobs"\nto = [1, 2]\n'
)


@pytest.fixture
def path(tmp_path):
    series = synthetic.series(tmp_path)
    reports.analyse_series(series, ended=True)
    return series


def test_report_draws_it_again(hsp_here, path, tmp_path):
    (path / "report.html").unlink()
    done = hsp_here("show", str(path), "--json", "--junit", str(tmp_path / "junit.xml"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "valid"
    assert (path / "report.html").exists()
    assert len(ET.parse(tmp_path / "junit.xml").getroot()[0]) == 4


def test_report_of_an_unmet_ratio_ends_with_1(hsp_here, tmp_path):
    wish = {"axis": "io-size", "from": "512", "to": "4k", "phase": "write-slog", "layer": "nfs-server",
            "op": "write", "tier": "slog", "ratio_max": 1.1}  # fmt: skip
    done = hsp_here("show", str(synthetic.series(tmp_path, expect=[wish])))
    assert done.returncode == 1
    said = " ".join(done.stdout.split())
    assert "FAILED" in said and "expected at most 1.1" in said


def test_export_is_one_table(hsp_here, path):
    done = hsp_here("show", str(path), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["io-size"] for row in rows if row["layer"] == "client"] == ["512", "4k", "128k", "512"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["show", "--format", "openmetrics"], "exported as csv or parquet"),
        (["run", "--resume"], "is complete"),
    ],
)
def test_what_a_series_cannot(hsp_here, path, words, problem):
    at = 2 if words[0] == "run" else 1
    done = hsp_here(*words[:at], str(path), *words[at:])
    assert done.returncode == 2 and problem in done.stderr


def test_compare_takes_one_series_a_side(hsp_here, path, tmp_path):
    run = next(each for each in path.parent.glob("2*"))
    for side in ([str(path), "--", str(run)], [str(path), str(path), "--", str(path)]):
        done = hsp_here("compare", *side)
        assert done.returncode == 2 and "one other series" in done.stderr


def kernel_of(series, kernel):
    for run in series.parent.glob("2*"):
        manifest = json.loads((run / "manifest.json").read_text())
        manifest["versions"]["kernel"] = kernel
        (run / "manifest.json").write_text(json.dumps(manifest))


def test_two_series_make_one_page_with_what_differs(hsp_here, path, tmp_path):
    other = synthetic.series(tmp_path / "other", id="series-20261121T060000Z-bbbbbb")
    reports.analyse_series(other, ended=True)
    kernel_of(path, "6.12")
    kernel_of(other, "6.1-<i>x")
    html = tmp_path / "both.html"
    done = hsp_here("compare", str(path), "--", str(other), "-o", str(html), "--json")
    assert done.returncode == 0, done.stderr
    page = html.read_text()
    assert "A: kernel 6.12" in page and "B: kernel 6.1-&lt;i&gt;x" in page and "<i>x" not in page
    assert "They differ in versions.kernel: A has" in page
    assert page.count('<th scope="row">') == len(json.loads(done.stdout)["rows"]) > 10
    assert f"html: {html}" in done.stderr


def test_list_has_series_and_runs(hsp_here, path):
    done = hsp_here("list", "--results", str(path.parent.parent), "--json")
    listed = {entry["run"]: entry for entry in json.loads(done.stdout)["runs"]}
    assert listed[synthetic.ID]["verdict"] == "valid" and len(listed) == 5


def test_a_run_of_a_series_is_resumed_with_it(hsp_here, path):
    run = next(each for each in path.parent.glob("2*"))
    mark = {"id": synthetic.ID, "build": "base", "round": 1}
    (run / "plan.json").write_text(json.dumps({"series": mark, "sources": ["a", "b"]}))
    done = hsp_here("run", "--resume", str(run))
    assert done.returncode == 2 and "a series is resumed as a whole" in done.stderr
    registry.remember(path.name, path)
    done = hsp_here("run", "--resume", str(run))
    assert done.returncode == 2 and f"hsp run --resume {path}" in done.stderr


def test_known_failures_of_a_sweep_are_looked_up_before_the_first_run(hsp_here, tmp_path):
    keys = {"axis": '"t"', "phase": '"read"', "op": '"read"', "tier": '"dram"', "from": 1, "to": 2}
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    expect = f"[[expect]]\n{lines}ratio_max = 2.0\n"
    workload, known = tmp_path / "w.toml", tmp_path / "known.toml"
    workload.write_text(SWEPT + expect)
    for check in ("EXPECT:read:read:dram:t:1:3", "EXPECT:read:read:dram:tt:1:2", "NO-SUCH"):
        known.write_text(f'[[known]]\ncheck = "{check}"\nreason = "r"\n')
        done = hsp_here("run", str(workload), "--known", str(known), "--results", str(tmp_path / "r"))
        assert done.returncode == 2 and "known.toml:2: known[0].check" in done.stderr
        assert not (tmp_path / "r").exists()
    # That of the axis is one, in a workload too.
    own = '[[known]]\ncheck = "EXPECT:read:read:dram:t:1:2"\nreason = "r"\n'
    workload.write_text(SWEPT + expect + own)
    assert hsp_here("plan", str(workload)).returncode == 0
    workload.write_text(SWEPT + expect + own.replace(":1:2", ":2:1"))
    done = hsp_here("plan", str(workload))
    assert done.returncode == 2 and "w.toml:" in done.stderr and "known[0].check" in done.stderr


def test_plan_lists_cells_and_shows_one_build(hsp_here, tmp_path):
    (tmp_path / "w.toml").write_text(SWEPT + 'phases = ["read"]\n')
    plan = json.loads(hsp_here("plan", str(tmp_path / "w.toml"), "--json").stdout)
    assert [cell["name"] for cell in plan["builds"][0]["cells"]] == ["base", "t=2", "base"]
    assert plan["aged_anew_seconds"] > plan["seconds"] > 0 and plan["builds"][0]["written"]
    shown = hsp_here("plan", str(tmp_path / "w.toml"))
    assert "3 measurements of 2 cells, 1 build:" in shown.stdout
    assert "written before anything is measured, by all builds:\n  " in shown.stdout
    assert "written before" not in hsp_here("plan", "addresses").stdout, "nothing is"
    assert "s if its SSDs are aged anew" in shown.stdout.split("time on this machine")[1]
    assert (
        "zpool create" in hsp_here("plan", str(tmp_path / "w.toml"), "--build", "base", "--commands").stdout
    )
    refused = hsp_here("plan", str(tmp_path / "w.toml"), "--build", "bas")
    assert refused.returncode == 2 and "there are: base" in refused.stderr


def test_plan_lists_the_phases_that_are_of_no_cell(hsp_here):
    plan = json.loads(hsp_here("plan", "stripes", "--json").stdout)
    names = ["settle", *(f"alone-ssd{number}" for number in range(7)), "together"]
    assert plan["builds"][0]["of_no_cell"] == names
    shown = hsp_here("plan", "stripes").stdout.splitlines()
    assert [line.split()[0] for line in shown if line.endswith(" no cell, measured once")] == names


def test_a_and_b_in_turn_are_no_series(hsp_here, tmp_path):
    (tmp_path / "w.toml").write_text(SWEPT)
    done = hsp_here("run", str(tmp_path / "w.toml"), "--versus-workload", "top-speeds", "--repeat", "2")
    assert done.returncode == 2 and "hsp compare SERIES_A -- SERIES_B" in done.stderr


def test_a_changed_workload_ends_the_series(hsp_here, tmp_path):
    (tmp_path / "w.toml").write_text(SWEPT)
    changes = {
        "sources": [str(tmp_path / "w.toml"), str(LAB_TESTBED)],
        "sets": ["job.bs=512"],
        "only": ["t=2"],
    }
    path = synthetic.series(tmp_path, **changes)
    done = hsp_here("run", "--resume", str(path), "--agree", path.name)
    assert done.returncode == 2 and "is not what the series began with" in done.stderr


def test_time_and_terabytes_of_a_sweep_are_said_first(hsp_here, tmp_path):
    """Each drive is filled once, though two builds have the first."""
    nas = (Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml").read_text()
    (tmp_path / "t.toml").write_text(nas.replace('role = "cache"', 'role = "log"\nidle = true'))
    words = "plan", "candidates", "--testbed", str(tmp_path / "t.toml")
    shown = hsp_here(*words)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[1].startswith("time ") and "1 GB/s to 100 MB/s" in lines[1]
    assert " TB are written before anything is measured" in lines[2]
    plan = json.loads(hsp_here(*words, "--json").stdout)
    assert [build["name"] for build in plan["builds"]] == ["base", "candidate=cache0", "base-again"]
    first, _, again = (build["seconds"] for build in plan["builds"])
    assert again < first / 5
    fills_s = sum(each["min_bytes"] for build in plan["builds"][:2] for each in build["written"]) / 1e9
    assert fills_s < plan["seconds"] < 1.2 * fills_s < plan["seconds_if_slow"] / 5
