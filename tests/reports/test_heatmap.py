import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.store import LATENCY_SCHEMA
from reports import figures, heatmap, summary


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


def test_empty_cells_have_no_colour():
    shown = heatmap.colours(np.array([[0, 1], [10, 1000]]))
    assert np.isnan(shown[0, 0])
    assert shown[0, 1] == 0 and shown[1].tolist() == pytest.approx([1, 3])


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
    buttons = figure.layout.updatemenus[0].buttons
    assert [b.label for b in buttons] == ["all tiers", "dram", "l2arc", "disk"]
    for index, button in enumerate(buttons):
        shown = button.args[0]["visible"]
        assert [i for i, on in enumerate(shown) if on] == [2 * index, 2 * index + 1]
    assert "verdict unknown" in figure.layout.title.text
    assert figure.layout.yaxis.type == "log"
    heat = figure.data[1]
    assert len(heat.y) == heat.z.shape[0] + 1 and len(heat.x) == heat.z.shape[1] + 1
    assert sum(t.customdata.sum() for t in figure.data[3::2]) == heat.customdata.sum()
    low, high = figure.layout.yaxis.range
    pixels = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    assert np.diff(np.log10(heat.y)).min() / (high - low) * pixels > 1
    assert set(figure.layout.yaxis.ticktext) == {"10 µs", "100 µs", "1 ms"}


def test_zoom_shows_one_tier(synthetic):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    phase = manifest["phases"][0]
    row = next(r for r in summary.summarise(frame, manifest)["rows"] if r["tier"] == "l2arc")
    figure, hidden = figures.zoom_map(
        figures.phase_frame(frame, phase, "nfs-server"), phase, row, "zoom", False
    )
    assert figure.layout.yaxis.type != "log"
    low, high = figure.layout.yaxis.range
    assert low < row["range_us"][0] < row["range_us"][1] < high
    assert figure.data[1].customdata.sum() + hidden == row["count"]


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
    figure = figures.ranges(rows, None)
    assert len(figure.data) == 4
    assert figure.layout.xaxis2.type == "log"
    assert len(figures.ranges([], None).data) == 2
