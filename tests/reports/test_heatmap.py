import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.store import LATENCY_SCHEMA
from reports import figures, heatmap, overview, summary


def frame_of(rows):
    fixed = [(t, "p", "nfs-server", "h", "read", tier, lo, hi, n) for t, tier, lo, hi, n in rows]
    return pl.DataFrame(fixed, schema=LATENCY_SCHEMA, orient="row")


PHASE = {"name": "p", "start_ns": 100, "end_ns": 1100, "interval_ns": 10}
cells = st.tuples(
    st.integers(100, 1099),
    st.sampled_from(["dram", "disk"]),
    st.integers(0, 50).map(lambda n: n * 64),
    st.integers(0, 9),
)


@given(st.lists(cells, max_size=50), st.integers(1, 150))
def test_no_io_is_lost(listed, most):
    frame = frame_of([(t, tier, lo, lo + 64, n) for t, tier, lo, n in listed])
    axis = heatmap.columns(PHASE, frame, most)
    assert axis.count <= most
    assert len(axis.edges_s) == axis.count + 1
    grid = heatmap.grid(frame, axis)
    total = sum(n for *_, n in listed)
    if not total:
        assert grid is None
        return
    assert grid.total == total
    assert grid.counts.shape == (len(grid.edges_us) - 1, axis.count)
    assert (np.diff(grid.edges_us) > 0).all() and (grid.edges_us > 0).all()
    assert grid.rates.sum() == pytest.approx(total / 1e-6)
    for t, _, lo, n in listed:
        if n:
            row = np.flatnonzero(grid.lo_us == lo / 1e3)
            assert grid.counts[row[0], (t - 100) // axis.width_ns] >= n


def test_exact_edges_with_a_gap_between():
    frame = frame_of([(100, "dram", 1000, 1100, 2), (110, "disk", 5000, 5200, 3)])
    grid = heatmap.grid(frame, heatmap.columns(PHASE, frame))
    assert grid.edges_us.tolist() == [1.0, 1.1, 5.0, 5.2]
    assert grid.counts.sum(axis=1).tolist() == [2, 0, 3]
    assert grid.counts[0, 0] == 2 and grid.counts[2, 1] == 3


def test_overlapping_bins_are_refused():
    frame = frame_of([(100, "dram", 1000, 1100, 2), (110, "disk", 1050, 1150, 3)])
    with pytest.raises(ValueError, match="overlap"):
        heatmap.grid(frame, heatmap.columns(PHASE, frame))


def test_columns_are_merged_by_summing():
    frame = frame_of([(100 + 10 * n, "dram", 64, 128, n + 1) for n in range(100)])
    axis = heatmap.columns(PHASE, frame, most=30)
    assert (axis.merged, axis.width_ns, axis.count) == (4, 40, 25)
    assert heatmap.grid(frame, axis).counts[0].tolist() == [4 * (4 * n) + 10 for n in range(25)]
    assert heatmap.columns(PHASE, frame).merged == 1


@pytest.mark.parametrize(("top", "kind"), [(255, np.uint8), (256, np.uint16), (1 << 16, np.uint32)])
def test_smallest_type(top, kind):
    assert heatmap.smallest(np.array([[top]])).dtype == kind


def test_intervals_beyond_the_phase_widen_it():
    frame = frame_of([(90, "dram", 0, 64, 1), (2000, "dram", 0, 64, 1)])
    assert heatmap.grid(frame, heatmap.columns(PHASE, frame)).total == 2


def test_log_map_has_two_traces_per_choice(synthetic):
    manifest = synthetic.manifest()
    phase = manifest["phases"][0]
    frame = figures.phase_frame(synthetic.latency(), phase, "nfs-server")
    figure = figures.log_map(frame, phase, "reads", True)
    assert [t.type for t in figure.data] == ["bar", "heatmap"] * 4
    assert [t.visible for t in figure.data] == [True] * 2 + [False] * 6
    seen = {
        b.label: [t.name for t, on in zip(figure.data[1::2], b.args[0]["visible"][1::2], strict=True) if on]
        for b in figure.layout.updatemenus[0].buttons
    }
    assert seen == {
        "all tiers": ["all tiers"], "tiers by colour": ["dram", "l2arc", "disk"],
        "dram": ["dram"], "l2arc": ["l2arc"], "disk": ["disk"],
    }  # fmt: skip
    for button in figure.layout.updatemenus[0].buttons:
        visible = button.args[0]["visible"]
        assert visible[::2] == visible[1::2]
        # Colour bars of several tiers would lie on top of each other: the legend takes their place.
        assert button.args[1]["showlegend"] is (button.label == "tiers by colour")
        assert button.args[0]["showscale"] == [button.label != "tiers by colour"] * 8
    assert len({t.colorscale for t in figure.data[1::2]}) == 4
    assert "verdict unknown" in figure.layout.title.text
    assert figure.layout.yaxis.type == "log"
    heat = figure.data[1]
    assert len(heat.y) == heat.z.shape[0] + 1 and len(heat.x) == heat.z.shape[1] + 1
    assert sum(t.z.sum() for t in figure.data[3::2]) == heat.z.sum() == frame["count"].sum()
    low, high = figure.layout.yaxis.range
    pixels = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    assert np.diff(np.log10(heat.y)).min() / (high - low) * pixels > 1
    assert set(figure.layout.yaxis.ticktext) == {"10 µs", "100 µs", "1 ms"}


def test_rates_are_beside_their_rows(synthetic):
    phase = synthetic.manifest()["phases"][0]
    frame = figures.phase_frame(synthetic.latency(), phase, "nfs-server")
    bars, heat = figures.log_map(frame, phase, "reads", False).data[:2]
    assert bars.yaxis == heat.yaxis and bars.orientation == "h"
    assert bars.y.tolist() == heat.y[:-1].tolist()
    assert (bars.y + bars.width).tolist() == pytest.approx(heat.y[1:].tolist())
    assert bars.x.tolist() == pytest.approx((heat.z.sum(axis=1) / 12).tolist())


@pytest.mark.parametrize(
    ("tier", "top_us", "lines"),
    [("dram", 20, [10]), ("l2arc", 300, [128, 260]), ("disk", 10_000, [1900, 9700])],
)
def test_zoom_is_linear_from_zero_beyond_the_published_range(synthetic, tier, top_us, lines):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    phase = manifest["phases"][0]
    row = next(r for r in summary.summarise(frame, manifest)["rows"] if r["tier"] == tier)
    figure, hidden = figures.zoom_map(
        figures.phase_frame(frame, phase, "nfs-server"), phase, row, "zoom", False
    )
    assert figure.layout.yaxis.type != "log"
    assert figure.layout.yaxis.range == (0, top_us)
    assert [shape.y0 for shape in figure.layout.shapes] == lines
    assert hidden == 0 and figure.data[1].z.sum() == row["count"]


def test_zoom_tells_what_is_above_it():
    frame = frame_of([(100, "l2arc", 139264, 143360, 99), (110, "l2arc", 5_000_000, 5_100_000, 1)])
    row = {"tier": "l2arc", "range_us": [139.264, 143.36], "published": None}
    figure, hidden = figures.zoom_map(frame, PHASE, row, "zoom", False)
    assert hidden == 1 and figure.data[1].z.sum() == 99
    assert not figure.layout.shapes


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.9, 11_000, ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]),
        (100, 12_000, ["100 µs", "1 ms", "10 ms"]),
        (90, 400, ["120 µs", "180 µs", "240 µs"]),
        (4_000, 6_600, ["4 ms", "4.5 ms", "5 ms"]),
    ],
)
def test_ticks_of_a_logarithmic_axis(low, high, words):
    found = [text for _, text in figures.ticks(low, high)]
    assert found[: len(words)] == words


