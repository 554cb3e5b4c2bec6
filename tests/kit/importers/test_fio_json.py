"""fio's json+: histograms of whole jobs, and what damage does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from tests.kit.importers.samples import DATA, imported, put


def one_job(**job: object) -> str:
    return json.dumps({"jobs": [{"jobname": "a", "job_runtime": 5, **job}]})


def direction(ios: int = 0, **bins: int) -> dict[str, object]:
    """Reads or writes of a job: `ios` in one bin, or those of `bins`."""
    bins = bins or {"100": ios}
    total = sum(bins.values())
    return {"total_ios": total, "clat_ns": {"N": total, "bins": bins}}


def test_a_job_whose_name_is_half_a_character(tmp_path: Path) -> None:
    found = imported(put(tmp_path, one_job(jobname="a\ud800", read=direction(5)), "x.json"))
    assert found.frame["host"].to_list() == ["x/a?"]


def test_reads_and_writes_in_one_sum_are_counted_and_left_out(tmp_path: Path) -> None:
    """unified_rw_reporting: fio then has "mixed" in place of "read" and "write", or beside them."""
    jobs = [{"jobname": "a", "mixed": direction(7)}, {"jobname": "b", "read": direction(5)}]
    jobs.append({"jobname": "c", "read": direction(3), "write": direction(1), "mixed": direction(4)})
    found = imported(put(tmp_path, json.dumps({"jobs": jobs}), "x.json"))
    (file,) = found.section["files"]
    assert file["rows_read"] == 16 and file["rows_counted"] == 9 and list(file["left_out"].values()) == [7]
    assert "unified_rw_reporting" in found.section["warnings"][0]
    with pytest.raises(ConfigError, match=r"no I/O in .*7 reads and writes in one sum"):
        imported(put(tmp_path, one_job(mixed=direction(7)), "x.json"))


def test_reports_every_second_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fio --status-interval=1 writes more in an hour than one document may have; the last report counts."""
    monkeypatch.setattr("kit.importers.fio_reports._MAX_BYTES", 1 << 20)
    monkeypatch.setattr("kit.importers.fio_reports._PART_BYTES", 1 << 17)
    pad = "\n" + " " * 200
    report = [json.dumps({"jobs": [{"jobname": "a", "read": direction(n)}]}, indent=1) for n in (5, 6)]
    path = put(tmp_path, "fio: a word\n" + (report[0].replace("\n", pad) + "\n") * 1000 + report[1], "x.json")
    # Indented, so that nothing but the end of a document is a brace at the start of a line.
    text = path.read_text().replace(pad + "}\n", "\n}\n")
    path.write_text(text)
    assert len(text) > 1 << 20
    found = imported(path)
    assert found.section["rows_counted"] == 6
    told = " ".join(found.section["warnings"])
    assert "1 lines of text before" in told and "1000 earlier reports" in told
    path.write_text(text + "\n{1\n")
    assert (
        f"line {text.count(chr(10)) + 2}: a later document is damaged"
        in imported(path).section["warnings"][0]
    )


def test_json_after_text_of_several_clients(tmp_path: Path) -> None:
    one, two = direction(**{"1160": 3, "127": 1}), direction(**{"1160": 5})
    clients = [
        {"jobname": "j", "hostname": "a", "job_runtime": 2000, "read": one},
        {"jobname": "j", "hostname": "b", "job_runtime": 3000, "read": two, "trim": two},
        {"jobname": "All clients", "read": direction(**{"1160": 8, "127": 1})},
    ]
    text = "fio: a warning {\nanother\n" + json.dumps({"client_stats": clients}, indent=1) + "\nbye\n"
    found = imported(put(tmp_path, text, "out.json"))
    assert found.frame["count"].sum() == 9
    assert sorted(found.frame["host"].unique()) == ["out/a/j", "out/b/j"]
    assert (found.phase["interval_ns"], found.phase["end_ns"]) == (3 * 10**9, 3 * 10**9)
    assert sum(found.section["files"][0]["left_out"].values()) == 5
    assert any("2 lines of text" in w for w in found.section["warnings"])


