import json
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.core.bins import bin_edges, bin_index
from reports.figures import encoding, heat_map, phase_maps
from reports.figures.heat_map import TimeSpan
from tests.reports import drawn, synthetic

PHASE = TimeSpan(100, 1100, 10)
SECOND = synthetic.SECOND


def frame_of(rows):
    """Rows of (time_ns, tier, lo_ns, count), or with hi_ns before the count."""
    fixed = [
        (t, "p", "nfs-server", "h", "read", tier, lo, *(rest if len(rest) > 1 else (lo + 64, *rest)))
        for t, tier, lo, *rest in rows
    ]
    return synthetic.table(fixed)


def block_of(frame, phase=PHASE, **named):
    return json.loads(json.dumps(heat_map.block(heat_map.grid(frame, phase, **named))))


row = st.tuples(
    st.integers(100, 1099),
    st.sampled_from(["dram", "disk"]),
    st.integers(1, 50).map(lambda n: n * 64),
    st.integers(1, 1 << 34),
)


@given(st.lists(row, min_size=1, max_size=60))
def test_every_count_comes_back(rows):
    block = block_of(frame_of(rows))
    expected = {}
    for time, tier, lo, count in rows:
        key = (tier, (time - 100) // 10, lo / 1e3)
        expected[key] = expected.get(key, 0) + count
    observed = {(tier, *key): n for tier in block["tiers"] for key, n in drawn.counts(block, tier).items()}
    assert {(t, c, round(e, 6)): n for (t, c, e), n in observed.items()} == expected
    assert block["columns"] == 100 and block["duration_s"] == pytest.approx(1e-6)


def test_nothing_recorded_is_not_a_count_of_zero():
    stored = heat_map.grid(
        frame_of([(100, "dram", 64, 5), (120, "dram", 64, 0), (1090, "dram", 64, 1)]), PHASE
    )
    # Column 2 was measured and had no I/O; columns 1 and 3 to 98 were not measured.
    assert stored.gaps == ((1, 2), (3, 99))
    assert drawn.counts(heat_map.block(stored), "dram") == {(0, 0.064): 5, (99, 0.064): 1}


def test_a_merged_column_is_a_gap_only_if_all_of_it_is():
    rows = [(100 + 10 * n, "dram", 64, 1) for n in range(100) if not 7 <= n < 16 and n < 91]
    shown = heat_map.display(heat_map.grid(frame_of(rows), PHASE), (25, 256))
    # Columns of four: 8 to 15 are empty as a whole, 4 to 7 are not; the last ones reach the end.
    assert shown.merged == (4, 1) and shown.gaps == ((2, 4), (23, 25))


def test_a_bin_at_zero_has_a_place_on_a_logarithmic_axis():
    block = block_of(frame_of([(100, "dram", 0, 5)]))
    assert block["edges_us"] == [0.01, 0.064]
    # A bin of one nanosecond, too.
    stored = heat_map.grid(frame_of([(100, "dram", 0, 1, 5)]), PHASE)
    assert 0 < stored.edges_s[0] < stored.edges_s[1]
    (trace,) = heat_map.traces(heat_map.display(stored), ["dram"], "octave")
    assert np.isfinite(np.nanmax(drawn.typed(trace["z"])))


@given(st.lists(st.integers(0, (1 << 63) - 1)))
def test_numbers_of_any_size_come_back(values):
    packed = encoding.packed(encoding.varints(np.array(values, dtype=np.int64)))
    assert drawn.numbers(packed).tolist() == values


@given(st.binary())
def test_packed_text_means_nothing_to_html_or_json(data):
    text = encoding.base85(data)
    assert json.loads(f'"{text}"') == text
    assert not set(text) & set("<>&\"'`\\") and text.isascii() and text.isprintable() and " " not in text
    assert drawn.unpacked(encoding.packed(data)) == data


def test_two_bins_that_do_not_touch_have_an_empty_one_between():
    block = block_of(frame_of([(100, "dram", 1024, 2), (110, "disk", 5120, 3)]))
    assert block["edges_us"] == pytest.approx([1.024, 1.088, 5.12, 5.184], rel=1e-12)
    assert [list(drawn.counts(block, tier).values()) for tier in ("dram", "disk")] == [[2], [3]]
    assert list(block["tiers"]) == ["dram", "disk"]


def test_overlapping_bins_are_refused():
    with pytest.raises(ValueError, match="overlap"):
        heat_map.grid(frame_of([(100, "dram", 1000, 2), (110, "disk", 1050, 3)]), PHASE)


def test_columns_are_merged_by_summing():
    frame = frame_of([(100 + 10 * n, "dram", 64, n + 1) for n in range(100)])
    block = block_of(frame, most=30)
    assert (block["merged"], block["columns"], block["width_s"]) == (4, 25, 40e-9)
    assert drawn.counts(block, "dram") == {(n, 0.064): 4 * (4 * n) + 10 for n in range(25)}
    assert block_of(frame)["merged"] == 1


def test_intervals_beyond_the_phase_widen_it():
    block = block_of(frame_of([(90, "dram", 64, 1), (2000, "dram", 64, 1)]))
    assert sum(drawn.counts(block, "dram").values()) == 2
    assert block["columns"] * 10 >= 2000 - 90


def test_an_interval_beyond_the_phase_is_as_bright_as_one_inside():
    frame = frame_of([(n * SECOND, "dram", 64, 10) for n in range(6)])
    stored = heat_map.grid(frame, TimeSpan(0, 4 * SECOND, SECOND))
    assert stored.columns == 6 and stored.lengths_s == pytest.approx(np.ones(6))


def test_the_last_column_is_as_long_as_the_phase_leaves_it():
    # 4 s and a quarter: ten I/Os in a quarter of a second are forty per second.
    frame = frame_of([(n * SECOND, "dram", 64, 40) for n in range(4)] + [(4 * SECOND, "dram", 64, 10)])
    stored = heat_map.grid(frame, TimeSpan(0, 17 * SECOND // 4, SECOND))
    assert stored.lengths_s == pytest.approx([1, 1, 1, 1, 0.25])
    for per in ("octave", "us"):
        (trace,) = heat_map.traces(stored, ["dram"], per)
        z = drawn.typed(trace["z"])
        assert z.shape == (1, 5) and np.ptp(z) < 2e-3
        assert trace["x"] == [0, 1, 2, 3, 4, 4.25]


def test_one_io_in_a_sliver_of_time_is_not_the_end_of_the_scale():
    """10 I/Os in each second, and one in the last millisecond: a hundred times as dense."""
    frame = frame_of([(n * SECOND, "dram", 64, 10) for n in range(4)] + [(4 * SECOND, "dram", 64, 1)])
    stored = heat_map.grid(frame, TimeSpan(0, 4 * SECOND + SECOND // 1000, SECOND))
    (trace,) = heat_map.traces(stored, ["dram"], "octave")
    z = drawn.typed(trace["z"])[0]
    assert trace["x"][-1] == pytest.approx(4.001) and z[-1] - z[0] == pytest.approx(2, abs=0.01)
    assert trace["meta"]["zmin"] == trace["meta"]["zmax"] == pytest.approx(float(z[0]))


def test_counts_of_another_column_than_the_tier():
    frame = frame_of([(100, "dram", 64, 5), (100, "disk", 64, 2)]).with_columns(pl.lit("A").alias("side"))
    assert drawn.counts(block_of(frame, by="side"), "A") == {(0, 0.064): 7}


@pytest.mark.parametrize("count", [1, (1 << 31) - 1, 1 << 31, 1 << 45])
def test_a_count_of_any_size_is_in_the_tooltip(count):
    stored = heat_map.grid(frame_of([(100, "dram", 64, count)]), PHASE)
    (trace,) = heat_map.traces(stored, ["dram"], "octave")
    assert drawn.typed(trace["customdata"])[0, 0] == count


def test_edges_of_the_figure_are_those_of_the_store():
    lo, hi = bin_edges(bin_index(np.array([6_143, 6_144, 139_264, 4_980_736, 3_600 * 10**9])))
    frame = frame_of([(100, "all", int(a), int(b), 9) for a, b in zip(lo, hi, strict=True)])
    stored = heat_map.grid(frame, PHASE)
    (trace,) = heat_map.traces(stored, ["all"], "octave")
    edges = np.unique([*lo, *hi]) / 1e9
    assert trace["y"] == pytest.approx(edges, rel=1e-9)
    assert np.array(block_of(frame)["edges_us"]) == pytest.approx(edges * 1e6, rel=1e-15)
    assert trace["x"] == pytest.approx(np.arange(101) * 1e-8)


def test_a_grid_of_one_column_and_one_without_any_io():
    for rows, tiers in (([(100, "dram", 64, 5)], 1), ([], 0), ([(100, "dram", 64, 0)], 0)):
        stored = heat_map.grid(frame_of(rows), replace(PHASE, interval_ns=1000))
        shown = heat_map.display(stored)
        assert stored.columns == shown.columns == 1
        maps = heat_map.coloured(heat_map.traces(shown, list(shown.tiers), "octave"), "octave")
        # The second trace is the bar of colours.
        assert len(maps) == 2 * tiers and len(shown.tiers) == tiers
        go.Figure({"data": maps})
        assert heat_map.rows_text(shown).startswith("Cell: 1e-06 s \N{MULTIPLICATION SIGN} ")


# Bins of the kit's division, of fio's (64 an octave), of a power of two, and of no division at all.
kit_bin = st.integers(0, 1500).map(lambda n: tuple(int(edge) for edge in bin_edges(n)))
bins = st.one_of(
    st.lists(kit_bin, min_size=1, max_size=80, unique=True),
    st.lists(st.integers(0, 61).map(lambda n: (1 << n, 2 << n)), min_size=1, max_size=40, unique=True),
    st.lists(st.integers(0, 10**10), min_size=2, max_size=60, unique=True).map(
        lambda edges: list(zip(sorted(edges), sorted(edges)[1:], strict=False))[::2]
    ),
)


@st.composite
def grids(draw):
    """A grid of any division, with gaps, some tiers and a last column that may be cut off."""
    columns = draw(st.sampled_from([1, 3, 599, 601, 1500]))
    listed = draw(bins)
    cell = st.tuples(
        st.integers(0, columns - 1), st.sampled_from(["dram", "disk"]), st.sampled_from(listed),
        st.integers(0, 1 << 40),
    )  # fmt: skip
    rows = draw(st.lists(cell, min_size=1, max_size=60))
    frame = frame_of([(column * 10, tier, lo, hi, count) for column, tier, (lo, hi), count in rows])
    end = columns * 10 - draw(st.integers(0, 9))
    return frame, heat_map.grid(frame, TimeSpan(0, max(end, 1), 10))


@settings(max_examples=50, deadline=None)
@given(grids(), st.sampled_from([heat_map.DISPLAY, (120, 128), (40, 20)]))
def test_merging_for_a_screen_loses_nothing(made, most):
    frame, stored = made
    shown = heat_map.display(stored, most)
    assert shown.columns <= most[0] and len(shown.edges_ns) - 1 <= most[1]
    assert (np.diff(shown.edges_ns) > 0).all()
    assert list(shown.tiers) == list(stored.tiers)
    for tier, cells in shown.tiers.items():
        mine = frame.filter((pl.col("tier") == tier) & (pl.col("count") > 0))
        assert cells.count.sum() == mine["count"].sum()
        # Each stored bin is whole in one row, and each interval in one column.
        rows = np.searchsorted(shown.edges_ns, mine["lo_ns"].to_numpy(), side="right") - 1
        assert (shown.edges_ns[rows + 1] >= mine["hi_ns"].to_numpy()).all()
        columns = (mine["time_ns"].to_numpy() - shown.start_ns) // shown.width_ns
        expected = mine.select(
            pl.Series("place", rows * shown.columns + columns), "count"
        ).group_by("place").agg(pl.col("count").sum()).sort("place")  # fmt: skip
        order = np.argsort(cells.row * shown.columns + cells.column)
        assert expected["place"].to_list() == (cells.row * shown.columns + cells.column)[order].tolist()
        assert expected["count"].to_list() == cells.count[order].tolist()
    used = np.concatenate([cells.count for cells in shown.tiers.values()] or [np.array([4])])
    assert np.median(used) >= 4 or shown.merged[1] >= 8
    # What is drawn: finite, and whole counts.
    for trace in heat_map.traces(shown, list(shown.tiers), "octave"):
        z, counts = drawn.typed(trace["z"]), drawn.typed(trace["customdata"])
        assert (np.isfinite(z) == (counts > 0)).all()
        assert counts.sum() == shown.tiers[trace["meta"]["tier"]].count.sum()
    for first, last in shown.gaps:
        used_columns = np.concatenate([cells.column for cells in shown.tiers.values()] or [np.array([])])
        assert not ((used_columns >= first) & (used_columns < last)).any()


def test_no_more_rows_are_merged_than_the_picture_needs():
    rich = heat_map.grid(frame_of([(100, "dram", 64 * n, 4) for n in range(32, 60)]), PHASE)
    assert heat_map.display(rich).merged == (1, 1)
    poor = heat_map.grid(frame_of([(100, "dram", 64 * n, 1) for n in range(32, 60)]), PHASE)
    assert heat_map.display(poor).merged == (1, 4)
    assert heat_map.rows_text(heat_map.display(poor)).endswith(" 4 bins (12 %).")


@pytest.mark.parametrize(
    ("bins", "text"),
    [
        ([(4096, 4224), (4224, 4352)], "1 bin (3 %)"),
        ([(4096, 8192), (8192, 16384)], "1 bin (100 %)"),
        ([(0, 1000), (1000, 1500)], "1 bin (50 %)"),
        ([(0, 1000)], "1 bin"),
        ([], "1 bin"),
    ],
)  # fmt: skip
def test_the_height_of_a_row_is_that_of_the_source(bins, text):
    frame = frame_of([(100 + n, "all", lo, hi, 99) for n, (lo, hi) in enumerate(bins)])
    said = heat_map.rows_text(heat_map.display(heat_map.grid(frame, PHASE)))
    assert said == f"Cell: 1e-08 s \N{MULTIPLICATION SIGN} {text}."


LOW_NS, HIGH_NS = 100_000, 1_600_000


def even(kind, number, seconds=20):
    """Latencies from LOW_NS to HIGH_NS without noise, uniform on a linear or on a logarithmic axis."""
    part = (np.arange(number) + 0.5) / number
    values = LOW_NS + part * (HIGH_NS - LOW_NS) if kind == "uniform" else LOW_NS * 16**part
    latencies = np.random.default_rng(1).permutation(values.astype(np.int64))
    times = np.arange(number, dtype=np.int64) % seconds * SECOND
    names = {"phase": "p", "layer": "nfs-server", "host": "h", "op": "read", "tier": "all"}
    frame = synthetic.binned(times, latencies, **names)
    return heat_map.grid(frame, TimeSpan(0, seconds * SECOND, SECOND))


def drawn_density(shown, per):
    """(lower edge of each row in s, mean of its drawn density); not the rows where the I/Os begin and end."""
    (trace,) = heat_map.traces(shown, ["all"], per)
    density = np.nansum(10 ** drawn.typed(trace["z"]).astype(float), axis=1) / shown.columns
    return np.array(trace["y"][1:-2]), density[1:-1]


@pytest.mark.parametrize(("number", "merged"), [(400_000, 1), (8_000, 2), (4_000, 4), (2_000, 8)])
@pytest.mark.parametrize("kind", ["uniform", "log-uniform"])
@pytest.mark.parametrize("per", ["octave", "us"])
def test_no_border_at_powers_of_two(number, merged, kind, per):
    shown = heat_map.display(even(kind, number))
    assert shown.merged[1] == merged
    low, density = drawn_density(shown, per)
    steps, octaves = np.diff(np.log10(density)), np.log2(low[1:] * 1e9)
    borders = np.abs(octaves - np.round(octaves)) < 1e-6
    assert borders.sum() == 4
    flat = (kind, per) in (("uniform", "us"), ("log-uniform", "octave"))
    if flat:
        # I/Os per second and octave or us: within one I/O a row. A count per bin would step by 0.3.
        expected = number / 20 / (1500 if per == "us" else 4)
        assert density == pytest.approx(expected, rel=0.04)
        assert np.abs(steps).max() < 0.03
    else:
        # It rises or falls all the time, at a border as beside it.
        assert np.abs(steps[borders]).max() <= 1.25 * np.abs(steps[~borders]).max()
        assert (np.sign(steps[borders]) == (1 if per == "octave" else -1)).all()


@pytest.mark.parametrize("number", [400_000, 4_000])
def test_no_border_in_the_histogram_at_the_left(number):
    shown = heat_map.display(even("log-uniform", number))
    (bar,) = phase_maps._rates(shown, "x2", float(shown.lengths_s.sum()))
    assert bar["x"][1:-1] == pytest.approx([number / 20 / 4] * (len(bar["x"]) - 2), rel=0.04)
    assert sum(bar["customdata"]) == number
    # Each bar begins at the lower edge of its row and is as high as it is.
    assert np.array(bar["y"]) + np.array(bar["width"]) == pytest.approx(shown.edges_s[1:])


def test_each_map_of_a_figure_has_one_scale_of_three_powers_of_ten():
    rows = [(100, "dram", 1024, 10**9), (100, "disk", 8192, 1), (110, "disk", 8192, 2)]
    shown = heat_map.grid(frame_of(rows), PHASE)
    *maps, key = heat_map.coloured(heat_map.traces(shown, ["dram", "disk"], "octave"), "octave")
    assert len({(m["zmin"], m["zmax"]) for m in maps}) == 1
    assert maps[0]["zmax"] - maps[0]["zmin"] == pytest.approx(3)
    assert maps[0]["zmax"] == maps[0]["meta"]["zmax"]
    marker = key["marker"]
    assert (marker["cmin"], marker["cmax"]) == (maps[0]["zmin"], maps[0]["zmax"])
    assert marker["colorbar"]["title"]["text"] == "I/O/s/octave"
    # A value of one is no scale: it gets some width, and a number.
    one = heat_map.traces(heat_map.grid(frame_of([(100, "dram", 1024, 5)]), PHASE), ["dram"], "us")
    alone = heat_map.coloured(one, "us")[-1]["marker"]
    assert alone["cmax"] > alone["cmin"] and alone["colorbar"]["ticktext"]
    assert alone["colorbar"]["title"]["text"] == "I/O/s/µs"


def test_a_difference_is_added_up_over_the_tiers_with_their_weights():
    frame = frame_of([(100, "A", 1024, 8), (100, "B", 1024, 2), (110, "B", 2048, 3), (120, "A", 1024, 0)])
    shown = heat_map.grid(frame, PHASE)
    trace = heat_map.difference(shown, {"A": -0.5, "B": 1.0}, ("x3", "y3"), "B less <b>A")
    z, counts = drawn.typed(trace["z"]), drawn.typed(trace["customdata"])
    assert counts[0, 0] == -2 and counts[2, 1] == 3 and counts[0, 2] == 0
    assert (
        z[0, 0] < 0 < z[2, 1] and np.isnan(z[0, 2]) and np.nanmax(np.abs(z)) == pytest.approx(trace["zmax"])
    )
    # The scale is a root: a quarter of the most is drawn half as strong.
    assert trace["colorbar"]["tickvals"][3] == pytest.approx(trace["zmax"] / 2)
    assert trace["name"] == "B less bA"
    go.Figure({"data": [trace]})
    empty = heat_map.difference(heat_map.grid(frame_of([]), PHASE), {"A": -1, "B": 1}, ("x", "y"), "d")
    assert empty["zmax"] == 1


@given(st.lists(row, min_size=1, max_size=60))
def test_the_map_of_time_waited_sums_up_to_all_time_that_was_waited(rows):
    frame = frame_of(rows)
    shown = heat_map.display(heat_map.grid(frame, PHASE))
    # Each I/O as the middle of its bin of 64 ns: at most 31.5 ns off.
    exact = {}
    for _, tier, lo, count in rows:
        exact[tier] = exact.get(tier, 0) + count * (lo + 31.5) / 1e9
    for trace in heat_map.traces(shown, list(shown.tiers), "octave"):
        counts, wait_s = drawn.typed(trace["customdata"]), np.array(trace["meta"]["wait_s"])
        total = float((counts * wait_s[:, None]).sum())
        assert total == pytest.approx(exact[trace["meta"]["tier"]], rel=1e-5)


@pytest.mark.parametrize("per", ["octave", "us"])
def test_the_colour_of_time_waited_is_a_density(per):
    # 10 I/Os of 1 ms and 1000 of 1 us in a second: many are fast, and most time is waited for the slow ones.
    frame = frame_of([(0, "disk", 999_936, 1_000_064, 10), (0, "dram", 1000, 1008, 1000)])
    phase = TimeSpan(0, SECOND, SECOND)
    shown = heat_map.grid(frame, phase)
    *maps, key = heat_map.coloured(heat_map.traces(shown, ["dram", "disk"], per), per)
    high = {"disk": (999_936, 1_000_064, 10), "dram": (1000, 1008, 1000)}
    for trace in maps:
        lo, hi, count = high[trace["meta"]["tier"]]
        wide = np.log2(hi / lo) if per == "octave" else (hi - lo) / 1e3
        z = float(np.nanmax(drawn.typed(trace["z"]))) + np.log10(trace["meta"]["wait_s"][0])
        assert 10**z == pytest.approx(count * (lo + hi - 1) / 2e9 / wide, rel=1e-2)
    unit = "octave" if per == "octave" else "µs"
    assert key["marker"]["colorbar"]["title"]["text"] == f"I/O/s/{unit}"
