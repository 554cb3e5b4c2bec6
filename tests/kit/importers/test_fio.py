"""fio's logs, histograms and JSON: what fio wrote, and what damage does."""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.core.errors import ConfigError
from kit.importers import fio_bins, fio_histogram_log, fio_latency_log
from kit.importers.base import Options
from kit.importers.run import Imported, read_files
from kit.load import fio_latency_log as parser
from kit.importers.source import Block, Source

DATA = Path(__file__).with_name("data")
ROW = "5, 1000, 0, 512, 0\n"


def imported(*paths: Path, **options: object) -> Imported:
    return read_files(list(paths), Options(**options))  # type: ignore[arg-type]


def put(tmp_path: Path, content: str | bytes, name: str = "x_lat.1.log") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def by_hand(*names: str) -> Counter[tuple[str, str, int]]:
    """Host, op and bin of each row of fixtures, without the importer's parser."""
    counts: Counter[tuple[str, str, int]] = Counter()
    for name in names:
        host = name.replace("_clat", "").replace("_lat", "").replace(".log", "")
        for line in (DATA / name).read_text().splitlines():
            _, latency, direction = line.split(",")[:3]
            counts[host, ("read", "write")[int(direction)], int(bin_index(int(latency)))] += 1
    return counts


@pytest.mark.parametrize(
    "names", [("plain_clat.1.log", "plain_clat.2.log"), ("offs_lat.1.log",), ("prio_lat.1.log",)]
)
def test_each_row_of_a_log_is_in_its_bin(names: tuple[str, ...]) -> None:
    found = imported(*(DATA / n for n in names))
    counts: Counter[tuple[str, str, int]] = Counter()
    for row in found.frame.iter_rows(named=True):
        index = int(bin_index(row["lo_ns"]))
        assert (row["lo_ns"], row["hi_ns"]) == tuple(map(int, bin_edges(index)))
        counts[row["host"], row["op"], index] += row["count"]
    assert counts == by_hand(*names)
    assert not found.section["warnings"]


def test_extremes_are_exact() -> None:
    latencies = [int(x.split(",")[1]) for x in (DATA / "offs_lat.1.log").read_text().splitlines()]
    (extreme,) = imported(DATA / "offs_lat.1.log").phase["extremes"]
    assert (extreme["min_ns"], extreme["max_ns"]) == (min(latencies), max(latencies))


