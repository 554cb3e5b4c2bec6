import json
import zlib

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.figures import encoding, heat_map
from tests.reports import synthetic

PHASE = {"name": "p", "start_ns": 100, "end_ns": 1100, "interval_ns": 10}


def frame_of(rows):
    fixed = [(t, "p", "nfs-server", "h", "read", tier, lo, lo + 64, n) for t, tier, lo, n in rows]
    return synthetic.table(fixed)


def numbers(text):
    """What encoding.packed(encoding.varints(numbers)) was made of, the way cells.js reads it."""
    value = 0
    data = bytearray()
    for at in range(0, len(text), 5):
        digits = [encoding.ALPHABET.index(c) for c in text[at : at + 5].encode()]
        value = sum(d * 85 ** (4 - n) for n, d in enumerate(digits + [84] * (5 - len(digits))))
        data += (value % (1 << 32)).to_bytes(4, "big")[: len(digits) - 1]
    values, value, factor = [], 0, 1
    for byte in zlib.decompress(bytes(data)):
        value += (byte & 127) * factor
        factor *= 128
        if byte < 128:
            values.append(value)
            value, factor = 0, 1
    return np.array(values, dtype=np.int64)


def unpacked(block, tier):
    """{(column, lower edge in us): count}, the way cells.js reads it."""
    columns = block["columns"]
    places = np.cumsum(numbers(block["tiers"][tier]["steps"]) + 1) - 1
    counts = numbers(block["tiers"][tier]["counts"])
    return {
        (int(p) % columns, block["edges_us"][int(p) // columns]): int(n)
        for p, n in zip(places, counts, strict=True)
    }


row = st.tuples(
    st.integers(100, 1099),
    st.sampled_from(["dram", "disk"]),
    st.integers(1, 50).map(lambda n: n * 64),
    st.integers(1, 1 << 34),
)


@given(st.lists(row, min_size=1, max_size=60))
def test_every_count_comes_back(rows):
    block = json.loads(json.dumps(heat_map.block(frame_of(rows), PHASE)))
    expected = {}
    for time, tier, lo, count in rows:
        key = (tier, (time - 100) // 10, lo / 1e3)
        expected[key] = expected.get(key, 0) + count
    observed = {(tier, *key): n for tier in block["tiers"] for key, n in unpacked(block, tier).items()}
    assert observed == expected
    assert block["columns"] == 100 and block["duration_s"] == pytest.approx(1e-6)


def test_nothing_recorded_is_not_a_count_of_zero():
    block = heat_map.block(
        frame_of([(100, "dram", 64, 5), (120, "dram", 64, 0), (1090, "dram", 64, 1)]), PHASE
    )
    # Column 2 was measured and had no I/O; columns 1 and 3 to 98 were not measured.
    assert block["gaps"] == [(1, 2), (3, 99)]
    assert unpacked(block, "dram") == {(0, 0.064): 5, (99, 0.064): 1}


def test_a_bin_at_zero_has_a_place_on_a_logarithmic_axis():
    block = heat_map.block(frame_of([(100, "dram", 0, 5)]), PHASE)
    assert block["edges_us"] == [0.01, 0.064]


@given(st.lists(st.integers(0, (1 << 63) - 1)))
def test_numbers_of_any_size_come_back(values):
    packed = encoding.packed(encoding.varints(np.array(values, dtype=np.int64)))
    assert numbers(packed).tolist() == values


@given(st.binary())
def test_packed_text_means_nothing_to_html_or_json(data):
    text = encoding.base85(data)
    assert json.loads(f'"{text}"') == text
    assert not set(text) & set("<>&\"'`\\") and text.isascii() and text.isprintable() and " " not in text


def test_two_bins_that_do_not_touch_have_an_empty_one_between():
    block = heat_map.block(frame_of([(100, "dram", 1024, 2), (110, "disk", 5120, 3)]), PHASE)
    assert block["edges_us"] == [1.024, 1.088, 5.12, 5.184]
    assert unpacked(block, "dram") == {(0, 1.024): 2} and unpacked(block, "disk") == {(1, 5.12): 3}
    assert list(block["tiers"]) == ["dram", "disk"]


def test_overlapping_bins_are_refused():
    with pytest.raises(ValueError, match="overlap"):
        heat_map.block(frame_of([(100, "dram", 1000, 2), (110, "disk", 1050, 3)]), PHASE)


def test_columns_are_merged_by_summing():
    frame = frame_of([(100 + 10 * n, "dram", 64, n + 1) for n in range(100)])
    block = heat_map.block(frame, PHASE, most=30)
    assert (block["merged"], block["columns"], block["width_s"]) == (4, 25, 40e-9)
    assert unpacked(block, "dram") == {(n, 0.064): 4 * (4 * n) + 10 for n in range(25)}
    assert heat_map.block(frame, PHASE)["merged"] == 1


def test_intervals_beyond_the_phase_widen_it():
    block = heat_map.block(frame_of([(90, "dram", 64, 1), (2000, "dram", 64, 1)]), PHASE)
    assert sum(unpacked(block, "dram").values()) == 2
    assert block["columns"] * 10 >= 2000 - 90


def test_counts_of_another_column_than_the_tier():
    frame = frame_of([(100, "dram", 64, 5), (100, "disk", 64, 2)]).with_columns(pl.lit("A").alias("side"))
    assert unpacked(heat_map.block(frame, PHASE, by="side"), "A") == {(0, 0.064): 7}


def test_plotly_knows_every_word_of_a_panel():
    panel = heat_map.panel(0, {"A": -0.5, "B": 1}, "B less <b>A", "2", {"len": 0.3})
    assert json.loads(go.Figure({"data": [panel]}).to_json())["data"] == [panel]
    assert panel["name"] == "B less bA" and panel["showscale"]
    assert not heat_map.panel(0, {"A": 1}, "A", "", None)["showscale"]
