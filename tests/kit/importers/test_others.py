"""Traces, tracer output, zpool iostat -w; and what holds for every importer, whatever it is given."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.core.bins import bin_index
from kit.core.errors import ConfigError, KitError
from kit.importers.base import Options
from kit.importers.detect import BY_NAME
from kit.importers.histogram_accumulator import Tally
from kit.importers.run import Imported, read_files

DATA = Path(__file__).with_name("data")
KIT_DATA = DATA.parents[1] / "data"
ROOT = str(DATA.parents[3])
Called = Callable[..., subprocess.CompletedProcess[str]]


def put(tmp_path: Path, content: str | bytes, name: str = "x.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    "text", ["0.5 120\n1.5 130\n", "0.5,120\n1.5,130\n", "# s us\n\n 0.5\t 120 \n1.5 , 130\n"]
)
def test_a_trace_of_two_columns(tmp_path: Path, text: str) -> None:
    found = read_files([put(tmp_path, text)], Options(unit="us", time_unit="s", op="write"))
    rows = found.frame.sort("time_ns").rows()
    assert [(r[0], r[4], r[5], r[8]) for r in rows] == [(0, "write", "all", 1), (10**9, "write", "all", 1)]
    assert [int(bin_index(r[6])) for r in rows] == bin_index([120_000, 130_000]).tolist()
    assert found.section["files"][0]["left_out"] == ({"comments and empty lines": 2} if "#" in text else {})


@pytest.mark.parametrize(
    "bad", ["1 nan", "1 -5", "nan 1", "1 inf", "1", "1 2 3", "x y", "1 1e99", "1 \xff", "1,,2"]
)
def test_a_damaged_trace_is_refused_with_its_line(tmp_path: Path, bad: str) -> None:
    path = put(tmp_path, f"1 2\n1 3\n{bad}\n4 4\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="line 3: "):
        read_files([path], Options(unit="us"))


@pytest.mark.parametrize(
    "inner",
    [b"x\x01\t2\x031\n&2,\n", gzip.compress(bytes(1 << 20), mtime=0) + b" 1\n", b"\x28\xb5\x2f\xfd 1\n"],
)
def test_what_is_compressed_twice_is_text_that_is_damaged(tmp_path: Path, inner: bytes) -> None:
    """Found by fuzzing: a parser of CSV decompressed what looked compressed, and failed in its own way."""
    for content in (inner, gzip.compress(inner)):
        with pytest.raises(ConfigError, match=r"line 1: |damaged compression|compressed twice"):
            read_files([put(tmp_path, content)], Options(format="trace", unit="us"))


@pytest.mark.parametrize(
    ("content", "found", "hint"),
    [
        (b"", "empty", "leave them out"),
        (b" \n\n", "empty", "leave them out"),
        (b"\xef\xbb\xbf1 2\n", "byte order mark", "without BOM"),
        ("1 2\n".encode("utf-16"), "UTF-16", "UTF-8"),
        (b"1 2\n1 \0\n", "line 2: binary", "printed"),
        (bz2.compress(b"1 2\n"), "bzip2", "decompress it first"),
        (lzma.compress(b"1 2\n"), "xz", "decompress it first"),
        (zlib.compress(b"1 2\n"), "zlib", "--inflate-log"),
        (gzip.compress(gzip.compress(b"1 2\n", mtime=0), mtime=0), "compressed twice", "once"),
    ],
)
@pytest.mark.parametrize("format_", [None, *BY_NAME])
def test_what_is_no_text_is_called_what_it_is(
    tmp_path: Path, content: bytes, found: str, hint: str, format_: str | None
) -> None:
    """Also with --from: an empty histogram log had -2 bins."""
    with pytest.raises(ConfigError, match=found) as caught:
        read_files([put(tmp_path, content)], Options(format=format_, unit="us"))
    assert hint in caught.value.hint


def test_a_trace_needs_a_unit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_files([put(tmp_path, "1 2\n")], Options())
    assert "--unit" in caught.value.hint


def test_our_own_trace_keeps_its_tiers() -> None:
    found = read_files([KIT_DATA / "trace-read.json"], Options())
    assert {"dram", "l2arc", "disk"} <= set(found.frame["tier"])
    assert set(found.frame["layer"]) == {"nfs-server"}


def test_log_blocks_need_to_know_the_log_devices() -> None:
    path = KIT_DATA / "trace-write-slog.json"
    with pytest.raises(ConfigError) as caught:
        read_files([path], Options())
    assert "--log-vdev" in caught.value.hint
    for vdevs, tier in ((frozenset({1}), "slog"), (frozenset({-1}), "pool")):
        assert set(read_files([path], Options(log_vdevs=vdevs)).frame["tier"]) == {tier}


def test_a_trace_that_was_cut_is_told_and_one_that_is_damaged_is_refused(tmp_path: Path) -> None:
    text = (KIT_DATA / "trace-read.json").read_text()
    found = read_files([put(tmp_path, text[:-200])], Options())
    assert any("died before its end" in w for w in found.section["warnings"])
    lines = text.splitlines(keepends=True)
    lines[3] = lines[3][:30] + "\n"
    with pytest.raises(ConfigError, match="line 4"):
        read_files([put(tmp_path, "".join(lines))], Options())


def nice(value: int) -> str:
    """As zpool shortens the end of a bucket."""
    for factor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if value >= factor:
            return f"{value // factor}{unit}"
    return f"{value}ns"


def iostat(counts: dict[int, tuple[str, str]], scripted: bool = False, name: str = "tank") -> str:
    """What `zpool iostat -w` prints (cmd/zpool/zpool_main.c, print_iostat_histo)."""
    head = (
        f"\n{name}         total_wait     disk_wait    syncq_wait    asyncq_wait\n"
        "latency      read  write   read  write   read  write   read  write  scrub   trim\n"
        "----------  -----  -----\n"
    )
    rows = []
    for bucket in range(37):
        end = (1 << (bucket + 1)) - 1
        read, write = counts.get(bucket, ("0", "0"))
        label = str(end) if scripted else nice(end)
        rows.append(("\t" if scripted else "  ").join([label, read, write, *["0"] * 8]))
    return ("" if scripted else head) + "\n".join(rows) + "\n" + ("" if scripted else "-" * 60 + "\n")


@pytest.mark.parametrize("scripted", [False, True])
def test_zpool_iostat(tmp_path: Path, scripted: bool) -> None:
    text = iostat({0: ("2", "0"), 17: ("1234567", "5"), 36: ("0", "1")}, scripted)
    other = iostat({20: ("9", "9")}, scripted, "sda")
    found = read_files([put(tmp_path, text + other)], Options())
    rows = {(r[4], r[6], r[7]): r[8] for r in found.frame.rows()}
    assert rows == {
        ("read", 0, 2): 2,
        ("read", 1 << 17, 1 << 18): 1234567,
        ("write", 1 << 17, 1 << 18): 5,
        ("write", 1 << 36, 1 << 37): 1,
    }
    assert set(found.frame["layer"]) == {"vdev"}
    assert set(found.frame["host"]) == {"x" if scripted else "tank"}
    reason = "in later reports or of other vdevs" if scripted else "of other pools or vdevs"
    assert found.section["files"][0]["left_out"] == {reason: 18}
    line = text.count("\n") + (1 if scripted else 2)
    assert any(w.endswith(f"1 table not read, {reason}: line {line}") for w in found.section["warnings"])
    assert found.section["counts"] == "since-load"


UNIX = "1764000000"


def at(seconds: int, form: str) -> str:
    """The line of -T, so many seconds after UNIX; in the forms of date(1) in C, en_GB and en_US."""
    if form == "u":
        return f"{int(UNIX) + seconds}\n"
    minute, second = divmod(seconds, 60)
    clock = f"{minute:02}:{second:02}"
    return {
        "C": f"Mon Nov 24 16:{clock} UTC 2025\n",
        "GB": f"Mon 24 Nov 16:{clock} CET 2025\n",
        "US": f"Mon 24 Nov 2025 04:{clock} PM +0100\n",
    }[form]


def columns(found: Imported) -> list[tuple[int, str, int]]:
    frame = found.frame.group_by("time_ns", "op").agg(pl.col("count").sum()).sort("time_ns", "op")
    return [tuple(row) for row in frame.rows()]


SINCE, FIRST, SECOND = (iostat({17: (str(n), "0"), 20: ("0", "4")}) for n in (1000, 10, 20))
LEFT_FIRST = "in the first report, which counts since the pool was loaded"


@pytest.mark.parametrize("form", ["u", "C", "GB", "US"])
@pytest.mark.parametrize("since", ["", SINCE])
def test_intervals_of_zpool_iostat_are_columns(tmp_path: Path, form: str, since: str) -> None:
    """Five seconds each, I/Os per second; with -y the time before the first is there, but no report."""
    text = at(0, form) + since + at(5, form) + FIRST + at(10, form) + SECOND
    found = read_files([put(tmp_path, text)], Options())
    second = 10**9
    assert columns(found) == [
        (0, "read", 50), (0, "write", 20), (5 * second, "read", 100), (5 * second, "write", 20)
    ]  # fmt: skip
    assert found.section["files"][0]["left_out"] == ({LEFT_FIRST: 1004} if since else {})
    assert any(f"1 table not read, {LEFT_FIRST}: line 3" in w for w in found.section["warnings"]) == bool(
        since
    )
    assert found.section["counts"] == "timed" and found.phase["interval_ns"] == 5 * second
    assert found.section["origin_ns"] == int(UNIX) * second


def test_intervals_without_times_are_a_sum(tmp_path: Path) -> None:
    found = read_files([put(tmp_path, SINCE + FIRST + SECOND)], Options())
    assert columns(found) == [(0, "read", 30), (0, "write", 8)]
    assert found.section["files"][0]["left_out"] == {LEFT_FIRST: 1004}
    assert found.section["counts"] == "intervals"
    assert any("-T u" in w for w in found.section["warnings"])


def test_seconds_that_drift_leave_no_gap(tmp_path: Path) -> None:
    """zpool sleeps a little over a second, and tells whole ones: now and then one is missing."""
    times = [n + n // 7 for n in range(16)]
    text = "".join(at(time, "u") + FIRST for time in times)
    found = read_files([put(tmp_path, text)], Options())
    step_ns = found.phase["interval_ns"]
    assert step_ns == times[-1] * 10**9 // 15
    assert found.frame["time_ns"].unique().sort().to_list() == [n * step_ns for n in range(15)]


def test_a_pause_between_reports_is_a_gap(tmp_path: Path) -> None:
    text = "".join(at(time, "u") + FIRST for time in (0, 1, 2, 3, 50, 51, 52))
    found = read_files([put(tmp_path, text)], Options())
    assert sorted(set(found.frame["time_ns"] // 10**9)) == [0, 1, 2, 3, 50, 51]


@pytest.mark.parametrize("scripted", [False, True])
def test_vdevs_and_pools_of_a_report_are_told_and_not_added(tmp_path: Path, scripted: bool) -> None:
    """-v, and two pools that each have a mirror-0; with -H a name is alone in its line."""
    parts = [
        ("\n" + name + "\n" if scripted else "") + iostat({9: (str(n), "0")}, scripted, name)
        for n in (500, 7, 8)
        for name in ("tank", "mirror-0", "sda", "dozer", "mirror-0")
    ]
    found = read_files([put(tmp_path, "".join(parts))], Options())
    assert columns(found) == [(0, "read", 15)]
    assert set(found.frame["host"]) == {"tank"}
    left = {LEFT_FIRST: 500, "of other pools or vdevs": 4 * 515}
    assert found.section["files"][0]["left_out"] == left
    assert any("12 tables not read, of other pools or vdevs: line" in w for w in found.section["warnings"])
    assert found.section["counts"] == "intervals"


def test_a_truncated_last_report_is_left_out(tmp_path: Path) -> None:
    whole = at(0, "u") + SINCE + at(1, "u") + FIRST + at(2, "u")
    for lines, cut in ((30, 0), (30, 40), (1, 0), (2, 3)):
        part = "\n".join(SECOND.split("\n")[:lines]) + "\n"
        found = read_files([put(tmp_path, whole + part[: len(part) - cut])], Options())
        assert columns(found) == [(0, "read", 10), (0, "write", 4)]
        left = found.section["files"][0]["left_out"]
        assert left.get("in the last report, which is truncated") == (24 if lines == 30 else None)
    # One report that is whole, and half an interval: what there is is the first.
    found = read_files([put(tmp_path, SINCE + SECOND[:1200])], Options())
    assert columns(found) == [(0, "read", 1000), (0, "write", 4)]
    assert found.section["counts"] == "since-load"


@pytest.mark.parametrize(
    ("before", "bad", "said"),
    [
        (SINCE, "garbage\n" + FIRST, "not a row"),
        (SINCE, "no pools available\n", "not a row"),
        (iostat({}, True), "tank\nsda\n" + iostat({}, True), "no table of 'tank'"),
        (iostat({}, True), "tank\n", "no table of 'tank'"),
        (at(9, "u") + SINCE, at(8, "u") + FIRST, "time goes back"),
        (SINCE, "Mo 24. Nov 16:00:00 CET 2025\n" + FIRST, "not a row"),
        (SINCE, "Mon Nov 31 16:00:00 CET 2025\n" + FIRST, "not a row"),
        (SINCE, "99999999999\n" + FIRST, "not a row"),
        (SINCE[: SINCE.index("1us")], "1us" + "  0" * 30 + "\n", "31 columns"),
        (SINCE[: SINCE.index("1us")], at(8, "u") + FIRST, "is missing|not a row"),
    ],
)
def test_what_zpool_does_not_print_is_refused(tmp_path: Path, before: str, bad: str, said: str) -> None:
    line = before.count("\n") + 1
    with pytest.raises(ConfigError, match=f"line {line}: .*({said})"):
        read_files([put(tmp_path, before + bad)], Options(format="zpool-iostat"))


def test_sums_and_intervals_are_not_added(tmp_path: Path) -> None:
    paths = [put(tmp_path, SINCE, "a.txt"), put(tmp_path, SINCE + FIRST, "b.txt")]
    with pytest.raises(ConfigError, match=r"do not add up: .*a\.txt \(since-load\), .*b\.txt \(intervals\)"):
        read_files(paths, Options())


@pytest.mark.parametrize("times", [["0" * 9], ["8589934591"], ["100000000", "8589934591"]])
def test_times_of_any_size_are_read_or_refused(tmp_path: Path, times: list[str]) -> None:
    big = iostat({9: ("1" * 18, "0")})
    survives(tmp_path / "x", "".join(t + "\n" + big for t in times).encode(), None)


def test_rounded_counts_of_zpool_iostat_are_told(tmp_path: Path) -> None:
    found = read_files([put(tmp_path, iostat({9: ("1.50K", "0")}))], Options())
    assert found.frame["count"].sum() == 1536
    assert any("rounded by zpool" in w for w in found.section["warnings"])


def test_a_missing_row_of_zpool_iostat_is_refused(tmp_path: Path) -> None:
    lines = iostat({9: ("1", "0")}).splitlines(keepends=True)
    del lines[10]
    with pytest.raises(ConfigError, match=r"line 11: the row of \d+ ns is missing"):
        read_files([put(tmp_path, "".join(lines))], Options())


def test_times_far_apart_double_the_interval_and_lose_nothing() -> None:
    generator = np.random.default_rng(1)
    tally = Tally(10**6, max_cells=1000)
    for _ in range(20):
        times = generator.integers(0, 10**12, 200_000)
        tally.add(tally.group("h", "read"), times, generator.integers(0, 20, times.size))
    frame, _ = tally.frame("p", "client")
    assert frame["count"].sum() == tally.total == 4_000_000
    assert frame.height <= 1000 and tally.doubled
    assert tally.interval_ns == 10**6 << tally.doubled


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 2), st.integers(0, 2047)), max_size=300),
    # The two together stay below the number of intervals that a tally can tell apart; beyond it is refused.
    st.integers(1000, 10**6),
    st.integers(0, 10**15),
)
def test_every_way_to_count_counts_the_same(
    rows: list[tuple[int, int, int]], interval_ns: int, later_ns: int
) -> None:
    """One row each, with numbers of rows, and by groups: near each other and, with `later_ns`, far apart."""
    tallies = [Tally(interval_ns) for _ in range(4)]
    for spread in (0, later_ns):
        times, which, bins = (np.array([row[n] for row in rows], dtype=np.int64) for n in range(3))
        if times.size:
            times[-1] += spread
        for tally in tallies:
            groups = np.array([tally.group("h", "write"), tally.group("g", "read"), tally.group("h", "read")])
        one, by_groups, counted, by_rows = tallies
        one.add(groups[which], times, bins)
        by_groups.take(by_groups.part_of(groups, which, times, bins))
        counted.add(groups[which], times, bins, np.ones(times.size, dtype=np.int64))
        # In any order, and each row of its own group and time.
        order = np.argsort(bins)
        by_rows.add(groups[which], times, bins[order], np.ones(times.size, dtype=np.int64), order)
    found = [tally.frame("p", "client")[0] for tally in tallies]
    assert all(frame.equals(found[0]) for frame in found[1:])
    assert found[0]["count"].sum() == 2 * len(rows)


@pytest.mark.parametrize("format_", BY_NAME)
def test_little_that_inflates_to_much_is_refused_in_little_memory(tmp_path: Path, format_: str) -> None:
    path = put(tmp_path, gzip.compress(bytes(300 << 20), 1), "x.gz")
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError):
            read_files([path], Options(format=format_, unit="us"))
        # The formats that are documents are bounded at 64 and 256 MiB of content.
        assert tracemalloc.get_traced_memory()[1] < 560 << 20
    finally:
        tracemalloc.stop()


FIXTURES = [
    ("fio-log", (DATA / "plain_clat.1.log").read_bytes()),
    ("fio-log", (DATA / "offs_lat.1.log").read_bytes()),
    ("fio-hist", (DATA / "h6_clat_hist.1.log").read_bytes()),
    ("fio-json", (DATA / "h6.json").read_bytes()),
    ("trace", b"0.5 120\n1.5 130\n2 5e3\n"),
    ("bpftrace", (KIT_DATA / "trace-read.json").read_bytes()[:20000]),
    ("zpool-iostat", iostat({5: ("10", "1.2K")}).encode()),
    ("zpool-iostat", "".join(f"{n}\n{iostat({5: ('10', '1')})}" for n in (10**9, 10**9 + 1)).encode()),
    ("zpool-iostat", "".join("tank\n" + iostat({5: ("10", "1")}, True) for _ in range(3)).encode()),
]
TOKENS = [
    b"",
    b"\n",
    b",",
    b" ",
    b"-",
    b"nan",
    b"inf",
    b"1e99",
    b"9" * 19,
    b"\xff",
    b"\0",
    b"{",
    b'"',
    b"}",
    b"0x",
]
MAGIC = [b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]
edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(TOKENS) | st.binary(max_size=4)),
    max_size=4,
)


def survives(path: Path, content: bytes, format_: str | None) -> None:
    """An error for people, or a run whose sums close."""
    path.write_bytes(content)
    try:
        found = read_files([path], Options(format=format_, unit="us", log_vdevs=frozenset({1})))
    except KitError as error:
        assert error.message
        return
    (file,) = found.section["files"]
    assert found.frame["count"].sum() == file["rows_counted"]
    assert file["rows_read"] == file["rows_counted"] + sum(file["left_out"].values())
    json.dumps(found.section, allow_nan=False)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FIXTURES), edits, st.booleans())
def test_damaged_files_are_read_or_refused(
    tmp_path: Path, fixture: tuple[str, bytes], changes: list[tuple[float, int, bytes]], told: bool
) -> None:
    format_, content = fixture
    for where, length, token in changes:
        at = int(where * len(content))
        content = content[:at] + token + content[at + length :]
    survives(tmp_path / "x", content, format_ if told else None)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=300),
    st.sampled_from([*BY_NAME, None]),
    st.sampled_from([b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]),
)
def test_any_bytes_are_read_or_refused(
    tmp_path: Path, content: bytes, format_: str | None, start: bytes
) -> None:
    survives(tmp_path / "x", start + content, format_)


def hsp(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kit.cli", *args],
        cwd=cwd, env={**os.environ, "PYTHONPATH": ROOT}, capture_output=True, text=True, timeout=100,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_the_command_makes_a_run_that_report_can_draw_again(tmp_path: Path) -> None:
    logs = [str(DATA / f"plain_clat.{n}.log") for n in (1, 2)]
    done = hsp("import", *logs, "--name", "mine", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["verdict"] == "unknown"
    assert summary["reasons"] == ["Imported: nothing says which tier answered, nor that all I/Os are here."]
    assert sum(r["count"] for r in summary["rows"]) == 100
    run = tmp_path / "results" / "mine" / "latest"
    assert (tmp_path / summary["path"]).resolve() == run.resolve()
    names = {p.name for p in run.iterdir()}
    assert {"manifest.json", "latency.parquet", "summary.json", "report.html"} <= names
    again = hsp("report", str(run), "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["reasons"] == summary["reasons"]


def test_a_file_whose_name_is_no_text(tmp_path: Path, hsp_here: Called) -> None:
    name = os.fsdecode(b"a\xff_lat.1.log")
    (tmp_path / name).write_text("0, 7, 0, 512, 0\n")
    done = hsp_here("import", name, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run = tmp_path / "results" / "import" / "latest"
    assert pl.read_parquet(run / "latency.parquet")["host"].to_list() == ["a?.1"]
    assert json.loads((run / "manifest.json").read_text())["import"]["files"][0]["file"] == "a?_lat.1.log"


@pytest.mark.parametrize(
    ("args", "said"),
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
def test_what_is_refused_leaves_no_run(tmp_path: Path, hsp_here: Called, args: list[str], said: str) -> None:
    done = hsp_here("import", *args, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not done.stdout and not list(tmp_path.glob("results/*/*"))