@given(
    st.lists(st.tuples(st.integers(0, parser.MAX_LATENCY_NS - 1), st.integers(0, 1)), max_size=20)
)
def test_extremes_of_both_directions(rows: list[tuple[int, int]]) -> None:
    latency, direction = (np.array([row[n] for row in rows], dtype=np.int64) for n in (0, 1))
    wanted = [(d, min(mine), max(mine)) for d in (0, 1) if (mine := [v for v, found in rows if found == d])]
    assert fio_latency_log._extremes(latency, direction) == wanted


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("5, -1, 0, 512, 0", "latency is not a natural number"),
        ("-5, 1, 0, 512, 0", "time is not"),
        ("5, nan, 0, 512, 0", "latency is not"),
        ("5, 1e3, 0, 512, 0", "latency is not"),
        ("5, 1.5, 0, 512, 0", "latency is not"),
        ("5, 18446744073709551615, 0, 512, 0", "latency is not"),
        ("5, 9223372036854775807, 0, 512, 0", "latency is impossible"),
        ("9999999999999999999, 1, 0, 512, 0", "time is impossible"),
        ("5, 1, 3, 512, 0", "direction"),
        ("5, 1, 0, 0, 0", "average"),
        ("5, 1, 0, 512", "4 columns where the first line has 5"),
        ("5, 1, 0, 512, 0, 0", "6 columns"),
        ("5, 1, 0, 512, x", "priority"),
        ("", "1 columns"),
        ("fio: pid=1, err=5, file:x.c:1, func=y, error=z", "time is not"),
        ("\xff\xfe", "1 columns"),
        ('"5", 1, 0, 512, 0', "time is not"),
    ],
)
@pytest.mark.parametrize("before", [1, 40])
def test_damage_is_refused_with_its_line(tmp_path: Path, bad: str, said: str, before: int) -> None:
    path = put(tmp_path, (ROW * before + bad + "\n" + ROW).encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        imported(path)
    assert f"x_lat.1.log, line {before + 1}: " in caught.value.message
    assert said in caught.value.message


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_damage_far_into_a_log_is_refused_with_its_line(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """Blocks have 512 KiB, the damage is in the tenth; the fast parser refuses it, the exact one names it."""
    rows = [f"{n // 100}, {n + 7}, {n % 2}, 512, 0" for n in range(300_000)]
    rows[250_000] = "2500, 12, 0, 512"
    path = put(tmp_path, pack(("\n".join(rows) + "\n").encode()))
    assert path.stat().st_size > 4 << 20 or pack is gzip.compress
    with pytest.raises(ConfigError, match=r"line 250001: 4 columns where the first line has 5"):
        imported(path)
    rows[250_000] = "2500, 12, 0, 512, 0"
    found = imported(put(tmp_path, pack(("\n".join(rows) + "\n7").encode())))
    assert (found.section["rows_counted"], found.section["files"][0]["rows_read"]) == (300_000, 300_001)


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    for start, line in (("1,2,0,4,", 1), (ROW * 3, 4), (ROW * 200_000, 200_001)):
        with pytest.raises(ConfigError, match=f"line {line}: longer than 1 MiB"):
            imported(put(tmp_path, start + "1" * (5 << 20)), format="fio-log")


def test_a_truncated_last_line_is_left_out_and_told(tmp_path: Path) -> None:
    found = imported(put(tmp_path, ROW * 3 + "6, 10"))
    assert found.section["rows_counted"] == 3
    assert found.section["files"][0]["left_out"] == {"truncated last line": 1}
    assert any("1 left out: truncated last line" in w for w in found.section["warnings"])


def test_trims_are_counted_and_told(tmp_path: Path) -> None:
    found = imported(put(tmp_path, ROW * 3 + "6, 10, 2, 512, 0\n" * 2))
    (file,) = found.section["files"]
    assert (file["rows_read"], file["rows_counted"], sum(file["left_out"].values())) == (5, 3, 2)


def test_averages_are_no_ios() -> None:
    with pytest.raises(ConfigError, match=r"line 1: an average \(log_avg_msec\)"):
        imported(DATA / "avg_lat.1.log")


def test_the_same_ios_are_not_counted_twice(tmp_path: Path) -> None:
    lat, clat = put(tmp_path, ROW, "a_lat.1.log"), put(tmp_path, ROW, "a_clat.1.log")
    with pytest.raises(ConfigError, match="unlike kinds"):
        imported(lat, clat)
    (tmp_path / "again").symlink_to(lat)
    with pytest.raises(ConfigError, match="the same file"):
        imported(lat, tmp_path / "again")
    with pytest.raises(ConfigError, match="unlike formats"):
        imported(lat, DATA / "plain.json")


def one_job(**job: object) -> str:
    return json.dumps({"jobs": [{"jobname": "a", "job_runtime": 5, **job}]})


def direction(ios: int) -> dict[str, object]:
    return {"total_ios": ios, "clat_ns": {"N": ios, "bins": {"100": ios}}}


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


def test_reports_every_second_are_read_in_parts(tmp_path: Path) -> None:
    """fio --status-interval=1 writes more in an hour than one document may have; the last report counts."""
    pad = "\n" + " " * 2000
    report = [json.dumps({"jobs": [{"jobname": "a", "read": direction(n)}]}, indent=1) for n in (5, 6)]
    path = put(tmp_path, "fio: a word\n" + (report[0].replace("\n", pad) + "\n") * 8000 + report[1], "x.json")
    # Indented, so that nothing but the end of a document is a brace at the start of a line.
    text = path.read_text().replace(pad + "}\n", "\n}\n")
    path.write_text(text)
    assert len(text) > 80 << 20
    found = imported(path)
    assert found.section["rows_counted"] == 6
    told = " ".join(found.section["warnings"])
    assert "1 lines of text before" in told and "8000 earlier reports" in told
    path.write_text(text + "\n{1\n")
    assert (
        f"line {text.count(chr(10)) + 2}: a later document is damaged"
        in imported(path).section["warnings"][0]
    )


def test_averages_are_not_called_damage(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 1: an average") as caught:
        imported(DATA / "avg_lat.1.log")
    assert caught.value.hint == "run fio without log_avg_msec: averages are no I/Os"


def test_a_zstd_file_that_begins_with_a_skippable_frame(tmp_path: Path) -> None:
    """pzstd puts the size of each frame into one before it."""
    frame = zstandard.ZstdCompressor().compress(ROW.encode())
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    found = imported(put(tmp_path, (skipped + frame) * 2, "x_lat.1.log.zst"))
    assert found.section["rows_counted"] == 2


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gz", "zst"])
def test_compressed_logs(tmp_path: Path, pack: object) -> None:
    plain = (DATA / "plain_clat.1.log").read_bytes()
    half = plain[: plain.index(b"\n", 500) + 1]
    packed = pack(half) + pack(plain[len(half) :])  # type: ignore[operator]
    path = put(tmp_path, packed, "plain_clat.1.log.gz")
    assert imported(path).frame.equals(imported(DATA / "plain_clat.1.log").frame)
    for damaged in (packed[:-5], packed[:30], packed[:20] + b"\0\0\0\0" + packed[24:]):
        with pytest.raises(ConfigError, match="damaged compression"):
            imported(put(tmp_path, damaged, "cut.log"), format="fio-log")


def test_a_block_border_loses_no_line(tmp_path: Path) -> None:
    lines = [f"{n}, {n + 1}, {n % 2}, 512, 0\n" for n in range(1000)]
    source = Source(put(tmp_path, "".join(lines)))
    for size in (1, 7, 100, 4096, 1 << 20):
        blocks = list(source.blocks(size))
        assert b"".join(b.data for b in blocks).decode() == "".join(lines)
        seen = 1
        for block in blocks:
            assert block.first_line == seen and not block.cut
            seen += block.data.count(b"\n")


# What fio writes with log_offset, log_prio and log_issue_time, and their columns (flush_samples in iolog.c).
WRITTEN = {
    "fio 2": ("{t}, {v}, {d}, 4096", 4),
    "plain": ("{t}, {v}, {d}, 4096, 0", 5),
    "log_prio": ("{t}, {v}, {d}, 4096, 0x{v:04x}", 5),
    "log_offset": ("{t}, {v}, {d}, 4096, 61440, 1", 6),
    "log_offset log_prio": ("{t}, {v}, {d}, 512, 1099511627776, 0xE00{t}", 6),
    "log_issue_time": ("{t}, {v}, {d}, 4096, 0, 184467440737095516", 6),
    "all": ("{t}, {v}, {d}, 4096, 18446744073709551615, 0x6004, 99{v}", 7),
    "all in few digits": ("{t},{v},{d},1,0,0,0", 7),
    "all with CR LF": ("{t}, {v}, {d}, 4096, 0, 0x2004, 5\r", 7),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_every_form_that_fio_writes(tmp_path: Path, form: str) -> None:
    text, columns = WRITTEN[form]
    latencies = [0, 7, 99_999_999, 100_000_000, 999_999_999_999, parser.MAX_LATENCY_NS - 1, 31, 32]
    rows = [text.format(t=n % 10, v=v, d=n % 3) for n, v in enumerate(latencies * 50)]
    found = imported(put(tmp_path, "\n".join(rows) + "\n"), interval_ns=10**6)
    wanted: Counter[tuple[int, str, int]] = Counter()
    for n, v in enumerate(latencies * 50):
        if n % 3 < 2:
            wanted[n % 10 * 10**6, ("read", "write")[n % 3], int(bin_index(v))] += 1
    counted: Counter[tuple[int, str, int]] = Counter()
    for row in found.frame.iter_rows(named=True):
        counted[row["time_ns"], row["op"], int(bin_index(row["lo_ns"]))] += row["count"]
    assert counted == wanted
    # One field more or less, in the middle, is named.
    for damaged in (rows[70] + ", 1", rows[70].rsplit(",", 1)[0]):
        rows[70:71] = [damaged]
        with pytest.raises(ConfigError, match=rf"line 71: \d columns where the first line has {columns}"):
            imported(put(tmp_path, "\n".join(rows) + "\n"))


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 9])
def test_unknown_numbers_of_columns_are_refused(tmp_path: Path, columns: int) -> None:
    path = put(tmp_path, (", ".join(["1"] * columns) + "\n") * 3)
    with pytest.raises(ConfigError, match=rf"line 1: {columns} columns, a fio latency log has 4 to 7"):
        imported(path, format="fio-log")


def test_averages_with_maxima_are_no_ios(tmp_path: Path) -> None:
    """log_window_value=both: time, average, maximum, direction, block size, priority."""
    with pytest.raises(ConfigError, match=r"line 1: the direction .* log_window_value=both"):
        imported(put(tmp_path, "100, 175800, 205912, 0, 0, 0\n" * 2))
    with pytest.raises(ConfigError) as caught:
        imported(put(tmp_path, "100, 175800, 205912, 0, 0, 0, 0x0000, 0\n" * 2), format="fio-log")
    assert "log_window_value=both" in caught.value.hint


number = st.integers(-1, 2**64) | st.integers(0, 10**6)
odd = st.sampled_from(
    ["", " ", "0x1f", "0x", "0xg", "1x2", "0x1x", "a", "1.0", "nan", "+5", "1e3", "\t7", "7 ", "  7", "\r",
     "\u0663", "00000000000000000007", "0x" + "f" * 16, "0x" + "f" * 17, "1\n2", "0x\n1"]
)  # fmt: skip
field = st.one_of(number.map(str), number.map(hex), odd)
comma = st.sampled_from([",", ", "])


@given(
    st.lists(st.tuples(*[st.integers(0, 10**n) for n in (9, 16, 0, 5, 17, 3, 19)]), min_size=1, max_size=6),
    st.integers(4, 7),
    comma,
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6), field, comma), max_size=2),
)
def test_the_fast_parser_agrees_with_the_exact_one(
    rows: list[tuple[int, ...]],
    columns: int,
    between: str,
    end: str,
    hexadecimal: bool,
    changes: list[tuple[int, int, str, str]],
) -> None:
    texts = [[str(v) for v in row[:columns]] for row in rows]
    if hexadecimal and columns > 4:
        for row, text in zip(rows, texts, strict=True):
            text[4] = f"0x{row[4]:04x}"
    data = "".join(between.join(text) + end for text in texts)
    for row, column, what, other in changes:
        texts[row % len(texts)][column % columns] = what
        data = "".join((other if n == row else between).join(text) + end for n, text in enumerate(texts))
    block = Block(data.encode(), 1, data.count("\n"))
    fast = parser.fast_rows(block.data, columns)
    try:
        slow = parser.exact_rows(block.data, columns)
    except parser.BadLine:
        assert fast is None
        return
    if fast is None:
        # What fio writes must not be slow.
        assert changes or any(row[3] == 0 for row in rows) or max(max(r) for r in rows) >= 10**16
        return
    for a, b in ((fast.time_ms, slow.time_ms), (fast.latency_ns, slow.latency_ns)):
        assert np.array_equal(a, b)
    assert np.array_equal(fast.direction, slow.direction)


