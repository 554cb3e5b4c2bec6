import json

import numpy as np
import plotly.graph_objects as go
import pytest

from reports.figures import figure
from reports.figures.figure import FLOOR_S, Figure
from tests.reports import drawn


def test_what_json_has_not_is_null():
    made = Figure("t <b>", [{"x": [float("inf"), float("nan"), 1.0]}], {"height": 9})
    assert made.spec["data"] == [{"x": [None, None, 1.0]}]
    assert made.spec["title"] == "t b"


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_typed_arrays_come_back(dtype):
    for values in (np.arange(6).astype(dtype), np.arange(6).astype(dtype).reshape(2, 3).T):
        packed = figure.numbers(values)
        observed = drawn.typed(json.loads(json.dumps(packed)))
        assert observed.dtype == dtype and observed.tolist() == values.tolist()
    with pytest.raises(KeyError):
        figure.numbers(np.arange(3))


@pytest.mark.parametrize(("low", "high"), [(1e-6, 1e-2), (0, 1), (0, 0), (-1.0, 5.0)])
def test_axes_are_finite_and_ascend(low, high):
    first, last = figure.latency_axis(low, high)["range"]
    assert np.isfinite([first, last]).all() and first < last
    assert first >= np.log10(FLOOR_S)


def test_published_bands_are_translucent_with_dotted_edges():
    shapes = figure.published_band([1e-4, 2e-4])
    assert [shape["type"] for shape in shapes] == ["rect", "line", "line"]
    assert {shape["line"].get("dash") for shape in shapes[1:]} == {"dot"}
    # From zero on: no line where there is no edge, and a place on a logarithmic axis.
    shapes = figure.published_band([0, 1e-5])
    assert [shape["type"] for shape in shapes] == ["rect", "line"] and shapes[0]["y0"] == FLOOR_S
    go.Figure(layout={"shapes": shapes})


def test_the_name_of_a_range_is_at_its_upper_end():
    assert figure.published_name("2009 <b>disk", 0.01, log=True)["y"] == pytest.approx(-2)
    linear = figure.published_name("2009 <b>disk", 0.01, log=False)
    assert linear["y"] == 0.01 and linear["text"] == "2009 bdisk"