def test_json_of_fio_itself() -> None:
    stored = json.loads((DATA / "plain.json").read_text())
    found = imported(DATA / "plain.json").frame
    for op in ("read", "write"):
        wanted = sum(job[op]["total_ios"] for job in stored["jobs"])
        assert found.filter(op=op)["count"].sum() == wanted


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"total_ios": 3, "clat_ns": {"N": 3}}, "3 I/Os but no bins"),
        ({"total_ios": 3, "clat_ns": {"N": 4, "bins": {"1160": 3}}}, "hold 3 I/Os, fio says 4"),
        ({"total_ios": 3, "clat_ns": {"N": 3, "bins": {"1161": 3}}}, "none of fio's bins"),
        ({"total_ios": 3, "clat_ns": {"N": 3, "bins": {"1160": -3}}}, "latency: count"),
        ({"total_ios": 3, "clat_ns": {"N": 3, "bins": {"x": 3}}}, "none of fio's bins"),
        ({"total_ios": -3, "clat_ns": {"N": 3, "bins": {"1160": 3}}}, "total_ios is '-3'"),
        ({"total_ios": "3", "clat_ns": {"N": 3, "bins": {"1160": 3}}}, "total_ios is '3'"),
        ({"total_ios": True, "clat_ns": {"N": 3, "bins": {"1160": 3}}}, "total_ios is 'True'"),
    ],
)
def test_json_that_does_not_add_up_is_refused(tmp_path: Path, part: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        imported(put(tmp_path, one_job(read=part), "out.json"))


@pytest.mark.parametrize(("mean", "sums"), [(1010.5, [(4, 4042)]), (5e6, []), ("1010", []), (-1, [])])
def test_the_sum_is_from_a_mean_that_is_in_the_bins(tmp_path: Path, mean: object, sums: object) -> None:
    part = {"total_ios": 4, "clat_ns": {"N": 4, "mean": mean, "bins": {"1012": 4}}}
    run = imported(put(tmp_path, one_job(read=part), "j.json"))
    assert [(each["ios"], each["sum_ns"]) for each in run.phase["sums"]] == sums


def test_json_that_says_fewer_ios_than_its_bins_hold_is_told(tmp_path: Path) -> None:
    part = {"total_ios": 2, "clat_ns": {"N": 3, "bins": {"1160": 3}}}
    found = imported(put(tmp_path, one_job(read=part), "out.json"))
    assert found.section["rows_counted"] == 3
    assert any("the bins hold 3 I/Os, total_ios is 2" in w for w in found.section["warnings"])


def test_damaged_json_names_its_line(tmp_path: Path) -> None:
    text = (DATA / "plain.json").read_text()
    with pytest.raises(ConfigError, match=r"line \d+: not fio's JSON"):
        imported(put(tmp_path, text[:-400], "out.json"))
    with pytest.raises(ConfigError, match="NaN is not a number"):
        imported(put(tmp_path, '{"jobs": NaN}', "out.json"))
    with pytest.raises(ConfigError, match="line 2: not UTF-8"):
        imported(put(tmp_path, b'{\n"\xff": 1}', "out.json"))


@pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")
def test_what_fio_counts_is_what_is_imported(tmp_path: Path) -> None:
    command = ["fio", "--name=j", "--filename=data", "--size=1m", "--bs=4k", "--rw=randrw",
               "--ioengine=psync", "--numjobs=2", "--number_ios=200", "--per_job_logs=1", "--write_lat_log=j",
               "--output-format=json+", "--output=out.json"]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60, stdin=subprocess.DEVNULL)
    jobs = json.loads((tmp_path / "out.json").read_text())["jobs"]
    logs, bins = imported(*sorted(tmp_path.glob("j_clat.*.log"))), imported(tmp_path / "out.json")
    for op in ("read", "write"):
        wanted = sum(job[op]["total_ios"] for job in jobs)
        assert [f.frame.filter(op=op)["count"].sum() for f in (logs, bins)] == [wanted, wanted]


def a_job(op: str, bins: dict[str, int], name: str = "j", **more: object) -> dict[str, object]:
    """A job of fio 3.0 to 3.17, without N; its I/Os in `bins`, within a second."""
    part = {"runtime": 1000, "total_ios": sum(bins.values()), "clat_ns": {"bins": bins}}
    return {"jobname": name, "groupid": 0, "elapsed": 2, op: part, **more}