def test_fio_bins_are_those_of_fio() -> None:
    low = fio_bins.lower_edge(np.arange(fio_bins.BINS + 1))
    assert (np.diff(low) >= 1).all() and low[0] == 0 and low[-1] == 2**34
    for index in range(fio_bins.BINS):
        assert fio_bins.index_of(int(low[index])) == fio_bins.index_of(int(low[index + 1]) - 1) == index
        assert low[index] <= fio_bins.midpoint(index) < low[index + 1]


@pytest.mark.parametrize("name", ["h0_clat_hist.1.log", "h3_clat_hist.1.log", "h6_clat_hist.1.log"])
def test_histogram_logs_keep_their_bins(name: str) -> None:
    rows = [[int(v) for v in text.split(",")] for text in (DATA / name).read_text().splitlines()]
    shift = {1856: 0, 232: 3, 29: 6}[len(rows[0]) - 3]
    wanted: Counter[tuple[str, int, int]] = Counter()
    for _, direction, _, *counts in rows:
        for column, count in enumerate(counts):
            edges = fio_bins.lower_edge([column << shift, (column + 1) << shift])
            wanted[("read", "write")[direction], int(edges[0]), int(edges[1])] += count
    frame = imported(DATA / name).frame
    found: Counter[tuple[str, int, int]] = Counter()
    for row in frame.iter_rows(named=True):
        found[row["op"], row["lo_ns"], row["hi_ns"]] += row["count"]
    assert found == +wanted


