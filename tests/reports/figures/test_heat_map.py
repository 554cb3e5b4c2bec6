import base64
import json

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.store.tables import LATENCY_SCHEMA
from reports.figures import heat_map, range_figure, tier_figures
from reports.figures import heat_map_data as blocks
from tests.reports.synthetic import summarise


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
    axis = heat_map.columns(PHASE, frame, most)
    assert axis.count <= most
    assert len(axis.edges_s) == axis.count + 1
    grid = heat_map.grid(frame, axis)
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
    grid = heat_map.grid(frame, heat_map.columns(PHASE, frame))
    assert grid.edges_us.tolist() == [1.0, 1.1, 5.0, 5.2]
    assert grid.counts.sum(axis=1).tolist() == [2, 0, 3]
    assert grid.counts[0, 0] == 2 and grid.counts[2, 1] == 3


def test_overlapping_bins_are_refused():
    frame = frame_of([(100, "dram", 1000, 1100, 2), (110, "disk", 1050, 1150, 3)])
    with pytest.raises(ValueError, match="overlap"):
        heat_map.grid(frame, heat_map.columns(PHASE, frame))


def test_columns_are_merged_by_summing():
    frame = frame_of([(100 + 10 * n, "dram", 64, 128, n + 1) for n in range(100)])
    axis = heat_map.columns(PHASE, frame, most=30)
    assert (axis.merged, axis.width_ns, axis.count) == (4, 40, 25)
    assert heat_map.grid(frame, axis).counts[0].tolist() == [4 * (4 * n) + 10 for n in range(25)]
    assert heat_map.columns(PHASE, frame).merged == 1


@pytest.mark.parametrize(("top", "kind"), [(255, np.uint8), (256, np.uint16), (1 << 16, np.uint32)])
def test_smallest_type(top, kind):
    assert heat_map.smallest(np.array([[top]])).dtype == kind


def test_intervals_beyond_the_phase_widen_it():
    frame = frame_of([(90, "dram", 0, 64, 1), (2000, "dram", 0, 64, 1)])
    assert heat_map.grid(frame, heat_map.columns(PHASE, frame)).total == 2


def test_log_map_has_room_for_every_bin(synthetic):
    phase = synthetic.manifest()["phases"][0]
    frame = tier_figures.phase_frame(synthetic.latency(), phase, "nfs-server")
    block = blocks.block(frame, phase)
    spec = tier_figures.log_map(block, "reads <b>")
    assert spec["title"] == "reads b" and spec["tiers"] == ["dram", "l2arc", "disk"]
    edges, axis = np.array(block["edges_us"]), spec["log"]
    assert axis["low_us"] < edges[0] and axis["high_us"] > edges[-1]
    per_decade = (spec["height"] - 140) / np.log10(axis["high_us"] / axis["low_us"])
    assert np.diff(np.log10(edges)).min() * per_decade > 1
    assert {text for _, text in axis["ticks"]} == {"10 µs", "100 µs", "1 ms"}


@pytest.mark.parametrize(
    ("tier", "top_us", "lines"),
    [("dram", 20, [10]), ("l2arc", 300, [128, 260]), ("disk", 10_000, [1900, 9700])],
)
def test_zoom_is_linear_from_zero_beyond_the_published_range(synthetic, tier, top_us, lines):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    phase = manifest["phases"][0]
    row = next(r for r in summarise(frame, manifest)["rows"] if r["tier"] == tier)
    frame = tier_figures.phase_frame(frame, phase, "nfs-server")
    spec, hidden = tier_figures.zoom_map(blocks.block(frame, phase), frame, row, "zoom")
    assert (spec["scale"], spec["top_us"], [v for v in spec["published"] if v]) == ("linear", top_us, lines)
    assert spec["tiers"] == [tier] and hidden == 0


def test_zoom_tells_what_is_above_it():
    frame = frame_of([(100, "l2arc", 139264, 143360, 99), (110, "l2arc", 5_000_000, 5_100_000, 1)])
    row = {"tier": "l2arc", "range_us": [139.264, 143.36], "published": None}
    spec, hidden = tier_figures.zoom_map(blocks.block(frame, PHASE), frame, row, "zoom")
    assert hidden == 1 and spec["published"] == []
    # The logarithmic axis that it can be switched to has all of them.
    assert spec["log"]["high_us"] > 5100


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
    found = [text for _, text in tier_figures.ticks(low, high)]
    assert found[: len(words)] == words


@given(st.floats(0.01, 1e6), st.floats(1.5, 1e6))
def test_every_logarithmic_axis_has_three_to_nine_ticks(low, ratio):
    found = tier_figures.ticks(low, low * ratio)
    assert 3 <= len(found) <= 9 or ratio > 1e4
    assert len({text for _, text in found}) == len(found)
    assert all(low <= v <= low * ratio for v, _ in found)


@given(st.floats(0.01, 1e9))
def test_round_up(value):
    rounded = tier_figures.round_up(value)
    assert value <= rounded <= 2.0001 * value
    assert len(f"{rounded:e}".rstrip("0").split("e")[0].replace(".", "").rstrip("0")) == 1


def test_phase_without_io_is_drawn_empty():
    block = blocks.block(frame_of([]), PHASE)
    assert block["gaps"] == [(0, 100)] and block["tiers"] == {}
    spec = tier_figures.log_map(block, "nothing")
    assert spec["tiers"] == [] and spec["log"]["low_us"] < spec["log"]["high_us"]
    json.dumps([block, spec])


@given(st.text())
def test_safe_leaves_no_markup(text):
    assert not set(tier_figures.safe(text)) & set("<>&\"'{}\\$`")


def numbers(array):
    """What packing.typed made of them."""
    return np.frombuffer(base64.b64decode(array["bdata"]), dtype=array["dtype"])


def test_ranges_beside_published(synthetic):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    rows = [r for r in summarise(frame, manifest)["rows"] if r["layer"] == "nfs-server"]
    # Plotly's own classes refuse what Plotly does not know.
    figure = go.Figure(range_figure.ranges(rows, None))
    assert len(figure.data) == 4
    assert figure.layout.xaxis.type != "log" and figure.layout.xaxis2.type == "log"
    ours, _, theirs, _ = figure.data
    assert list(zip(ours.base, ours.base + numbers(ours.x), strict=True)) == [
        pytest.approx(tuple(r["range_us"])) for r in rows
    ]
    assert list(zip(theirs.base, theirs.base + numbers(theirs.x), strict=True)) == [
        tuple(r["published"]["range_us"]) for r in rows
    ]
    assert "read dram" in range_figure.too_small(rows) and "read disk" not in range_figure.too_small(rows)
    assert len(go.Figure(range_figure.ranges([], None)).data) == 2
    assert range_figure.too_small([]) == []


def test_rows_of_several_phases_are_told_apart():
    rows = [{"phase": p, "op": "read", "tier": "dram", "range_us": [1.0, 2.0]} for p in ("a", "b")]
    assert range_figure.ranges(rows, None)["layout"]["yaxis"]["ticktext"] == [
        "read dram (a)",
        "read dram (b)",
    ]