def printed(*jobs: dict[str, object], at_ms: int = 1_700_000_000_000) -> str:
    return json.dumps({"fio version": "fio-3.7", "timestamp_ms": at_ms, "jobs": jobs}, indent=1) + "\n"


def test_json_plus_without_n_is_read(tmp_path: Path) -> None:
    found = imported(put(tmp_path, printed(a_job("read", {"20608": 40, "24192": 424})), "j.json"))
    assert found.section["rows_counted"] == 464 and not found.section["warnings"]


@pytest.mark.parametrize(
    ("later", "ios", "said"),
    [
        # Another job; the same, whose count fell; the same, a minute later; a later report of one run.
        (printed(a_job("write", {"3504": 9}, name="k"), at_ms=1_700_000_060_000), 19, "2 runs were appended"),
        (printed(a_job("read", {"20608": 9})), 19, "2 runs were appended"),
        (printed(a_job("read", {"20608": 4, "24192": 9})), 23, "2 runs were appended"),
        (printed(a_job("read", {"20608": 12}), at_ms=1_700_000_060_000), 22, "2 runs were appended"),
        (printed(a_job("read", {"20608": 12}), at_ms=1_700_000_001_000), 12, "1 earlier reports of the same"),
    ],
)
def test_appended_runs_are_kept_and_reports_of_one_run_are_not(
    tmp_path: Path, later: str, ios: int, said: str
) -> None:
    found = imported(put(tmp_path, printed(a_job("read", {"20608": 10})) + later, "r.json"))
    assert found.section["rows_counted"] == ios and said in found.section["warnings"][0]
    assert found.phase["end_ns"] == (2 if "2 runs" in said else 1) * 10**9


def test_a_damaged_document_between_others_is_told(tmp_path: Path) -> None:
    text = printed(a_job("read", {"20608": 10})) + "{1\n" + printed(a_job("write", {"3504": 9}))
    found = imported(put(tmp_path, text, "r.json"))
    assert found.section["rows_counted"] == 19 and "document is damaged" in found.section["warnings"][0]


def test_syncs_are_commits_and_the_writes_before_them_were_not_safe(tmp_path: Path) -> None:
    sync = {"total_ios": 10, "lat_ns": {"bins": {"897024": 10}}}
    found = imported(put(tmp_path, printed(a_job("write", {"1432": 10}, sync=sync)), "j.json"))
    by_op = {row["op"]: (row["lo_ns"], row["count"]) for row in found.frame.iter_rows(named=True)}
    assert by_op["commit"][0] > 800_000 and by_op["commit"][1] == found.phase["client_ios"] == 10
    assert "10 writes were not safe when they ended" in found.section["warnings"][0]
    untold = a_job("write", {"1432": 10}, **{"job options": {"fdatasync": "1"}})
    assert (
        "fdatasync made them safe"
        in imported(put(tmp_path, printed(untold), "k.json")).section["warnings"][0]
    )


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({"io_bytes": 400, "clat": {"mean": 68.1}}, "fio's plain JSON .* has none"),
        ({"total_ios": 4, "clat": {"bins": {"1": 4}}}, "json\\+ of fio 2"),
    ],
)
def test_json_of_fio_2_is_called_what_it_is(tmp_path: Path, part: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        imported(put(tmp_path, one_job(write=part), "j.json"))


@pytest.mark.parametrize(
    ("jobs", "ms"),
    [
        # fio adds up job_runtime over the jobs of a group that it reports as one.
        ([{"job_runtime": 4000}], 1000),
        ([{}, {}], 1000),
        ([{}, {"groupid": 1, "job options": {"stonewall": "1"}}], 2000),
    ],
)
def test_a_run_is_as_long_as_its_jobs_were(tmp_path: Path, jobs: list[dict[str, object]], ms: int) -> None:
    text = printed(*(a_job("read", {"20608": 5}, **more) for more in jobs))  # type: ignore[arg-type]
    assert imported(put(tmp_path, text, "g.json")).phase["end_ns"] == ms * 10**6
