import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.figures import still_figure


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.9, 11_000, ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]),
        (100, 12_000, ["100 µs", "1 ms", "10 ms"]),
        (90, 400, ["120 µs", "180 µs", "240 µs"]),
        (4_000, 6_600, ["4 ms", "4.5 ms", "5 ms"]),
    ],
)
def test_ticks_of_a_logarithmic_axis(low, high, words):
    texts = [text for _, text in still_figure.ticks(low, high)]
    assert texts[: len(words)] == words


def test_what_json_has_not_is_null():
    figure = still_figure.StillFigure("t", [{"x": [float("inf"), float("nan"), 1.0]}], {})
    assert figure.spec["figure"]["data"] == [{"x": [None, None, 1.0]}]


@given(st.floats(0.01, 1e6), st.floats(1.5, 1e6))
def test_every_logarithmic_axis_has_three_to_nine_ticks(low, ratio):
    ticks = still_figure.ticks(low, low * ratio)
    assert 3 <= len(ticks) <= 9 or ratio > 1e4
    assert len({text for _, text in ticks}) == len(ticks)
    assert all(low <= v <= low * ratio for v, _ in ticks)
