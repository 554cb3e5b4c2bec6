import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.figures.text import plotly_text, round_up


@given(st.floats(0.01, 1e9))
def test_round_up(value):
    rounded = round_up(value)
    assert value <= rounded <= 1.5001 * value
    # At most two digits: 1.2, 1.5, 2.5.
    assert len(f"{rounded:.6e}".split("e")[0].rstrip("0").replace(".", "")) <= 2


@pytest.mark.parametrize(("value", "rounded"), [(1, 1), (1.01, 1.2), (9.0, 10), (260, 300), (0, 1e-9)])
def test_round_numbers(value, rounded):
    assert round_up(value) == pytest.approx(rounded)


@given(st.text())
def test_text_for_plotly_has_no_markup(text):
    assert not set(plotly_text(text)) & set("<>&\"'{}\\$`")


@pytest.mark.parametrize("limit", [40, 120])
def test_text_for_plotly_has_an_end(limit):
    assert len(plotly_text("x" * 10_000, limit)) == limit
    assert plotly_text("x" * limit, limit) == "x" * limit
