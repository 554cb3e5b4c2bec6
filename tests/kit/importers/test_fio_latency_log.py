"""fio's latency logs: what fio wrote, and what damage does."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from kit.core.errors import ConfigError
from kit.importers import fio_latency_log
from kit.load.fio_latency_log import MAX_LATENCY_NS, total_ns
from tests.kit.importers.samples import DATA, ROW, counted, imported, put_log


def expected(*names: str) -> Counter[tuple[str, str, int, int]]:
    """Host, op and bin of each row of fixtures, without the importer's parser."""
    counts: Counter[tuple[str, str, int, int]] = Counter()
    for name in names:
        host = name.replace("_clat", "").replace("_lat", "").replace(".log", "")
        for line in (DATA / name).read_text().splitlines():
            _, latency, direction = line.split(",")[:3]
            low, high = map(int, bin_edges(bin_index(int(latency))))
            counts[host, ("read", "write")[int(direction)], low, high] += 1
    return counts


@pytest.mark.parametrize(
    "names", [("plain_clat.1.log", "plain_clat.2.log"), ("offs_lat.1.log",), ("prio_lat.1.log",)]
)
def test_each_row_of_a_log_is_in_its_bin(names: tuple[str, ...]) -> None:
    run = imported(*(DATA / n for n in names))
    assert counted(run, "host", "op", "lo_ns", "hi_ns") == expected(*names)
    assert not run.section["warnings"]


def test_extremes_are_exact() -> None:
    latencies = [int(x.split(",")[1]) for x in (DATA / "offs_lat.1.log").read_text().splitlines()]
    (extreme,) = imported(DATA / "offs_lat.1.log").phase["extremes"]
    assert (extreme["min_ns"], extreme["max_ns"]) == (min(latencies), max(latencies))


def test_sums_are_exact() -> None:
    latencies = [int(x.split(",")[1]) for x in (DATA / "offs_lat.1.log").read_text().splitlines()]
    (found,) = imported(DATA / "offs_lat.1.log").phase["sums"]
    assert (found["ios"], found["sum_ns"]) == (len(latencies), sum(latencies))


@given(st.lists(st.tuples(st.integers(0, MAX_LATENCY_NS - 1), st.integers(0, 1)), max_size=20))
def test_sums_and_extremes_of_both_directions(rows: list[tuple[int, int]]) -> None:
    latency, direction = (np.array([row[n] for row in rows], dtype=np.int64) for n in (0, 1))
    by_direction = {d: [value for value, found in rows if found == d] for d in (0, 1)}
    wanted = [
        (5 + d, len(values), sum(values), min(values), max(values))
        for d, values in by_direction.items()
        if values
    ]
    assert list(fio_latency_log._exact(np.array([5, 6]), latency, direction)) == wanted


