import json

import plotly.graph_objects as go
import polars as pl
import pytest

from reports.figures import comparison
from tests.reports import synthetic


def runs(*lengths):
    frames = [synthetic.latency(length) for length in lengths]
    return [(synthetic.parsed(synthetic.manifest(f, n)), f) for f, n in zip(frames, lengths, strict=True)]


def test_a_figure_per_phase_and_layer_that_plotly_knows():
    figures = list(comparison.figures(runs(12, 12), runs(20)))
    assert [f.title for f in figures] == [
        f"{phase}: {layer}" for phase, _ in synthetic.PHASES for layer in ("nfs-server", "client")
    ]
    for figure in figures:
        drawn = json.loads(go.Figure(figure.spec["figure"]).to_json())
        assert drawn["data"] == figure.spec["figure"]["data"]
        assert [t["meta"]["weights"] for t in drawn["data"]] == [{"A": 0.5}, {"B": 1}, {"A": -0.5, "B": 1}]
        # As long as the longest phase.
        (block,) = figure.blocks
        assert block["duration_s"] == 20 and set(block["tiers"]) == {"A", "B"}


def test_a_layer_that_only_one_side_has():
    a, b = runs(12), runs(12)
    b = [(manifest, frame.filter(pl.col("layer") == "client")) for manifest, frame in b]
    server = next(f for f in comparison.figures(a, b) if f.title == "read: nfs-server")
    assert set(server.blocks[0]["tiers"]) == {"A"}


def test_a_layer_without_any_io_is_refused():
    side = [(m, f.with_columns(count=pl.lit(0, dtype=pl.Int64))) for m, f in runs(12)]
    with pytest.raises(ValueError, match="read: nfs-server: no I/O"):
        list(comparison.figures(side, side))
