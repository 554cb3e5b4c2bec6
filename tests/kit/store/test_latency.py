"""A run that is summed up while it is read has the same counts, intervals and pictures as one read whole."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.bins import bin_edges
from kit.core.errors import ConfigError
from kit.store import latency, tables
from kit.store.latency import Latency
from kit.store.phase import Phase
from kit.store.run_directory import RunDir
from reports.figures import heat_map
from reports.figures.heat_map import TimeSpan
from tests.reports import synthetic

pytestmark = pytest.mark.any_python

SECOND = synthetic.SECOND
KEYS = ["phase", "layer", "host", "op", "tier", "lo_ns", "hi_ns"]
PHASE = {"interval_ns": SECOND, "client_ios": 1, "server_ios": 1, "lost_events": 0}


def phases(*spans: tuple[str, int, int]) -> list[Phase]:
    return [
        Phase.from_json({**PHASE, "name": name, "start_ns": start * SECOND, "end_ns": end * SECOND}, name)
        for name, start, end in spans
    ]


def summed(run: RunDir, frame: pl.DataFrame, of: list[Phase]) -> Latency:
    tables.write_latency(run, frame)
    return latency.read(run, of, whole_rows=0)


def counts(frame: pl.DataFrame, keys: list[str]) -> list[tuple[Any, ...]]:
    made = frame.group_by(*keys).agg(pl.col("count").sum())
    return made.with_columns(pl.col(pl.Categorical).cast(str)).sort(keys).rows()


def slowest(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    keys = ["phase", "layer", "time_ns"]
    used = frame.filter(pl.col("count") > 0)
    made = used.group_by(keys).agg(pl.col("hi_ns").max(), pl.col("count").sum())
    return made.with_columns(pl.col(pl.Categorical).cast(str)).sort(keys).rows()


def is_the_same(read: Latency, frame: pl.DataFrame, of: list[Phase]) -> None:
    assert counts(read.bins, KEYS) == counts(frame, KEYS)
    assert slowest(read.intervals) == slowest(frame)
    assert {*read.intervals["time_ns"]} == {*frame["time_ns"]}
    rest = [key for key in KEYS if key != "host"]
    for phase in of:
        width, start = read.column_ns[phase.name], phase.start_ns
        assert width % phase.interval_ns == 0
        column = (pl.col("time_ns") - start) // width
        mine, theirs = (f.filter(pl.col("phase") == phase.name) for f in (read.cells, frame))
        placed = mine.select(*rest, "count", "time_ns", column.alias("column"))
        assert placed.select(*rest, "column").is_duplicated().sum() == 0
        assert counts(placed, [*rest, "column"]) == counts(
            theirs.with_columns(column.alias("column")), [*rest, "column"]
        )
        last = theirs.group_by(*rest, column.alias("column")).agg(pl.col("time_ns").max())
        assert sorted(last["time_ns"]) == sorted(mine["time_ns"])


def is_drawn_alike(read: Latency, frame: pl.DataFrame, phase: Phase) -> None:
    for layer in frame["layer"].unique():
        mine = pl.col("layer") == layer
        ours = heat_map.grid(read.cells.filter(mine), TimeSpan.of(phase, read.column_ns[phase.name]))
        whole = heat_map.grid(frame.filter(mine), TimeSpan.of(phase), most=ours.columns)
        assert (ours.start_ns, ours.width_ns, ours.columns) == (whole.start_ns, whole.width_ns, whole.columns)
        assert (ours.end_ns, ours.gaps, ours.merged) == (whole.end_ns, whole.gaps, whole.merged)
        assert heat_map.block(ours) == heat_map.block(whole)


def test_a_run_of_ordinary_size_is_read_whole(run: RunDir) -> None:
    frame = synthetic.latency()
    tables.write_latency(run, frame)
    read = latency.read(run, [])
    assert read.bins is read.intervals is read.cells and read.bins.equals(frame) and read.column_ns == {}


def test_nothing_is_lost_in_the_sums(run: RunDir) -> None:
    frame = synthetic.realistic(20, 60)
    manifest = synthetic.parsed(synthetic.manifest(frame, 20))
    is_the_same(summed(run, frame, list(manifest.phases)), frame, list(manifest.phases))


def test_a_report_of_the_sums_is_that_of_the_rows(run: RunDir) -> None:
    from reports.analysis.analysed import analysed
    from reports.page.report_page import render

    frame = synthetic.realistic(20, 60)
    manifest = synthetic.parsed(synthetic.manifest(frame, 20))
    aged = tables.read_ageing(run)
    pages = []
    for counted in (Latency.of(frame), summed(run, frame, list(manifest.phases))):
        pages.append(render(counted, manifest, analysed(counted, manifest, aged)))
    assert pages[0] == pages[1]


def test_cells_are_merged_until_they_are_few(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    lo, hi = bin_edges(np.arange(300, 340))
    bins = pl.DataFrame({"lo_ns": lo, "hi_ns": hi, "tier": ["dram"] * 30 + ["disk"] * 10})
    times = pl.DataFrame({"time_ns": np.arange(5, 905) * SECOND})
    frame = times.join(bins, how="cross").with_columns(
        pl.lit("p").alias("phase"), pl.lit("nfs-server").alias("layer"), pl.lit("h").alias("host"),
        pl.lit("read").alias("op"), ((pl.col("time_ns") // SECOND + pl.col("lo_ns")) % 97).alias("count"),
    ).select(list(tables.LATENCY_SCHEMA))  # fmt: skip
    monkeypatch.setattr(latency, "MAX_CELLS", 5000)
    monkeypatch.setattr(latency, "_PART", 777)
    of = phases(("p", 5, 905))
    read = summed(run, frame, of)
    # 36,000 rows; of 8 intervals each.
    assert read.column_ns == {"p": 8 * SECOND} and read.cells.height == 113 * 40
    is_the_same(read, frame, of)
    is_drawn_alike(read, frame, of[0])
    # In another order no two rows of one kind and time lie together.
    is_the_same(summed(run, frame.sort("lo_ns", "time_ns"), of), frame, of)


def test_a_short_phase_beside_a_long_one_keeps_its_intervals(run: RunDir) -> None:
    rest = ("nfs-server", "h", "read", "dram", 4096, 4224, 1)
    frame = synthetic.table([(0, "long", *rest), (86_400 * SECOND, "short", *rest)])
    read = summed(run, frame, phases(("long", 0, 86_400), ("short", 86_400, 86_460)))
    assert read.column_ns == {"long": 22 * SECOND, "short": SECOND}


def test_a_bin_is_the_same_beside_bins_of_others(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = ("p", "client", "a", "read", "dram")
    frame = synthetic.table([(0, *rest, 0, 1, 2), (0, *rest, 0, 1, 3), (0, *rest, 4096, 4352, 1)])
    monkeypatch.setattr(latency, "_PART", 1)
    of = phases(("p", 0, 20))
    is_the_same(summed(run, pl.concat([frame, frame]), of), pl.concat([frame, frame]), of)
    monkeypatch.setattr(latency, "_PART", 2)
    is_the_same(summed(run, frame.reverse(), of), frame.reverse(), of)


@given(st.data())
def test_any_rows_are_summed_up(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    bins = [(0, 1), (5, 6), (4096, 4224), (4224, 4352), (4096, 4352), (1, 2**62), (2**61, 2**62)]
    row = st.tuples(
        st.integers(-3, 40), st.sampled_from("pqx"), st.sampled_from(tables.LAYERS),
        st.sampled_from("ab"), st.sampled_from(tables.OPS), st.sampled_from(("dram", "disk")),
        st.sampled_from(bins), st.integers(0, 2**50),
    )  # fmt: skip
    made = data.draw(st.lists(row, min_size=1, max_size=60))
    frame = synthetic.table([(t * SECOND, *labels, *edges, n) for t, *labels, edges, n in made])
    of = phases(("p", 0, 20), ("q", 20, 40))
    before = latency._PART, latency.MAX_CELLS
    latency._PART, latency.MAX_CELLS = data.draw(st.tuples(st.integers(1, 70), st.integers(60, 200)))
    try:
        is_the_same(summed(RunDir(tmp_path_factory.getbasetemp()), frame, of), frame, of)
    finally:
        latency._PART, latency.MAX_CELLS = before


def test_rows_before_and_after_the_phase_are_drawn_where_they_are(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [*range(-30, 200), 399, 1000]
    frame = synthetic.table(
        [(t * SECOND, "p", "nfs-server", "h", "read", "dram", 4096, 4224, t + 31) for t in times]
    )
    monkeypatch.setattr(latency, "MAX_CELLS", 60)
    of = phases(("p", 0, 100))
    read = summed(run, frame, of)
    is_the_same(read, frame, of)
    grid = heat_map.grid(read.cells, TimeSpan.of(of[0], read.column_ns["p"]))
    width = read.column_ns["p"]
    begin = -30 * SECOND // width * width
    cells = grid.tiers["dram"]
    assert grid.start_ns == begin and cells.count.sum() == frame["count"].sum()
    assert sorted({(t * SECOND - begin) // width for t in times}) == cells.column.tolist()


@pytest.mark.parametrize(
    "change", [{"count": -1}, {"tier": "tape"}, {"op": None}, {"host": None}, {"hi_ns": 5}]
)
def test_impossible_rows_are_refused(run: RunDir, change: dict[str, Any]) -> None:
    row = dict(zip(tables.LATENCY_SCHEMA, (0, "p", "client", "h", "read", "all", 4096, 4224, 1), strict=True))
    pl.DataFrame([row, {**row, **change}]).write_parquet(run.path / "latency.parquet")
    with pytest.raises(ConfigError, match="1 rows are impossible") as caught:
        latency.read(run, [], whole_rows=0)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("_MAX_BINS", 20, "more than 20 different bins"),
        ("_MAX_INTERVALS", 20, "more than 10 intervals"),
        ("_LABEL_BITS", 3, "more than 8 kinds of rows"),
        ("MAX_CELLS", 5, "more than 5 bins in one column"),
    ],
)
def test_what_grows_without_bound_is_refused(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, name: str, value: int, message: str
) -> None:
    rows = [
        (t * SECOND, f"p{t}", "client", f"h{t}", "read", "all", 4096 + t, 4097 + t, 1) for t in range(100)
    ]
    monkeypatch.setattr(latency, name, value)
    tables.write_latency(run, synthetic.table(rows))
    with pytest.raises(ConfigError, match=message) as caught:
        latency.read(run, [], whole_rows=0)
    assert str(run.path / "latency.parquet") in caught.value.message
    # Left to the garbage collector, it could be joined where that runs under a lock of threading.
    assert not [each for each in threading.enumerate() if each.name.startswith("ThreadPoolExecutor")]


@pytest.mark.parametrize(("name", "value"), [("_MAX_STREAMED_ROWS", 50), ("_MAX_BYTES", 100)])
def test_a_file_that_is_too_large_is_refused(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    tables.write_latency(run, synthetic.latency())
    monkeypatch.setattr(tables, name, value)
    with pytest.raises(ConfigError, match=r"more than 50|larger than"):
        latency.read(run, [])


def test_more_ios_than_any_run_has_are_refused(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "_PART", 1)
    rows = [(t, "p", "client", "h", "read", "all", 1, 2, 2**62) for t in range(2)]
    synthetic.table(rows).write_parquet(run.path / "latency.parquet")
    with pytest.raises(ConfigError, match="more than any run can have"):
        latency.read(run, [], whole_rows=0)


def test_a_file_without_rows(run: RunDir) -> None:
    tables.write_latency(run, pl.DataFrame(schema=tables.LATENCY_SCHEMA))
    assert latency.read(run, []).bins.is_empty()
