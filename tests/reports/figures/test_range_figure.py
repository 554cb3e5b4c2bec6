import plotly.graph_objects as go
import pytest

from kit.store.summary import Summary
from reports.figures import range_figure
from tests.reports import synthetic


def spans(bars):
    return [(low, low + width) for low, width in zip(bars.base, bars.x, strict=True)]


def test_ranges_beside_published():
    frame, manifest = synthetic.latency(), synthetic.manifest()
    read = Summary.from_json(synthetic.summarise(frame, manifest), "summary.json")
    rows = read.rows_of("nfs-server")
    # Plotly's own classes refuse what Plotly does not know.
    figure = go.Figure(range_figure.ranges(rows, None).spec["figure"])
    assert len(figure.data) == 4
    assert figure.layout.xaxis.type != "log" and figure.layout.xaxis2.type == "log"
    ours, _, theirs, _ = figure.data
    assert spans(ours) == [pytest.approx(r.range_us) for r in rows]
    assert spans(theirs) == [r.published.range_us for r in rows]
    assert "read dram" in range_figure.too_small(rows) and "read disk" not in range_figure.too_small(rows)
    assert len(go.Figure(range_figure.ranges([], None).spec["figure"]).data) == 2
    assert range_figure.too_small([]) == []


def test_rows_of_several_phases_are_told_apart():
    rows = synthetic.summary_of(
        {"phase": phase, "tier": "dram", "range_us": [1.0, 2.0]} for phase in "ab"
    ).rows
    figure = range_figure.ranges(rows, None)
    assert figure.layout["yaxis"]["ticktext"] == ["read dram (a)", "read dram (b)"]