@given(st.floats(0.01, 1e6), st.floats(1.5, 1e6))
def test_every_logarithmic_axis_has_three_to_nine_ticks(low, ratio):
    found = figures.ticks(low, low * ratio)
    assert 3 <= len(found) <= 9 or ratio > 1e4
    assert len({text for _, text in found}) == len(found)
    assert all(low <= v <= low * ratio for v, _ in found)


@given(st.floats(0.01, 1e9))
def test_round_up(value):
    rounded = figures.round_up(value)
    assert value <= rounded <= 2.0001 * value
    assert len(f"{rounded:e}".rstrip("0").split("e")[0].replace(".", "").rstrip("0")) == 1


def test_phase_without_io_is_drawn_empty():
    figure = figures.log_map(frame_of([]), PHASE, "nothing", False)
    assert len(figure.data) == 0
    json.loads(figure.to_json())


@given(st.text())
def test_safe_leaves_no_markup(text):
    assert not set(figures.safe(text)) & set("<>&\"'{}\\$`")


def test_ranges_beside_published(synthetic):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    rows = [r for r in summary.summarise(frame, manifest)["rows"] if r["layer"] == "nfs-server"]
    figure = overview.ranges(rows, None)
    assert len(figure.data) == 4
    assert figure.layout.xaxis.type != "log" and figure.layout.xaxis2.type == "log"
    ours, _, theirs, _ = figure.data
    assert list(zip(ours.base, ours.base + ours.x, strict=True)) == [
        pytest.approx(tuple(r["range_us"])) for r in rows
    ]
    assert list(zip(theirs.base, theirs.base + theirs.x, strict=True)) == [
        tuple(r["published"]["range_us"]) for r in rows
    ]
    assert "read dram" in overview.too_small(rows) and "read disk" not in overview.too_small(rows)
    assert len(overview.ranges([], None).data) == 2
    assert overview.too_small([]) == []


def test_rows_of_several_phases_are_told_apart():
    rows = [{"phase": p, "op": "read", "tier": "dram", "range_us": [1.0, 2.0]} for p in ("a", "b")]
    assert list(overview.ranges(rows, None).layout.yaxis.ticktext) == ["read dram (a)", "read dram (b)"]
