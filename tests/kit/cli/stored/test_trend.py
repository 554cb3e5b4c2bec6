"""`hsp trend` through the command line, on stored runs and series."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import reports
from kit.store.run_directory import RunDir
from tests.reports import synthetic, synthetic_series

pytestmark = pytest.mark.slow

VERSIONS = ("1.0", "1.0", "1.0", "1.1", "1.1", "1.1")


def log_device(firmware):
    device = {"name": "log0", "role": "log", "size_bytes": 1 << 26, "settings": {"firmware": firmware}}
    return {**synthetic.manifest()["testbed"], "devices": [device]}


def a_run(folder, number, firmware="1.0", factor=1.0, **changes):
    """O_DSYNC writes of day `number`, with their own numbers; their median moves with `factor`."""
    started = f"2026-12-{number:02d}T05:00:00Z"
    median = int(factor * synthetic_series.MEDIAN_NS * (1 + (number % 3 - 1) / 200))
    name = synthetic_series.run(
        folder, number, {"write-slog": median},
        {"started_utc": started, "testbed": log_device(firmware), **changes},
    )  # fmt: skip
    return str(folder / "sizes" / name)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for number, firmware in enumerate(VERSIONS, 1):
        a_run(folder, number, firmware, 1.5 if firmware == "1.1" else 1.0)
    return folder


def test_a_directory_of_runs_is_a_trend_and_a_slower_firmware_is_named(hsp, stored, tmp_path):
    page, junit = tmp_path / "trend.html", tmp_path / "trend.xml"
    code, out, err = hsp(
        "trend", str(stored), "--json", "-o", str(page), "--junit", str(junit), "--worse-than", "10%"
    )
    assert code == 1, err
    result = json.loads(out)
    assert len(result["runs"]) == 6 and result["marks"][0]["what"] == "firmware of log0"
    (moved,) = [
        each["changes"] for each in result["figures"]
        if (each["layer"], each["tier"], each["figure"]) == ("nfs-server", "slog", "p50")
    ]  # fmt: skip
    assert moved[0]["interval"][0] <= 1.5 <= moved[0]["interval"][1]
    assert moved[0]["marks"] == ["firmware of log0 1.0 \N{RIGHTWARDS ARROW} 1.1"]
    failures = [
        case for case in ET.parse(junit).getroot().iter("testcase") if case.find("failure") is not None
    ]
    assert len(failures) == len([each for each in result["figures"] if each["gate"] == "fails"]) > 0
    assert "firmware of log0" in page.read_text()
    # The folder of the workload is the same.
    assert hsp("trend", str(stored / "sizes"), "--json")[1] == hsp("trend", str(stored), "--json")[1]


def test_text_for_people_by_time_and_by_version(hsp, stored):
    code, out, _ = hsp("trend", str(stored))
    assert (
        code == 0 and "write-slog: p50 of writes" in out and "(firmware of log0 1.0" in " ".join(out.split())
    )
    code, out, _ = hsp("trend", str(stored), "--by", "version", "--format", "csv")
    assert code == 0 and ",1.1,write-slog,nfs-server,write,slog,p50," in out
    code, out, _ = hsp("trend", str(stored), "--format", "markdown")
    assert code == 0 and out.startswith("Synthetic run\n\n**") and "| write\\-slog |" in out


def test_runs_that_are_not_alike_are_refused_with_the_key(hsp, stored, tmp_path):
    other = a_run(tmp_path, 9, working_set={"bytes": 4096})
    code, _, err = hsp("trend", str(stored / "sizes"), other)
    assert code == 2 and "working_set.bytes" in err and "4096" in err and "--across working_set.bytes" in err
    code, out, err = hsp("trend", str(stored / "sizes"), other, "--across", "working_set.bytes", "--json")
    assert code == 0, err
    assert "working_set.bytes" in [mark["what"] for mark in json.loads(out)["marks"]]


def test_what_is_asked_wrongly_is_refused(hsp, stored, tmp_path):
    run = next(iter(sorted((stored / "sizes").iterdir())))
    for arguments, words in (
        ([str(run)], "two runs"),
        ([str(run), str(run)], "the same run"),
        ([f"{run}:write-slog", str(run)], "a trend is of whole runs"),
        ([str(tmp_path)], "no directory of them"),
        ([str(stored), "--worse-than", "much"], "--worse-than 10%"),
        ([str(stored), "--json", "--format", "csv"], "leave out one"),
        ([str(stored), "--figure", "write-slog:p50"], "--worse-than 10%"),
        ([str(stored), "--worse-than", "10%", "--figure", "write-slog:l2arc:p50"], "write-slog:slog:p50"),
    ):
        code, out, err = hsp("trend", *arguments)
        assert code == 2 and words in err and out == "", (arguments, err)


def test_too_few_runs_end_with_unknown_where_a_limit_is_asked_for(hsp, tmp_path):
    names = [a_run(tmp_path, number, firmware) for number, firmware in ((1, "1.0"), (2, "1.1"))]
    assert hsp("trend", *names)[0] == 0
    code, out, _ = hsp("trend", *names, "--worse-than", "10%")
    assert code == 3 and "too few to tell" in out


def test_an_unknown_run_is_hollow_and_a_damaged_one_is_refused(hsp, stored, tmp_path):
    killed = a_run(tmp_path, 20, ended=False)
    code, out, _ = hsp("trend", str(stored), killed, "--json")
    assert code == 0
    assert [run["used"] for run in json.loads(out)["runs"]] == [True] * 6 + [False]
    # One that was killed before its first phase has nothing to show.
    early = a_run(tmp_path, 21, ended=False, phases=[])
    code, out, err = hsp("trend", str(stored), early, "--json", "--across", "phases")
    assert code == 0 and json.loads(out)["runs"][-1]["used"] is False, err
    Path(killed, "manifest.json").write_text("{")
    code, _, err = hsp("trend", str(stored), killed)
    assert code == 2 and "manifest.json" in err


def test_series_over_days_are_a_trend_of_their_cells(hsp, tmp_path):
    paths = []
    for day, factor in ((1, 1.0), (2, 1.0), (3, 1.0), (4, 1.6), (5, 1.6), (6, 1.6)):
        identity = f"series-202611{day:02d}T050000Z-{day:06x}"
        folder = tmp_path / f"day{day}"
        folder.mkdir()
        path = synthetic_series.series(
            folder, (1, 1.5 * factor, 4, 1), id=identity, started_utc=f"2026-11-{day:02d}T05:00:00Z"
        )
        reports.analyse_series(path, ended=True)
        paths.append(str(path))
    code, out, err = hsp("trend", *paths, "--json")
    assert code == 0, err
    result = json.loads(out)
    moved = {each["phase"]: each["changes"] for each in result["figures"]
             if (each["layer"], each["figure"]) == ("nfs-server", "p50")}  # fmt: skip
    assert moved["write-slog"] == [] and moved["write-slog io-size=128k"] == []
    (change,) = moved["write-slog io-size=4k"]
    assert change["interval"][0] <= 1.6 <= change["interval"][1]
    assert result["sentences"][0].count(" (nothing recorded changed): ") == 1
    # A directory that holds a series and its runs is a series.
    assert hsp("trend", str(Path(paths[0]).parent))[2].count("two runs") == 1


def test_versions_of_the_server_and_of_a_device_file_are_recorded_and_marked(hsp, tmp_path):
    names = [
        a_run(tmp_path, number, versions={"hsp": "0.1.0", "zfs": "2.3.9", "server": version})
        for number, version in ((1, "13.0"), (2, "13.1"))
    ]
    code, out, _ = hsp("trend", *names, "--by", "version", "--json")
    assert code == 0 and [run["label"] for run in json.loads(out)["runs"]] == ["13.0", "13.1"]
    assert RunDir(Path(names[0])).path.name in out


@pytest.mark.parametrize(("factors", "ended", "words"), [
    ([1.02**n for n in range(12)], 1, ("a run, over 12 runs to 1.2", "slower by more than 10 %")),
    ([1.0] * 12, 0, ("No change is shown", "0 slower by more than 10 %")),
    ([1.0] * 4 + [1.08] * 4 + [1.166] * 4, 1, ("slower by more than 10 %",)),
    ([1.0] * 9 + [1.5], 3, ("00000a is apart", "another run tells")),
    ([1.0] * 4 + [1.5] + [1.0] * 5, 0, ("000005 is apart", "0 slower by more than 10 %")),
])  # fmt: skip
def test_what_the_gate_says_of_runs(hsp, tmp_path, factors, ended, words):
    for number, factor in enumerate(factors, 1):
        a_run(tmp_path, number, factor=factor)
    code, out, err = hsp("trend", str(tmp_path), "--worse-than", "10%", "--json")
    said = " ".join([*json.loads(out)["sentences"], json.loads(out)["headline"], err])
    assert code == ended and all(each in said for each in words), (code, said)
    one = hsp("trend", str(tmp_path), "--worse-than", "10%", "--figure", "write-slog:slog:p50")
    assert one[0] == ended and one[2].startswith("Now, of 1 figure: "), one


def test_only_the_newest_runs(hsp, stored):
    _, out, err = hsp("trend", str(stored), "--last", "3", "--json", "--worse-than", "10%")
    assert [run["run"][-1] for run in json.loads(out)["runs"]] == ["4", "5", "6"], err
    assert json.loads(out)["figures"][0]["changes"] == [] and "the newest 3 of 6 runs" in err
