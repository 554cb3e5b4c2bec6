"""`hsp compare`, through the command line."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from kit.store.json_file import write_json
from reports.comparison import in_turn
from reports.verdict.appliance import UNSEEN
from reports.verdict.verdict import IMPORTED
from tests.reports import drawn, synthetic

pytestmark = pytest.mark.slow


def version(value):
    return lambda manifest: manifest["versions"].update(zfs=value)


def test_the_real_command(make_run):
    names = [make_run(f"run{n}", n) for n in range(4)]
    command = [sys.executable, "-m", "kit.cli", "compare", *names[:2], "--", *names[2:], "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["runs"] == {"a": ["run0", "run1"], "b": ["run2", "run3"]}
    assert result["conclusion"] == "no difference shown" and result["unit"] == "run"


def with_machines(manifest):
    """With the heat and the clock of the machine."""
    for phase in manifest["phases"]:
        check = {"id": "CLOCK-STEP", "of": "lab", "name": "wall clock step of lab, in us", "source": "clock"}
        check |= {"expected": 0, "found": -300_000, "tolerance": 1_001_000, "ok": True}
        check["instrument"] = "host-health"
        phase["checks"].append(check)
        missing = {"id": "THERMAL", "of": "lab", "name": "thermal throttling of lab", "source": "/sys"}
        phase["unavailable"] = [{**missing, "why": "not available: this host does not count it"}]
        span = {"time_ns": phase["start_ns"], "end_ns": phase["end_ns"]}
        phase["events"] = [{**span, "kind": "clock-step", "text": "wall clock of lab set by -0.300000 s"}]
        phase["machines"] = [{"host": "lab", "throttled": None, "clock_step_ns": -300_000_000}]


def test_what_the_machines_say_is_reported(hsp, make_run):
    run = make_run("a", 1, with_machines)
    code, _, err = hsp("show", run)
    assert code == 0, err
    html = Path(run, "report.html").read_text()
    assert "wall clock of lab set by -0.300000 s" in str(drawn.specs(html))
    assert "this host does not count it" in html
    verdict = json.loads(Path(run, "summary.json").read_text())
    assert verdict["verdict"] == "valid", verdict["reasons"]
    assert "checks cannot be made on these hosts" in verdict["reasons"][0]


def test_a_step_of_more_than_a_second_makes_a_stored_run_unknown(hsp, make_run):
    def stepped(manifest):
        with_machines(manifest)
        manifest["phases"][1]["checks"][-1] |= {"found": 3_600_000_000, "ok": False}

    run = make_run("a", 1, stepped)
    hsp("show", run)
    summary = json.loads(Path(run, "summary.json").read_text())
    assert summary["verdict"] == "unknown"
    assert "wall clock step of lab, in us" in summary["reasons"][0]


@pytest.mark.parametrize("place", [0, 2, 5])
def test_options_stand_anywhere(hsp, make_run, place):
    arguments = [make_run("a"), make_run("b", 2), "--", make_run("c", 3), make_run("d", 4)]
    arguments[place:place] = ["--json"]
    code, out, _ = hsp("compare", *arguments)
    assert code == 0 and json.loads(out)["runs"]["b"] == ["c", "d"]


@pytest.mark.parametrize(
    "arguments",
    [["{a}"], ["{a}", "{b}"], ["--", "{b}"], ["{a}", "--"], ["--"], [], ["{a}", "--", "{b}", "--", "{b}"]],
)
def test_two_sides_are_needed(hsp, make_run, arguments):
    a, b = make_run("a"), make_run("b", 2)
    code, out, err = hsp("compare", *(x.format(a=a, b=b) for x in arguments))
    assert code == 2 and out == "" and "Traceback" not in err


def test_one_run_each_is_no_statement(hsp, make_run):
    code, out, err = hsp("compare", make_run("a"), "--", make_run("b", 2))
    assert code == 0 and err == "" and "1 run each: too few to compare" in out
    assert "difference shown" not in out


def two_reads(manifest):
    """The phase write-slog is one of reads, by two threads."""
    tiers = manifest["phases"][0]["tiers"]
    changes = {"tiers": tiers, "expected_tiers": tiers, "op": "read", "outstanding": 2, "job": "two.fio"}
    manifest["phases"][1] |= changes | {"checks": [], "clients": []}
    manifest["load"] = "closed loop, 1 and 2 outstanding"
    manifest["expect"] = [each for each in manifest["expect"] if each["phase"] == "read"]


def as_reads(frame):
    """Its I/Os, too: those of the L2ARC."""
    second = pl.col("phase") == "write-slog"
    tier = pl.when(second & (pl.col("tier") == "slog")).then(pl.lit("l2arc")).otherwise("tier")
    op = pl.when(second).then(pl.lit("read")).otherwise("op")
    return frame.with_columns(tier.alias("tier"), op.alias("op"))


@pytest.fixture
def phases_run(make_run):
    def make(name, seed=1, more=lambda manifest: None):
        def change(manifest):
            two_reads(manifest)
            more(manifest)

        return make_run(name, seed, change, counts=as_reads)

    return make


def test_two_phases_of_one_run(hsp, phases_run, tmp_path):
    run = phases_run("a")
    page = tmp_path / "page.html"
    code, out, err = hsp("compare", f"{run}:read", "--", f"{run}:write-slog", "--json", "-o", str(page))
    assert code == 0, err
    result = json.loads(out)
    assert result["phases"] == {"a": "read", "b": "write-slog"}
    assert result["runs"] == {"a": ["a:read"], "b": ["a:write-slog"]}
    assert {row["phase"] for row in result["rows"]} == {"read \N{RIGHTWARDS ARROW} write-slog"}
    figures = {(r["layer"], r["tier"], r["figure"]): r for r in result["rows"]}
    l2arc = figures["nfs-server", "l2arc", "p50"]
    assert l2arc["withheld"] is None and 0.9 < l2arc["ratio"] < 1.1
    assert figures["nfs-server", "disk", "p50"]["withheld"].startswith("B: no I/O")
    # What differs is named, and needs no flag.
    assert result["across"]["phase.outstanding"] == [1, 2]
    assert result["across"]["phase.job"] == ["read.fio", "two.fio"]
    html = page.read_text()
    assert "read \N{RIGHTWARDS ARROW} write-slog" in html and "outstanding: A has 1, B has 2" in html
    assert len(drawn.specs(html)) == 2  # both layers, one figure each
    code, out, _ = hsp("compare", f"{run}:read", "--", f"{run}:write-slog")
    assert code == 0 and "On both sides" not in out and "The phases differ: " in out


def test_phases_of_the_same_runs_are_pairs(hsp, phases_run):
    runs = [phases_run(name, n) for n, name in enumerate("abc")]
    sides = *(f"{run}:read" for run in runs), "--", *(f"{run}:write-slog" for run in reversed(runs))
    code, out, err = hsp("compare", *sides, "--json")
    result = json.loads(out)
    assert code == 0 and "over pairs" in result["method"], err
    assert result["runs"]["b"] == [each.replace("read", "write-slog") for each in result["runs"]["a"]]
    said = " ".join([result["conclusion"], *result["caveats"]])
    assert said.count("The phases were always in this order: A, then B") == 1


@pytest.mark.parametrize(
    ("letters", "words"), [("AABB", "All runs of B were measured after"), ("ABBA", None)]
)
def test_sides_that_were_not_measured_in_turn(hsp, make_run, letters, words):
    sides = {"A": [], "B": []}
    for n, side in enumerate(letters):
        started = f"2026-11-21T05:{n:02d}:00Z"
        sides[side].append(make_run(f"r{n}", n, lambda manifest, at=started: manifest.update(started_utc=at)))
    code, out, err = hsp("compare", *sides["A"], "--", *sides["B"])
    assert code == 0, err
    assert words in " ".join(out.split()) if words else "looks the same" not in out


def test_phases_of_several_runs(hsp, phases_run):
    a, b = [phases_run(name, n) for n, name in enumerate("ab")], phases_run("c", 3)
    sides = *(f"{run}:read" for run in a), "--", f"{b}:write-slog"
    assert hsp("compare", *sides)[0] == 0
    other = phases_run("d", 4, version("2.4.0"))
    code, _, err = hsp("compare", f"{a[0]}:read", "--", f"{other}:write-slog")
    assert code == 2 and "versions.zfs: A has" in err and "phase.outstanding" not in err
    assert hsp("compare", f"{a[0]}:read", "--", f"{other}:write-slog", "--across", "versions")[0] == 0


def four_reads(manifest):
    manifest["phases"][0]["outstanding"] = 4
    manifest["load"] = "closed loop, 1 and 4 outstanding"


def test_a_phase_of_the_same_name_must_be_the_same(hsp, make_run):
    a, b = make_run("a"), make_run("b", 2, four_reads)
    code, _, err = hsp("compare", f"{a}:read", "--", f"{b}:read")
    assert code == 2 and "phase.outstanding: A has 1, B has 4" in err
    assert "--across phase.outstanding" in err
    # Another phase does not matter to those that are compared.
    assert hsp("compare", f"{a}:write-slog", "--", f"{b}:write-slog")[0] == 0


@pytest.mark.parametrize(
    ("sides", "words"),
    [
        (["{a}:nope", "--", "{a}:read"], "the run has no phase 'nope'"),
        (["{a}:", "--", "{a}:read"], "the run has no phase ''"),
        (["{a}:read", "--", "{b}"], "the other whole runs"),
        (["{a}:read", "{b}", "--", "{b}:read"], "one side has different phases"),
        (["{a}:read", "{b}:write-slog", "--", "{b}:read"], "one side has different phases"),
        (["{a}:read", "{a}:read", "--", "{b}:read"], "are the same run"),
        (["{a}:read", "{a}:write-slog", "--", "{b}:read"], "are the same run"),
        (["{a}x:read", "--", "{b}:read"], "no such run directory"),
        (["{a}", "--", "{a}/../nothing-here"], "no such run directory"),
        (["{a}", "--", "{a}/.."], ""),
    ],
)
def test_phases_that_cannot_be_compared(hsp, make_run, sides, words):
    a, b = make_run("a"), make_run("b", 2)
    code, out, err = hsp("compare", *(each.format(a=a, b=b) for each in sides))
    assert code == 2 and out == "" and words in err and "Traceback" not in err


def test_a_directory_with_a_colon_in_its_name_comes_first(hsp, make_run):
    a, odd = make_run("a"), make_run("a:read", 2)
    code, out, _ = hsp("compare", a, "--", odd, "--json")
    assert code == 0 and "phases" not in json.loads(out)
    code, out, _ = hsp("compare", f"{a}:write-slog", "--", f"{odd}:write-slog", "--json")
    assert code == 0 and json.loads(out)["phases"] == {"a": "write-slog", "b": "write-slog"}


def test_one_side_must_be_alike_even_across(hsp, make_run):
    runs = [make_run("a"), make_run("b", 2, version("2.4.0")), make_run("c", 3)]
    code, _, err = hsp("compare", *runs[:2], "--", runs[2], "--across", "versions.zfs")
    assert code == 2 and "one side are not alike" in err and '"2.4.0"' in err


def test_jobs_of_the_plan_are_compared(hsp, make_run):
    long = "; a comment\n" * 40
    a = make_run("a", plan={"format": 1, "jobs": {"read.fio": long + "bs=512"}})
    b = make_run("b", 2, plan={"format": 1, "jobs": {"read.fio": long + "bs=4k"}})
    code, _, err = hsp("compare", a, "--", b)
    assert code == 2 and "jobs.read.fio" in err and "bs=512" in err and "bs=4k" in err


def test_an_unknown_verdict_is_refused_with_its_reason(hsp, make_run):
    a, b = (
        make_run("a"),
        make_run("b", 2, lambda m: m.update(problems=synthetic.problems("the server rebooted"))),
    )
    code, out, err = hsp("compare", a, "--", b)
    assert code == 3 and out == "" and "the server rebooted" in err and "/b: " in err
    assert hsp("compare", a, "--", b, "--across", "verdict")[0] == 2


def importing(hsp, folder, name, p50_us, seed, text="{time} {latency}\n", ios=4000):
    """Import a trace of lognormal latencies, through the command line; returns its run."""
    latencies = p50_us * np.random.default_rng(seed).lognormal(0, 0.2, ios)
    log = folder / f"{name}.log"
    log.write_text("".join(text.format(time=n * 100, latency=round(v)) for n, v in enumerate(latencies)))
    code, out, err = hsp("import", str(log), "--name", name, "--unit", "us", "--op", "read", "--json")
    assert code == 0, err
    return json.loads(out)["path"]


def test_imports_are_compared_with_imports_and_it_is_said_what_they_do_not_tell(
    hsp, make_run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    a = [importing(hsp, tmp_path, f"a{n}", 150, n) for n in range(5)]
    same = [importing(hsp, tmp_path, f"b{n}", 150, 10 + n) for n in range(5)]
    slower = [importing(hsp, tmp_path, f"c{n}", 180, 20 + n) for n in range(5)]
    code, out, err = hsp("compare", *a, "--", *same, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["conclusion"], result["caveats"]) == (
        "no difference shown",
        [
            IMPORTED,
            f"It is not known whether A and B were measured in turn; if not, {in_turn.LOOKS_THE_SAME}.",
        ],
    )
    page = tmp_path / "page.html"
    assert hsp("compare", *a, "--", *slower, "-o", str(page))[:2] == (0, "")
    code, out, err = hsp("compare", *a, "--", *slower)
    assert code == 0 and re.search(r"p50 .*1\.[12]\d* .* difference shown", out), out
    assert IMPORTED in out and IMPORTED in page.read_text()
    # What was measured is another kind of run; so are other logs, and what has more against it.
    code, _, err = hsp("compare", *a, "--", make_run("own"))
    assert code == 2 and "import.format" in err
    lat = importing(hsp, tmp_path, "lat", 150, 30, "{time}, {latency}, 0, 512, 0\n")
    code, _, err = hsp("compare", a[0], "--", lat)
    assert code == 2 and 'A has "trace", B has "fio-log"' in err
    manifest = json.loads(Path(a[0], "manifest.json").read_text())
    problem = {"code": "error", "text": "cut by hand"}
    write_json(Path(a[0], "manifest.json"), manifest | {"problems": [problem]})
    code, _, err = hsp("compare", *a, "--", *same)
    assert code == 3 and "cut by hand" in err


def unseen(manifest):
    """As on an appliance: only the clients say anything."""
    manifest["appliance"] = {"export": "nas:/pool", "not_seen": [], "not_done": [], "skipped": []}


def test_runs_on_an_appliance_are_compared_and_it_is_said_what_they_do_not_tell(hsp, make_run):
    runs = [make_run(name, seed, unseen) for seed, name in enumerate("abcd")]
    assert json.loads(Path(runs[0], "manifest.json").read_text())["appliance"]
    code, out, err = hsp("compare", *runs[:2], "--", *runs[2:], "--json")
    assert code == 0, err
    assert json.loads(out)["caveats"][0] == UNSEEN


def test_the_remedy_can_be_pasted(hsp, make_run):
    def fio(value):
        return lambda m: m["versions"].update({"fio on nas 1": value})

    a, b = make_run("a", 1, fio("3.33")), make_run("b", 2, fio("3.40"))
    code, _, err = hsp("compare", a, "--", b)
    remedy = err.split("if that is what you compare: ")[1].splitlines()[0]
    assert code == 2 and hsp("compare", *shlex.split(remedy), a, "--", b)[0] == 0


def test_a_run_counts_once(hsp, make_run, tmp_path):
    a, b = make_run("a"), make_run("b", 2)
    (tmp_path / "latest").symlink_to("a")
    for twice in (a, str(tmp_path / "latest")):
        code, _, err = hsp("compare", a, twice, "--", b)
        assert code == 2 and "the same run" in err


@pytest.mark.parametrize(
    "damage",
    [
        {"run": [1]},
        {"phases": 7},
        {"phases": [3]},
        {"testbed": 3},
        {"tunables": [{"name": [1], "set": {}}]},
        {"versions": "x"},
        {"expect": 3},
        {"phases": [{"name": "read", "checks": [3]}]},
        {"phases": [{"name": "read", "checks": "x"}]},
        {"clock": {"a" * 9: [[{}]]}},
    ],
)
def test_a_damaged_manifest_is_no_traceback(hsp, make_run, tmp_path, damage):
    a, b = make_run("a", 1, lambda m: m.update(damage)), make_run("b", 2)
    for arguments in (
        ("compare", a, "--", b, "-o", str(tmp_path / "x.html")),
        ("compare", b, "--", a),
        ("show", a, "--junit", str(tmp_path / "x.xml")),
    ):
        assert hsp(*arguments)[0] in (0, 2, 3)


def test_a_run_on_both_sides_is_told(hsp, make_run, tmp_path):
    a, b, c = make_run("a"), make_run("b", 2), make_run("c", 3)
    page = tmp_path / "x.html"
    assert hsp("compare", a, b, "--", b, c, "-o", str(page))[:2] == (0, "")
    code, out, _ = hsp("compare", a, b, "--", b, c)
    html = page.read_text("utf-8")
    assert "On both sides, which hides differences: b." in html
    assert "Student&#39;s t over runs, with the freedom of the smaller side" in html
    assert code == 0 and "On both sides, which hides differences: b." in out
    code, out, _ = hsp("compare", a, "--", b, "--format", "markdown")
    assert "both sides" not in out and "1 run of A and 1 of B, all valid." in out


def test_times_beyond_64_bits_are_no_traceback(hsp, make_run, tmp_path):
    def change(manifest):
        manifest["phases"][0]["start_ns"] = 2**63

    a, b = make_run("a", 1, change), make_run("b", 2, change)
    code, _, err = hsp("compare", a, "--", b, "-o", str(tmp_path / "x.html"))
    assert code == 2 and "is damaged" in err


def test_markdown_alone_on_stdout(hsp, make_run):
    a, b = make_run("a"), make_run("b", 2)
    code, out, _ = hsp("compare", a, "--", b, "--format", "markdown")
    assert code == 0 and out.startswith("**") and "| phase |" in out
    assert hsp("compare", a, "--", b, "--format", "markdown", "--json")[0] == 2
    code, out, _ = hsp("compare", a, "--", b, "--format", "csv")
    assert code == 0 and out.startswith("phase,layer,op,tier,figure,unit,") and ",p50,us," in out


def test_html_of_a_comparison(hsp, make_run, tmp_path):
    attack = "</script><img src=x onerror=alert(1)>{{ 7*7 }}"

    def hostile(manifest):
        manifest["title"] = manifest["phases"][0]["title"] = manifest["testbed"]["name"] = attack
        manifest["versions"]["zfs"] = attack
        manifest["run"] += attack

    runs = [make_run(name, seed, hostile) for seed, name in enumerate("abcd")]
    page = tmp_path / "page.html"
    assert hsp("compare", *runs[:2], "--", *runs[2:], "-o", str(page))[0] == 0
    html = page.read_text("utf-8")
    assert "<img src=x" not in html and "default-src 'none'" in html
    assert not re.search(r"<(script|img|iframe|link)[^>]+(src|href)=[\"']?https?:", html)
    figures = drawn.specs(html)
    assert len(figures) == 6 and len(html.encode()) < 1_100_000
    assert html.count("<figcaption>Closed loop, 1 outstanding. Cell: ") == 6
    layers = [("nfs-server", "client")[n % 2] for n in range(6)]
    for figure, layer, (phase, _) in zip(
        figures, layers, np.repeat(synthetic.PHASES, 2, axis=0), strict=True
    ):
        drawn.assert_plain(figure)
        a, b, difference = drawn.heat_maps(figure)
        assert [trace["name"] for trace in (a, b, difference)] == ["A", "B", "B less A"]
        # I/Os per run, of two runs of each side.
        ios = [
            frame.filter((pl.col("phase") == phase) & (pl.col("layer") == layer))["count"].sum()
            for frame in (synthetic.realistic(20, 90, seed) for seed in range(4))
        ]
        sums = [drawn.typed(trace["customdata"]).sum() for trace in (a, b, difference)]
        assert sums == [sum(ios[:2]) / 2, sum(ios[2:]) / 2, (sum(ios[2:]) - sum(ios[:2])) / 2]
    assert hsp("compare", runs[0], "--", runs[1], "-o", str(tmp_path / "no" / "x.html"))[0] == 2
