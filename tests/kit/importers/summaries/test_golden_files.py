"""Files of the tools themselves (data/SOURCES.md), and what went into them, counted here anew."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kit.core.bins import bin_edges, bin_index
from kit.importers.format_detection import Imported, detect
from kit.importers.source import Source
from kit.store.tables import LATENCY_SCHEMA
from reports.output.openmetrics import openmetrics
from tests.kit.importers.samples import SUMMARIES, imported, put

Rows = list[tuple[int, int, int]]


def read(name: str, kind: str, **options: object) -> Imported:
    """A file, recognised as `kind`, whose rows are all counted or told."""
    path = SUMMARIES / name
    assert detect(Source(path)).name == kind
    return imported(path, **options)


def values(name: str) -> list[list[str]]:
    """What went into a file: a line a latency, with its series before it."""
    return [line.split() for line in (SUMMARIES / name).read_text().splitlines()]


def rows(run: Imported, title: str, **where: Any) -> Rows:
    """lo_ns, hi_ns, count of a phase."""
    frame = run.frame.filter(pl.col("phase") == title, **where)
    return frame.select("lo_ns", "hi_ns", "count").sort("lo_ns").rows()


def each_bin_holds(found: Rows, latencies_ns: Iterable[float]) -> None:
    """Bins do not overlap, and each has as many as there are between its bounds; none is lost."""
    latencies = sorted(latencies_ns)
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    for low, high, count in found:
        assert sum(low <= each < high for each in latencies) == count, (low, high)
    assert sum(count for *_, count in found) == len(latencies)


def ops(run: Imported) -> dict[str, str]:
    """The operation of each phase."""
    return {title: op for title, op in run.frame.select("phase", "op").unique().iter_rows()}


def means(run: Imported) -> dict[str, tuple[int, float]]:
    """I/Os and mean, ns, of each phase that has a sum."""
    sums = ((phase["name"], phase["sums"]) for phase in run.phases)
    return {name: (each["ios"], each["sum_ns"] / each["ios"]) for name, found in sums for each in found}


def test_powers_of_two_of_bcc() -> None:
    run = read("bcc-log2.txt", "bpf-hist")
    assert ops(run) == {"operation = read": "read", "operation = write": "write"}
    for op in ("read", "write"):
        us = [int(value) for kind, value in values("bcc-log2.values") if kind == op]
        found = rows(run, f"operation = {op}")
        each_bin_holds(found, (value * 1000 for value in us))
        assert {low for low, *_ in found} <= {0, *(1000 << n for n in range(1, 40))}
    assert "the counts of its 2 prints are added up" in " ".join(run.section["warnings"])


def test_steps_of_bcc() -> None:
    printed = re.findall(r"^ +([0-9]+) +: ([0-9]+)", (SUMMARIES / "bcc-linear.txt").read_text(), re.MULTILINE)
    expected = [(int(ms) * 10**6, (int(ms) + 1) * 10**6, int(n)) for ms, n in printed if int(n)]
    assert rows(read("bcc-linear.txt", "bpf-hist", op="write"), "msecs") == expected


def test_maps_of_bpftrace() -> None:
    run = read("bpftrace.txt", "bpf-hist")
    each_bin_holds(rows(run, "@usecs"), [0, 1000, 3000, 1_500_000, 1_600_000, 5_000_000_000])
    assert rows(run, "@usecs")[:2] == [(0, 1000, 1), (1000, 2000, 1)]
    assert rows(run, "@us[read, 4096]") == [(16_000, 32_000, 1)]
    assert rows(run, "@us[write, 8192]") == [(512_000, 1_024_000, 2)]
    # 7, 25 and -2 in steps of 5 from 0 to 20: what is beyond has no upper edge, and is bounded from below.
    assert rows(run, "@lin_us") == [(5000, 10_000, 1), (20_000, 40_000, 1)]
    assert ops(run)["@us[write, 8192]"] == "write"
    assert sum(run.section["files"][0]["left_out"].values()) == 2


def test_a_map_that_is_counted_on_counts_once(tmp_path: Path) -> None:
    first, second = "@us: \n[4, 8)   3 |@@|\n\n", "@us: \n[4, 8)   5 |@@|\n[8, 16)   1 |@|\n"
    grown = imported(put(tmp_path, first + second, "x"))
    assert rows(grown, "@us") == [(4000, 8000, 5), (8000, 16_000, 1)]
    cleared = imported(put(tmp_path, second + first, "y"))
    assert rows(cleared, "@us") == [(4000, 8000, 8), (8000, 16_000, 1)]


@pytest.mark.parametrize(
    ("name", "unit", "factor"), [("hdr1", "us", 1000), ("hdr3", "us", 1000), ("java", "ns", 1)]
)
def test_intervals_of_hdr_histograms(name: str, unit: str, factor: int) -> None:
    run = read(f"{name}.hlog", "hdr-log", unit=unit)
    step_ns = 2 * 10**9 if name != "java" else 10**9
    assert run.phase["interval_ns"] == step_ns and run.section["origin_ns"] == 1_700_000_000 * 10**9
    by_interval: dict[int, list[int]] = {}
    for interval, value in values(f"{name}.values"):
        by_interval.setdefault(int(interval), []).append(int(value) * factor)
    for interval, latencies in by_interval.items():
        tag = "write" if (name, interval) == ("java", 2) else "HdrHistogram"
        each_bin_holds(rows(run, tag, time_ns=interval * step_ns), latencies)
    # No bin is wider than the kit's, or than the log's: 16 an octave with one digit.
    part = 1 / (16 if name == "hdr1" else 32)
    assert all(high - low <= max(factor * 1024, low * part) for *_, low, high, _ in run.frame.rows())


@pytest.mark.parametrize(("name", "unit", "digit_ns"), [("hdr", "us", 1), ("java", "ms", 1000)])
def test_percentile_distributions_of_hdr_histograms(name: str, unit: str, digit_ns: int) -> None:
    run = read(f"{name}.hgrm", "hdr-percentiles", unit=unit, op="read")
    latencies = sorted(int(value) for (value,) in values(f"{name}-text.values"))
    found, upto = rows(run, "HdrHistogram"), 0
    assert found[0][0] <= latencies[0]
    for _, high, count in found:
        upto += count
        # Values are rounded to the last digit.
        below = (sum(each < high + digit_ns * side for each in latencies) for side in (-1, 1))
        assert next(below) <= upto <= next(below)
    assert upto == len(latencies)
    ((ios, mean_ns),) = means(run).values()
    assert ios == upto and mean_ns == pytest.approx(sum(latencies) / upto, rel=5e-3)


def test_tables_of_vdbench() -> None:
    run = read("vdbench-histogram.html", "vdbench")
    for title, op in (("rd1: Reads", "read"), ("rd1: Writes", "write")):
        us = [int(value) for kind, value in values("vdbench.values") if kind == op]
        # Beyond the last edge, 2 s, a bin ends at 4 s, and a warning says that it has none.
        each_bin_holds(rows(run, title), (min(value, 3_999_999) * 1000 for value in us))
        assert ops(run)[title] == op
    told = " ".join(run.section["warnings"])
    assert "1 I/O in the last bin, which has no upper edge" in told
    assert sum(run.section["files"][0]["left_out"].values()) == run.section["rows_counted"]


def test_histograms_of_elbencho() -> None:
    run = read("elbencho.json", "elbencho")
    assert ops(run) == {"WRITE": "write", "READ": "read", "RWMIX70": "write", "RWMIX70: reads": "read"}
    for title, phase, kind in (
        ("WRITE", "WRITE", "io"),
        ("READ", "READ", "io"),
        ("RWMIX70", "RWMIX70", "io"),
        ("RWMIX70: reads", "RWMIX70", "mix"),
    ):
        us = [int(value) for *key, value in values("elbencho.values") if key == [phase, kind]]
        found = rows(run, title)
        each_bin_holds(found, (value * 1000 for value in us))
        # A quarter of an octave of whole microseconds.
        assert all(
            high / 1000 <= math.ceil(2**0.25 * math.ceil(low / 1000)) + 1 for low, high, _ in found if low
        )


def test_means_of_elbencho() -> None:
    run = read("elbencho.csv", "elbencho")
    assert ops(run) == {"MKDIRS": "mkdir", "WRITE": "write", "READ": "read"}
    expected = {"MKDIRS": (1466 * 5, 1068), "WRITE": (2941 * 2784, 9383), "READ": (9048 * 905, 3223)}
    found = means(run)
    for title, (ios_thousand, us) in expected.items():
        ios, mean_ns = found[title]
        assert ios == round(ios_thousand / 1000) and us * 1000 <= mean_ns <= (us + 1) * 1000
    assert "each row has its mean alone" in run.section["warnings"][0]


def test_requests_of_ioping() -> None:
    run = read("ioping.txt", "ioping")
    printed = re.findall(r"time=([0-9.]+) (us|ms)(?! \(warmup)", (SUMMARIES / "ioping.txt").read_text())
    latencies = [round(float(value) * {"us": 10**3, "ms": 10**6}[unit]) for value, unit in printed]
    assert len(latencies) == 29
    each_bin_holds(rows(run, run.phases[0]["name"]), latencies)
    assert run.section["files"][0]["left_out"] == {"the warm-up request, which ioping leaves out as well": 1}
    assert not any("ioping counted" in text for text in run.section["warnings"])


def test_statistics_of_ioping() -> None:
    quiet = read("ioping-quiet.txt", "ioping")
    text = (SUMMARIES / "ioping-quiet.txt").read_text()
    mean = re.search(r"mdev = .+? / ([0-9.]+) ms / ", text)
    assert mean and set(ops(quiet).values()) == {"write"}
    assert list(means(quiet).values()) == [(199, pytest.approx(float(mean[1]) * 1e6))]
    raw = [int(each) for each in (SUMMARIES / "ioping-raw.txt").read_text().split()]
    assert means(read("ioping-raw.txt", "ioping", op="read")) == {"ioping": (raw[0], raw[5])}
    periods = read("ioping-periods.txt", "ioping", op="read")
    *parts, last = ([int(n) for n in each] for each in values("ioping-periods.txt"))
    assert means(periods) == {"ioping": (last[0], last[5])}
    assert sum(periods.section["files"][0]["left_out"].values()) == sum(part[0] for part in parts)


def test_mount_statistics() -> None:
    run = read("mountstats.txt", "mountstats")
    expected: dict[str, tuple[int, int]] = {}
    for line in (SUMMARIES / "mountstats.txt").read_text().split("per-op statistics")[1].splitlines():
        name, _, numbers = line.strip().partition(": ")
        if numbers and (counts := [int(each) for each in numbers.split()])[0]:
            expected[f"/mnt: {name}"] = counts[0], counts[7]
    assert {title: (sum(n for *_, n in rows(run, title))) for title in expected} == {
        title: ios for title, (ios, _) in expected.items()
    }
    for title, (ios, ms) in expected.items():
        ((low, high, _),) = rows(run, title)
        # The sum is printed in whole ms.
        assert low <= ms * 1e6 / ios < (ms + 1) * 1e6 / ios <= high
    for title, (ios, mean_ns) in means(run).items():
        assert ios == expected[title][0] and mean_ns == pytest.approx(
            expected[title][1] * 1e6 / ios, rel=0.01
        )
    assert ops(run)["/mnt: READ"] == "read" and ops(run)["/mnt: STATFS"] == "other"
    told = " ".join(run.section["warnings"])
    assert "/mnt: WRITE: of the mean 2.59 s in the client's queue, 24.4 ms RTT" in told
    assert run.phase["interval_ns"] == 9503 * 10**9


def test_of_two_copies_of_mount_statistics_the_difference_counts(tmp_path: Path) -> None:
    text = (SUMMARIES / "mountstats.txt").read_text()
    later = text.replace(
        "READ: 1000 1000 0 220000 1048680000 1689 503927 505677", "READ: 1400 0 0 0 0 1700 520000 525677"
    )
    run = imported(put(tmp_path, text + later, "x"))
    assert means(run) == {"/mnt: READ": (400, pytest.approx(50e6, rel=1e-3))}


def test_nfsiostat() -> None:
    run = read("nfsiostat.txt", "nfsiostat")
    # 500 READs in 2 s, each 202 ms to its end, and 40 WRITEs, each 50 ms; before these is since the mount.
    found = means(run)
    assert found == {"/mnt: READ": (250, pytest.approx(202e6)), "/mnt: WRITE": (20, pytest.approx(50e6))}
    assert "each is taken to be a second" in " ".join(run.section["warnings"])


def test_buckets_of_prometheus() -> None:
    run = read("prometheus-client.prom", "prometheus")
    for op in ("read", "write"):
        title = f'nfs_latency_ms{{export=/tank/"a", op={op}}}'
        ms = [float(value) for kind, value in values("prometheus-client.values") if kind == op]
        found = rows(run, title)
        assert found[-1][:2] == (32 * 10**6, 64 * 10**6)
        each_bin_holds(found, (min(value, 63.0) * 1e6 for value in ms))
        ios, mean_ns = means(run)[title]
        assert ops(run)[title] == op and ios == len(ms) and mean_ns == pytest.approx(sum(ms) / ios * 1e6)
    assert run.section["files"][0]["left_out"] == {
        "of payload_bytes: no unit of time in its name, and no --unit": 1
    }


def test_buckets_of_etcd() -> None:
    run = read("etcd.prom", "prometheus")
    text = (SUMMARIES / "etcd.prom").read_text()
    upto = [(float(le), int(n)) for le, n in re.findall(r'le="([0-9.]+)"\} ([0-9]+)', text)]
    expected, low, before = [], 0, 0
    for le, n in upto:
        if n > before:
            expected.append((low, round(le * 1e9), n - before))
        low, before = round(le * 1e9), n
    assert rows(run, "etcd_disk_wal_fsync_duration_seconds") == expected
    assert set(ops(run).values()) == {"fsync"}
    assert list(means(run).values()) == [(71, pytest.approx(0.29285970899999986 / 71 * 1e9))]


def test_scrapes_one_after_the_other(tmp_path: Path) -> None:
    text = (SUMMARIES / "etcd.prom").read_text()
    later = re.sub(r"(\}| count| sum|_count) 71", r"\1 81", text).replace("0.29285970899999986", "0.9")
    run = imported(put(tmp_path, text + later, "x"))
    assert [row[2] for row in rows(run, "etcd_disk_wal_fsync_duration_seconds")] == [10]


def test_what_the_kit_exports_is_read_bin_for_bin(tmp_path: Path) -> None:
    latencies = [17, 90_000, 91_000, 5_300_000, 5_300_000, 80_000_000]
    counts = Counter(int(each) for each in bin_index(latencies))
    low, high = bin_edges(list(counts))
    frame = pl.DataFrame(
        [(0, "reads", "client", "a", "read", "all", int(a), int(b), n)
         for a, b, n in zip(low, high, counts.values(), strict=True)],
        schema=LATENCY_SCHEMA, orient="row",
    )  # fmt: skip
    run = imported(put(tmp_path, "".join(openmetrics(frame, None, None)), "x.prom"))
    (phase,) = run.phases
    assert rows(run, phase["name"]) == frame.select("lo_ns", "hi_ns", "count").sort("lo_ns").rows()


def test_a_source_of_each_file_is_told() -> None:
    told = (SUMMARIES / "SOURCES.md").read_text()
    for path in SUMMARIES.iterdir():
        stem = re.sub(r"[-.0-9].*", "", path.name)
        assert path.name == "SOURCES.md" or stem in told, path.name
