from hypothesis import given
from hypothesis import strategies as st

from reports.figures.text import plotly_text, round_up


@given(st.floats(0.01, 1e9))
def test_round_up(value):
    rounded = round_up(value)
    assert value <= rounded <= 2.0001 * value
    assert len(f"{rounded:e}".rstrip("0").split("e")[0].replace(".", "").rstrip("0")) == 1


@given(st.text())
def test_text_for_plotly_has_no_markup(text):
    assert not set(plotly_text(text)) & set("<>&\"'{}\\$`")
