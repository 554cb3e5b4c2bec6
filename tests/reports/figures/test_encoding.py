"""reports.figures.encoding: arrays as Plotly itself writes them."""

import json

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.figures import encoding

WHOLE = st.lists(st.integers(-(2**40), 2**40) | st.integers(-200, 200), max_size=5)


@given(WHOLE)
def test_whole_numbers_are_as_narrow_as_they_can_be(values):
    array = np.array(values, dtype=np.int64)
    theirs = json.loads(go.Figure(go.Scatter(x=array)).to_json())["data"][0].get("x", [])
    assert encoding.typed(array) == theirs


@pytest.mark.parametrize("array", [np.array([1.5, np.nan]), np.array([[1.0, 2.0, 3.0]]), np.zeros((0, 2))])
def test_other_numbers(array):
    theirs = json.loads(go.Figure(go.Heatmap(z=array)).to_json())["data"][0].get("z", [])
    assert encoding.typed(array) == theirs


def test_what_json_has_not_is_null():
    assert encoding.strict({"a": [float("inf"), float("nan"), 1.0]}) == {"a": [None, None, 1.0]}
