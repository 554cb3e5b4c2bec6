"""The figures of one phase and layer, as Plotly has them."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

from kit.core.bins import bin_edges, bin_index
from kit.store.phase import Event
from kit.store.summary import Summary
from reports.figures import phase_maps
from reports.figures.heat_map import TimeSpan
from reports.figures.phase_maps import DrawnPhase
from reports.statistics.quantiles import ANY, interpolated_us
from tests.reports import drawn, synthetic

SECOND = synthetic.SECOND
TIERS = ["dram", "l2arc", "disk"]


def subject(frame=None, phase=0, layer="nfs-server", **changed):
    frame = synthetic.latency() if frame is None else frame
    manifest = synthetic.manifest(frame)
    summary = Summary.from_json(synthetic.summarise(frame, manifest), "summary.json")
    stored = synthetic.parsed(manifest).phases[phase]
    name = stored.name
    mine = frame.filter((pl.col("phase") == name) & (pl.col("layer") == layer))
    rows = {row.tier: row for row in summary.rows_of(layer) if row.phase == name}
    made = DrawnPhase("512 B reads", layer, "read", mine, name, TimeSpan.of(stored), rows, "2009")
    return replace(made, **changed)


def opened(figure):
    """The figure as plotly has it: its classes refuse what Plotly does not know."""
    return go.Figure(data=figure.spec["data"], layout=figure.spec["layout"])


def by_kind(of, zooms=TIERS):
    made = {}
    for kind, figure in phase_maps.drawings(of, zooms):
        made.setdefault(kind, []).append(figure)
        plotly = opened(figure)
        # What a narrow screen has instead is Plotly's, too.
        plotly.update_layout(figure.narrow)
    return made


@pytest.mark.parametrize("frame", [synthetic.latency(), synthetic.realistic()], ids=["narrow", "realistic"])
@pytest.mark.parametrize("layer", ["nfs-server", "client"])
@pytest.mark.parametrize("phase", range(3))
def test_plotly_knows_every_word_and_every_map_is_a_heat_map(frame, layer, phase):
    of = subject(frame, phase, layer)
    made = by_kind(of, list(of.rows) if layer == "nfs-server" else [])
    assert len(made["map"]) == 1 and len(made["zoom"] if "zoom" in made else []) == (
        len(of.rows) if layer == "nfs-server" else 0
    )
    for figure in [*made["map"], *made.get("zoom", ())]:
        maps = drawn.heat_maps(figure.spec)
        assert maps and not figure.layout.get("images")
        total = sum(drawn.typed(trace["customdata"]).sum() for trace in maps)
        tiers = {trace["meta"]["tier"] for trace in maps}
        inside = of.frame.filter(pl.col("tier").is_in(tiers))
        top_ns = figure.layout["yaxis"]["range"][1] * 1e9 if figure.about["per"] == "us" else 1 << 40
        least, most = (inside.filter(pl.col(edge) <= top_ns)["count"].sum() for edge in ("hi_ns", "lo_ns"))
        assert least * 0.9999 <= total <= most * 1.0001
        # One scale for the tiers, and a number on it.
        assert len({(trace["zmin"], trace["zmax"]) for trace in maps}) == 1
        assert figure.cells is made["map"][0].cells
        assert figure.caption.startswith("Cell: 1 s \N{MULTIPLICATION SIGN} ")
        assert len(figure.caption.split()) <= 25


def test_all_tiers_are_on_one_logarithmic_axis_with_room_for_all():
    (figure,) = by_kind(subject())["map"]
    maps = drawn.heat_maps(figure.spec)
    assert [trace["name"] for trace in maps] == ["DRAM (ARC)", "SSD cache (L2ARC)", "disk"]
    axis = figure.layout["yaxis"]
    low, high = axis["range"]
    edges = np.log10([edge for trace in maps for edge in trace["y"]])
    assert axis["type"] == "log" and low < edges.min() and high > edges.max()
    # No fixed numbers: Plotly writes new ones at every zoom.
    assert "tickvals" not in axis and axis["ticksuffix"] == "s"
    assert figure.about["per"] == "octave" and figure.about["panel"]


def test_the_rates_at_the_left_are_those_of_the_map():
    (figure,) = by_kind(subject())["map"]
    bars = [trace for trace in figure.data if trace["type"] == "bar"]
    maps = drawn.heat_maps(figure.spec)
    for bar, trace in zip(bars, maps, strict=True):
        counts = drawn.typed(trace["customdata"]).sum(axis=1)
        assert bar["customdata"] == counts[counts > 0].tolist()
        density = np.nansum(10 ** drawn.typed(trace["z"]).astype(float), axis=1) / 12
        assert bar["x"] == pytest.approx(density[counts > 0], rel=2e-3)
    # They grow to the left, away from the map.
    assert figure.layout["xaxis2"]["autorange"] == "reversed"


@pytest.mark.parametrize(
    ("tier", "top_us", "lines_us"),
    [("dram", 12, [10]), ("l2arc", 300, [128, 260]), ("disk", 10_000, [1900, 9700])],
)
def test_a_tier_alone_is_linear_from_zero_beyond_the_published_range(tier, top_us, lines_us):
    figures = {figure.about["tier"]: figure for figure in by_kind(subject())["zoom"]}
    axis = figures[tier].layout["yaxis"]
    assert axis["type"] == "linear" and axis["range"] == pytest.approx([0, top_us / 1e6])
    shapes = figures[tier].layout["shapes"]
    lines = [shape["y0"] * 1e6 for shape in shapes if shape["type"] == "line"]
    assert lines == pytest.approx(lines_us)
    (trace,) = drawn.heat_maps(figures[tier].spec)
    assert trace["meta"]["tier"] == tier and figures[tier].about["per"] == "us"
    (name,) = figures[tier].layout["annotations"]
    assert name["text"].startswith("2009 ") and "Above" not in figures[tier].caption


def test_every_map_of_a_phase_has_the_same_times_and_shares_the_selection():
    made = by_kind(subject())
    figures = [*made["map"], *made["zoom"], *made["lines"]]
    assert len({tuple(figure.layout["xaxis"]["range"]) for figure in figures}) == 1
    assert {figure.link for figure in figures} == {"read"}


def test_ios_above_a_zoom_are_counted_and_marked():
    rows = [(0, "read", "nfs-server", "h", "read", "l2arc", 139264, 143360, 99),
            (SECOND, "read", "nfs-server", "h", "read", "l2arc", 5_111_808, 5_242_880, 1)]  # fmt: skip
    frame = synthetic.table(rows)
    row = synthetic.summary_of([{"tier": "l2arc", "range_us": [139.264, 143.36], "count": 100}]).rows[0]
    made = by_kind(replace(subject(), frame=frame, rows={"l2arc": row}), ["l2arc"])
    (zoom,) = made["zoom"]
    assert "Above the axis (triangles): 1 of 100 I/Os." in zoom.caption
    (rug,) = [trace for trace in zoom.data if trace.get("name") == "above the axis"]
    assert rug["x"] == [1.5] and rug["text"] == ["1 I/O, up to 5.24 ms"]
    assert 0.95 < rug["y"][0] / zoom.layout["yaxis"]["range"][1] < 0.99


def test_a_logarithmic_axis_has_the_rarest_io():
    frame = subject().frame.with_columns(pl.col("count") * 100_000)
    slow = synthetic.table([(5 * SECOND, "read", "nfs-server", "lab", "read", "disk", 1 << 29, 1 << 30, 1)])
    (figure,) = by_kind(replace(subject(), frame=pl.concat([frame, slow])))["map"]
    assert figure.layout["yaxis"]["range"][1] > np.log10((1 << 30) / 1e9)
    assert drawn.heat_maps(figure.spec)[-1]["y"][-1] == pytest.approx((1 << 30) / 1e9)


def test_a_linear_axis_has_the_median_of_each_column():
    stalled = subject().frame.filter((pl.col("time_ns") != 5 * SECOND) | (pl.col("tier") != "disk"))
    row = (5 * SECOND, "read", "nfs-server", "lab", "read", "disk", 50 * 10**6, 51 * 10**6)
    for count, high_s in ((5, 0.01), (7, 0.06)):
        frame = pl.concat([stalled, synthetic.table([(*row, count)])])
        figures = {each.about["tier"]: each for each in by_kind(replace(subject(), frame=frame))["zoom"]}
        assert figures["disk"].layout["yaxis"]["range"][1] == pytest.approx(high_s)
        rugs = [trace for trace in figures["disk"].data if trace.get("name") == "above the axis"]
        assert [rug["x"] for rug in rugs] == ([[5.5]] if count == 5 else [])


def test_rows_of_a_linear_axis_are_equally_high_and_end_where_the_ios_end():
    lo, hi = bin_edges(bin_index(np.arange(1_000_000, 7_700_000, 20_000)))
    rows = [(0, "read", "nfs-server", "lab", "read", "disk", int(a), int(b), 1)
            for a, b in zip(lo, hi, strict=True)]  # fmt: skip
    frame = synthetic.table(rows).group_by(pl.exclude("count")).agg(pl.col("count").sum())
    frame = frame.select(synthetic.latency().columns)
    figures = {each.about["tier"]: each for each in by_kind(replace(subject(), frame=frame))["zoom"]}
    (trace,) = drawn.heat_maps(figures["disk"].spec)
    heights, z = np.diff(trace["y"]), drawn.typed(trace["z"])[:, 0]
    assert heights == pytest.approx([heights[0]] * len(heights), rel=1e-6)
    assert trace["y"][-1] <= 7.75e-3 + 1e-9 and np.ptp(z[1:-1]) < 0.12


def test_gaps_are_grey_and_a_wait_is_none():
    frame = subject().frame.filter(~pl.col("time_ns").is_between(3 * SECOND, 6 * SECOND))
    (figure,) = by_kind(replace(subject(), frame=frame))["map"]
    (gap,) = [s for s in figure.layout["shapes"] if s.get("label")]
    assert (gap["x0"], gap["x1"], gap["label"]["text"]) == (3, 7, "no data")
    # From the end of an I/O before it to the end of the one that it waited for.
    waiting = replace(subject(), frame=frame, waits=[(2.9, 7.2)])
    (figure,) = by_kind(waiting)["map"]
    assert not [s for s in figure.layout["shapes"] if s.get("label")]
    (bar,) = [t for t in figure.data if t.get("name") == "waiting for one I/O"]
    assert bar["x"] == [2.9, 2.9, 7.2, None] and max(v for v in bar["y"] if v) == pytest.approx(4.3)


def test_percentiles_break_where_the_sample_is_too_small():
    (lines,) = by_kind(subject(synthetic.realistic(60)))["lines"]
    names = {trace["name"] for trace in lines.data}
    assert {"DRAM (ARC) p50", "disk p50", "disk p95"} <= names
    for trace in lines.data:
        assert len(trace["x"]) == len(trace["y"]) and not trace["connectgaps"]
    (few,) = by_kind(subject(synthetic.realistic(60)))["map"]
    overlaid = [t for t in few.data if t.get("visible") == "legendonly"]
    assert [t["name"] for t in overlaid] == ["p95"]
    assert {"p50", "p99"} <= {t["name"] for t in few.data if t.get("visible") is True}
    head, *table = lines.csv
    assert head[-1] == "latency_us" and len(table) == sum(len(t["x"]) for t in lines.data)
    scarce = subject().frame.filter(pl.col("tier") == "disk").with_columns(count=pl.lit(1, dtype=pl.Int64))
    assert "lines" not in by_kind(replace(subject(), frame=scarce.head(2)))


def test_a_phase_without_io_is_drawn_empty():
    for frame in (subject().frame[:0], subject().frame.with_columns(count=pl.lit(0, dtype=pl.Int64))):
        made = by_kind(replace(subject(), frame=frame, rows={}))
        (figure,) = made["map"]
        assert set(made) == {"map"} and not drawn.heat_maps(figure.spec)
        low, high = figure.layout["yaxis"]["range"]
        assert low < high and np.isfinite([low, high]).all()
        gaps = [s for s in figure.layout["shapes"] if s.get("label")]
        assert len(gaps) == (0 if frame.height else 1)
        opened(phase_maps.histogram(replace(subject(), frame=frame, rows={})))


def test_one_interval_is_drawn():
    frame = subject().frame.filter(pl.col("time_ns") == 0)
    times = replace(subject().times, end_ns=SECOND)
    made = by_kind(replace(subject(), frame=frame, times=times))
    assert drawn.typed(drawn.heat_maps(made["map"][0].spec)[0]["z"]).shape[1] == 1


def test_a_histogram_has_the_density_and_its_percentiles():
    of = subject()
    figure = phase_maps.histogram(of)
    opened(figure)
    bars = [trace for trace in figure.data if trace["type"] == "bar"]
    assert sum(sum(bar["customdata"]) for bar in bars) == of.frame["count"].sum()
    for bar in bars:
        low = np.array(bar["y"])
        octaves = np.log2((low + bar["width"]) / low)
        assert np.array(bar["x"]) * octaves == pytest.approx(bar["customdata"], rel=1e-4)
    levels = [trace["name"] for trace in figure.data if trace["type"] == "scatter"]
    assert levels.count("p50") == 3
    assert figure.about["histogram"]


def test_events_are_on_the_map_and_those_left_out_are_counted():
    listed = [{"time_ns": 2 * SECOND, "end_ns": 3 * SECOND, "kind": "txg", "text": "txg 12"},
              {"time_ns": 5 * SECOND, "end_ns": 4 * SECOND, "kind": "scrub"}]  # fmt: skip
    events = [Event.from_json(event, "x") for event in listed]
    (figure,) = by_kind(replace(subject(), events=events))["map"]
    (mark,) = [trace for trace in figure.data if trace.get("name") == "txg sync"]
    assert mark["x"][:4] == [2, 2, 3, 3] and "txg 12" in mark["text"][0]
    assert figure.caption.endswith("Events not drawn (damaged or too many): 1.")


HOSTILE = '</script><b onclick="alert(1)">%{x}{{7*7}}${y}\\'


def test_hostile_names_are_no_markup_of_plotly():
    frame = subject().frame.with_columns(pl.lit(HOSTILE).alias("tier"), pl.lit(HOSTILE).alias("op"))
    row = subject().rows["disk"].model_copy(update={"tier": HOSTILE})
    of = replace(
        subject(), name=HOSTILE, op=HOSTILE, frame=frame, phase=HOSTILE, rows={HOSTILE: row}, source=HOSTILE
    )
    made = by_kind(of, [HOSTILE])
    figures = [*made["map"], *made["zoom"], *made.get("lines", ()), phase_maps.histogram(of)]
    for figure in figures:
        drawn.assert_plain(figure.spec)


def test_a_percentile_is_interpolated_as_in_tables_and_no_window_is_short():
    """35 s in windows of 4 s: what is left belongs to the last one."""
    frame = synthetic.realistic(35, 30)
    times = TimeSpan.of(synthetic.parsed(synthetic.manifest(frame, 35)).phases[0])
    (lines,) = by_kind(replace(subject(frame), times=times))["lines"]
    (line,) = [trace for trace in lines.data if trace["name"] == "SSD cache (L2ARC) p50"]
    assert np.diff(line["x"]).tolist()[::2] == [4.0] * 7 + [7.0] and line["x"][-1] == 35
    mine = subject(frame).frame.filter(pl.col("tier") == "l2arc", pl.col("time_ns") >= 28 * SECOND)
    bins = mine.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns").rows()
    assert line["y"][-1] == pytest.approx(interpolated_us(bins, ANY)["p50"].us / 1e6)
