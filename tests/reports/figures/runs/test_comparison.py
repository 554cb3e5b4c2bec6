import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

from reports.figures import palette
from reports.figures.runs import comparison
from tests.reports import drawn, synthetic


def runs(*lengths):
    frames = [synthetic.latency(length) for length in lengths]
    return [(synthetic.parsed(synthetic.manifest(f, n)), f) for f, n in zip(frames, lengths, strict=True)]


def test_a_figure_per_phase_and_layer_that_plotly_knows():
    figures = list(comparison.figures(runs(12, 12), runs(20)))
    assert [f.title for f in figures] == [
        f"512 B {phase}: {layer}" for phase, _ in synthetic.PHASES for layer in ("NFS server", "clients")
    ]
    for figure in figures:
        go.Figure(data=figure.spec["data"], layout=figure.spec["layout"])
        a, b, difference = drawn.heat_maps(figure.spec)
        assert [trace["name"] for trace in (a, b, difference)] == ["A", "B", "B less A"]
        assert [trace["yaxis"] for trace in (a, b, difference)] == ["y", "y2", "y3"]
        # A and B have one scale, and hues of their own without the page's script, too.
        assert (a["zmin"], a["zmax"]) == (b["zmin"], b["zmax"])
        assert [trace["colorscale"] for trace in (a, b)] == [palette.scale("l2arc"), palette.scale("pool")]
        # As long as the longest phase.
        assert figure.layout["xaxis3"]["range"] == [0, 20]
        assert figure.caption.startswith("Closed loop, 1 outstanding. Cell: 1 s \N{MULTIPLICATION SIGN} ")


def test_cells_are_ios_per_run_and_the_difference_is_theirs():
    """A: two runs of 12 s with the same I/Os; B: one of 20 s."""
    figure = next(comparison.figures(runs(12, 12), runs(20)))
    a, b, difference = (drawn.typed(t["customdata"]) for t in drawn.heat_maps(figure.spec))
    per_second = synthetic.latency(1).filter((pl.col("phase") == "read") & (pl.col("layer") == "nfs-server"))
    assert a.sum() == 12 * per_second["count"].sum() and b.sum() == 20 * per_second["count"].sum()
    # What both did is no difference, and coloured as none; what only B did is.
    assert not difference[:, :12].any() and difference.sum() == b.sum() - a.sum()
    z = drawn.typed(drawn.heat_maps(figure.spec)[2]["z"])
    assert np.nanmax(np.abs(z[:, :12])) == 0 and np.nanmax(z[:, 12:]) > 0


def test_a_layer_that_only_one_side_has():
    a, b = runs(12), runs(12)
    b = [(manifest, frame.filter(pl.col("layer") == "client")) for manifest, frame in b]
    server = next(f for f in comparison.figures(a, b) if f.title == "512 B read: NFS server")
    assert [trace["name"] for trace in drawn.heat_maps(server.spec)] == ["A", "B less A"]
    assert (drawn.typed(drawn.heat_maps(server.spec)[1]["customdata"]) <= 0).all()


def test_a_layer_without_any_io_is_refused():
    side = [(m, f.with_columns(count=pl.lit(0, dtype=pl.Int64))) for m, f in runs(12)]
    with pytest.raises(ValueError, match="512 B read: NFS server: no I/O"):
        list(comparison.figures(side, side))