def test_histograms_of_unlike_coarseness_meet_at_the_coarser(tmp_path: Path) -> None:
    fine, coarse = DATA / "h3_clat_hist.1.log", DATA / "h6_clat_hist.1.log"
    both = imported(fine, coarse, host="h").frame
    assert both["count"].sum() == imported(fine).frame["count"].sum() + imported(coarse).frame["count"].sum()
    edges = sorted(set(zip(both["lo_ns"], both["hi_ns"], strict=True)))
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(edges))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda fields: fields[:-1], "28 bins where"),
        (lambda fields: [*fields[:-1], "-1"], "natural"),
        (lambda fields: [*fields[:-1], "nan"], "natural"),
        (lambda fields: [*fields[:-1], "9" * 19], "impossible"),
        # Not so long that it is odd: the fast parser has to look.
        (lambda fields: [*fields[:-1], str(fio_histogram_log.MAX_COUNT + 1)], "impossible"),
        (lambda fields: [fields[0], "7", *fields[2:]], "impossible"),
    ],
)
def test_damaged_histograms_are_refused_with_their_line(tmp_path: Path, change: object, said: str) -> None:
    lines = (DATA / "h6_clat_hist.1.log").read_text().splitlines()
    lines[2] = ",".join(change(lines[2].split(",")))  # type: ignore[operator]
    with pytest.raises(ConfigError, match=f"line 3: .*{said}"):
        imported(put(tmp_path, "\n".join(lines) + "\n", "h_clat_hist.1.log"))


