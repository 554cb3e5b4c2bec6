import json

import numpy as np
import pytest

from kit.store.summary import Summary
from reports.figures import heat_map, map_figures
from tests.reports import synthetic

PHASE = {"name": "p", "start_ns": 100, "end_ns": 1100, "interval_ns": 10}


def frame_of(rows):
    fixed = [(t, "p", "nfs-server", "h", "read", tier, lo, hi, n) for t, tier, lo, hi, n in rows]
    return synthetic.table(fixed)


def test_log_map_has_room_for_every_bin():
    phase = synthetic.manifest()["phases"][0]
    frame = map_figures.phase_frame(synthetic.latency(), phase, "nfs-server")
    block = heat_map.block(frame, phase)
    spec = map_figures.log_map(block, "reads <b>")
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
def test_zoom_is_linear_from_zero_beyond_the_published_range(tier, top_us, lines):
    frame, manifest = synthetic.latency(), synthetic.manifest()
    phase = manifest["phases"][0]
    summary = Summary.from_json(synthetic.summarise(frame, manifest), "summary.json")
    row = next(r for r in summary.rows if r.tier == tier)
    frame = map_figures.phase_frame(frame, phase, "nfs-server")
    spec, hidden = map_figures.zoom_map(heat_map.block(frame, phase), frame, row, "zoom")
    assert (spec["scale"], spec["top_us"], [v for v in spec["published"] if v]) == ("linear", top_us, lines)
    assert spec["tiers"] == [tier] and hidden == 0


def test_zoom_tells_what_is_above_it():
    frame = frame_of([(100, "l2arc", 139264, 143360, 99), (110, "l2arc", 5_000_000, 5_100_000, 1)])
    (row,) = synthetic.summary_of([{"tier": "l2arc", "range_us": [139.264, 143.36]}]).rows
    spec, hidden = map_figures.zoom_map(heat_map.block(frame, PHASE), frame, row, "zoom")
    assert hidden == 1 and spec["published"] == []
    # The logarithmic axis that it can be switched to has all of them.
    assert spec["log"]["high_us"] > 5100


def test_phase_without_io_is_drawn_empty():
    block = heat_map.block(frame_of([]), PHASE)
    assert block["gaps"] == [(0, 100)] and block["tiers"] == {}
    spec = map_figures.log_map(block, "nothing")
    assert spec["tiers"] == [] and spec["log"]["low_us"] < spec["log"]["high_us"]
    json.dumps([block, spec])