def test_a_sum_of_numbers_that_64_bits_do_not_hold() -> None:
    assert total_ns(np.full(2000, MAX_LATENCY_NS - 1, dtype=np.int64)) == 2000 * (MAX_LATENCY_NS - 1)


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
    path = put_log(tmp_path, (ROW * before + bad + "\n" + ROW).encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        imported(path)
    assert f"x_lat.1.log, line {before + 1}: " in caught.value.message
    assert said in caught.value.message


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gz"])
def test_damage_far_into_a_log_is_refused_with_its_line(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    """Blocks have 1 MiB, the damage is in the second; the fast parser refuses it, the exact one names it."""
    rows = [f"{n // 100}, {n + 7}, {n % 2}, 512, 0" for n in range(100_000)]
    rows[90_000] = "900, 12, 0, 512"
    path = put_log(tmp_path, pack(("\n".join(rows) + "\n").encode()))
    assert path.stat().st_size > 3 << 19 or pack is gzip.compress
    with pytest.raises(ConfigError, match=r"line 90001: 4 columns where the first line has 5"):
        imported(path)
    rows[90_000] = "900, 12, 0, 512, 0"
    found = imported(put_log(tmp_path, pack(("\n".join(rows) + "\n7").encode())))
    assert (found.section["rows_counted"], found.section["files"][0]["rows_read"]) == (100_000, 100_001)


def test_trims_and_a_truncated_last_line_are_left_out_and_counted(tmp_path: Path) -> None:
    found = imported(put_log(tmp_path, ROW * 3 + "6, 10, 2, 512, 0\n" * 2 + "6, 10"))
    (file,) = found.section["files"]
    assert (file["rows_read"], file["rows_counted"]) == (6, 3)
    assert file["left_out"] == {"trims: latency.parquet has no such op": 2, "truncated last line": 1}
    assert any("1 left out: truncated last line" in w for w in found.section["warnings"])


def test_averages_are_no_ios_and_no_damage() -> None:
    with pytest.raises(ConfigError, match=r"line 1: an average \(log_avg_msec\)") as caught:
        imported(DATA / "avg_lat.1.log")
    assert caught.value.hint == "run fio without log_avg_msec: averages are no I/Os"


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
    latencies = [0, 7, 99_999_999, 100_000_000, 999_999_999_999, MAX_LATENCY_NS - 1, 31, 32]
    rows = [text.format(t=n % 10, v=v, d=n % 3) for n, v in enumerate(latencies * 50)]
    found = imported(put_log(tmp_path, "\n".join(rows) + "\n"), interval_ns=10**6)
    low_ns = bin_edges(bin_index(latencies))[0].tolist() * 50
    assert counted(found, "time_ns", "op", "lo_ns") == Counter(
        (n % 10 * 10**6, ("read", "write")[n % 3], low) for n, low in enumerate(low_ns) if n % 3 < 2
    )
    # One field more or less, in the middle, is named.
    for damaged in (rows[70] + ", 1", rows[70].rsplit(",", 1)[0]):
        rows[70:71] = [damaged]
        with pytest.raises(ConfigError, match=rf"line 71: \d columns where the first line has {columns}"):
            imported(put_log(tmp_path, "\n".join(rows) + "\n"))


@pytest.mark.parametrize("columns", [1, 2, 3, 8, 9])
def test_unknown_numbers_of_columns_are_refused(tmp_path: Path, columns: int) -> None:
    path = put_log(tmp_path, (", ".join(["1"] * columns) + "\n") * 3)
    with pytest.raises(ConfigError, match=rf"line 1: {columns} columns, a fio latency log has 4 to 7"):
        imported(path, format="fio-log")


def test_averages_with_maxima_are_no_ios(tmp_path: Path) -> None:
    """log_window_value=both: time, average, maximum, direction, block size, priority."""
    with pytest.raises(ConfigError, match=r"line 1: the direction .* log_window_value=both"):
        imported(put_log(tmp_path, "100, 175800, 205912, 0, 0, 0\n" * 2))
    with pytest.raises(ConfigError) as caught:
        imported(put_log(tmp_path, "100, 175800, 205912, 0, 0, 0, 0x0000, 0\n" * 2), format="fio-log")
    assert "log_window_value=both" in caught.value.hint


def one_at_a_time(values: list[int], ns: int, columns: str = "", idle_ns: int = 0) -> str:
    """A log of one I/O after the other; `ns`: of a unit of its values, `idle_ns`: until the next begins."""
    now_ns, lines = 0, []
    for number, value in enumerate(values):
        now_ns += value * ns
        lines.append(f"{now_ns // 1_000_000}, {value}, 0, 4096{columns.format(number * 4096)}\n")
        now_ns += idle_ns
    return "".join(lines)


DISK_US = [6300 + 977 * (number % 6) for number in range(200)]


@pytest.mark.parametrize(
    ("log", "unit", "sum_ns"),
    [
        (one_at_a_time(DISK_US, 1000), None, sum(DISK_US) * 1000),
        (one_at_a_time(DISK_US, 1000, ", {}"), None, sum(DISK_US) * 1000),
        (one_at_a_time([each * 1000 for each in DISK_US], 1), None, sum(DISK_US) * 1000),
        (one_at_a_time([1500] * 5000, 1), None, 1500 * 5000),
        (one_at_a_time(DISK_US, 1000, idle_ns=40_000_000), "us", sum(DISK_US) * 1000),
        (one_at_a_time(DISK_US, 1000), "ns", sum(DISK_US)),
    ],
)
def test_the_unit_of_a_log_is_that_of_the_fio_that_wrote_it(
    tmp_path: Path, log: str, unit: str | None, sum_ns: int
) -> None:
    found = imported(put_log(tmp_path, log), unit=unit)
    assert found.phase["sums"][0]["sum_ns"] == sum_ns


@pytest.mark.parametrize("log", [one_at_a_time(DISK_US, 1000, idle_ns=40_000_000), "9, 1000, 0, 512\n"])
def test_where_values_fit_both_units_the_user_is_asked(tmp_path: Path, log: str) -> None:
    with pytest.raises(ConfigError, match="microseconds if fio 2") as caught:
        imported(put_log(tmp_path, log))
    assert "--unit us" in caught.value.hint


@pytest.mark.parametrize("start_ms", [0, 1_795_374_022_904])
def test_a_rate_is_of_the_time_with_ios(tmp_path: Path, start_ms: int) -> None:
    """Also of a log that is shorter than an interval, and begins within one."""
    rows = "".join(f"{start_ms + number // 4}, 250000, 0, 4096, 0\n" for number in range(800))
    found = imported(put_log(tmp_path, rows))
    assert abs(found.phase["end_ns"] - 200_000_000) <= 1_000_000 and counted(found)[()] == 800