count = st.sampled_from(["0"] * 6 + ["1", "20", "999999999", str(fio_histogram_log.MAX_COUNT)])
wrong = st.sampled_from(
    [
        "",
        " ",
        "-1",
        "x",
        "0x1",
        "1.0",
        " 7",
        "7 ",
        "00",
        "0" * 20,
        str(fio_histogram_log.MAX_COUNT + 1),
        "9" * 17,
        "1, 2",
    ]
)


def both_windows(
    data: bytes, columns: int
) -> tuple[fio_histogram_log.Windows | None, fio_histogram_log.Windows | None]:
    """What the fast parser and the exact one make of lines: the same, or nothing if the exact one refuses."""
    block = Block(data, 1, data.count(b"\n"))
    fast = fio_histogram_log.fast_windows(block, columns)
    try:
        slow = fio_histogram_log.slow_windows(Source(DATA / "plain.json"), block, columns)
    except ConfigError:
        assert fast is None
        return None, None
    if fast is not None:
        for name in ("time_ms", "direction", "row", "column", "counts"):
            assert np.array_equal(getattr(fast, name), getattr(slow, name)), name
        assert fast.trims == slow.trims
    return fast, slow


@given(
    st.lists(st.tuples(st.integers(0, 10**13), st.integers(0, 2), st.lists(count, min_size=29, max_size=29))
             , min_size=1, max_size=5),
    comma,
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 31), wrong), max_size=2),
)  # fmt: skip
def test_fast_windows_agree_with_exact_ones(
    rows: list[tuple[int, int, list[str]]], between: str, changes: list[tuple[int, int, str]]
) -> None:
    texts = [[str(time_ms), str(direction), "4096", *counts] for time_ms, direction, counts in rows]
    for row, column, what in changes:
        texts[row % len(texts)][column] = what
    data = "".join(between.join(text) + "\n" for text in texts)
    fast, slow = both_windows(data.encode(), 29)
    if slow is None:
        return
    if fast is None:
        # What fio writes must not be slow.
        long = sum(len(text) > 7 for row in texts for text in row)
        assert changes or max(row[0] for row in rows) > 10**12 or long > 4 * len(rows)
        return
    assert int(slow.counts.sum()) + slow.trims == sum(int(v) for t in texts for v in t[3:])


few = st.dictionaries(st.integers(0, 115), st.sampled_from(["7", "10", "305", "4096", "1234567"]), max_size=6)


@given(
    st.lists(few, min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), st.sampled_from(
        [b"", b"0", b"5", b",", b" ", b", 0", b", 0, 0", b"\n", b", , 0", b"0, 0, 0, 0, 0, 0, 0, 0, "],
    )), max_size=2),
)  # fmt: skip
def test_runs_of_zeros_are_read_and_looked_at(
    rows: list[dict[int, str]], changes: list[tuple[float, int, bytes]]
) -> None:
    """Long runs of zeros are not parsed one by one; what is wrong in them is found all the same."""
    lines = [
        f"{1000 * n}, 0, 4096, {', '.join(row.get(c, '0') for c in range(116))}\n"
        for n, row in enumerate(rows, 1)
    ]
    data = "".join(lines).encode()
    for where, length, token in changes:
        at = int(where * (len(data) - 1))
        data = data[:at] + token + data[min(at + length, len(data) - 1) :]
    fast, slow = both_windows(data, 116)
    assert fast is not None or slow is None or changes


@pytest.mark.parametrize("before", [0, 3])
def test_histograms_whose_time_goes_back_name_the_line(tmp_path: Path, before: int) -> None:
    row = "0, 4096" + ", 1" * 29
    lines = [f"{1000 * n}, {row}" for n in range(1, before + 3)]
    lines.append(f"{1000 * before}, {row}")
    with pytest.raises(ConfigError, match=f"line {before + 3}: time goes back"):
        imported(put(tmp_path, "\n".join(lines) + "\n", "h_clat_hist.1.log"))


def document(**bins: int) -> dict[str, object]:
    total = sum(bins.values())
    return {"total_ios": total, "clat_ns": {"N": total, "bins": bins}}


def test_json_after_text_of_several_clients(tmp_path: Path) -> None:
    one, two = document(**{"1160": 3, "127": 1}), document(**{"1160": 5})
    clients = [
        {"jobname": "j", "hostname": "a", "job_runtime": 2000, "read": one},
        {"jobname": "j", "hostname": "b", "job_runtime": 3000, "read": two, "trim": two},
        {"jobname": "All clients", "read": document(**{"1160": 8, "127": 1})},
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
    path = put(tmp_path, json.dumps({"jobs": [{"jobname": "j", "read": part}]}), "out.json")
    with pytest.raises(ConfigError, match=said):
        imported(path)


def test_json_that_says_fewer_ios_than_its_bins_hold_is_told(tmp_path: Path) -> None:
    part = {"total_ios": 2, "clat_ns": {"N": 3, "bins": {"1160": 3}}}
    found = imported(put(tmp_path, json.dumps({"jobs": [{"jobname": "j", "read": part}]}), "out.json"))
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


HIST = "{time}, 0, 512, " + ", ".join(["0"] * 1850 + ["{count}"] + ["0"] * 5) + "\n"


def hist(lines: int, bad: int = 0) -> bytes:
    """A histogram log, with a line that is no histogram's."""
    rows = [HIST.format(time=n * 1000, count="NaN" if n == bad else 7) for n in range(1, lines + 1)]
    return "".join(rows).encode()


@pytest.mark.parametrize("lines", [40, 400])
def test_the_first_error_in_order_is_told_whatever_was_read_ahead(tmp_path: Path, lines: int) -> None:
    bad = put(tmp_path, hist(lines, lines), "one_clat_hist.1.log")
    # More than is looked at to tell what kind of file it is.
    cut = put(tmp_path, gzip.compress(hist(300))[:-20], "two_clat_hist.2.log.gz")
    with pytest.raises(ConfigError, match=rf"one_clat_hist.1.log, line {lines}: .*NaN"):
        imported(bad, cut)
    with pytest.raises(ConfigError, match=r"two_clat_hist.2.log.gz: damaged compression"):
        imported(put(tmp_path, hist(9), "good_clat_hist.3.log"), cut, bad)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_progress_over_many_files_never_goes_back(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    paths = [put(tmp_path, pack(hist(20 * n)), f"x{n}_clat_hist.{n}.log") for n in range(1, 5)]
    told: list[float] = []
    found = read_files(paths, Options(), told.append)
    assert found.section["rows_counted"] == 7 * 20 * 10
    assert told == sorted(told) and told[-1] == 1 and told[0] < 0.5
