"""reports.comparison.slower_limit: slower than allowed, by the ends of the intervals alone."""

from __future__ import annotations

import pytest

from kit.core.errors import ConfigError
from kit.store.parts.comparison import ComparedRow, Comparison
from reports.comparison.compare import difference
from reports.comparison.slower_limit import gate, told
from reports.output.comparison_table import plain


def row(figure: str, ratio: float | None, interval: tuple[float, float] | None, **more: str) -> ComparedRow:
    told = "difference shown" if interval and not interval[0] <= 1 <= interval[1] else "no difference shown"
    values = {
        "phase": "write-slog", "layer": "nfs-server", "op": "write", "tier": "slog", "figure": figure,
        "a": 100.0, "b": 100.0 * (ratio or 1), "ratio": ratio, "interval": interval, "withheld": None,
        "words": told if interval else "no statement", **more,
    }  # fmt: skip
    return ComparedRow.model_validate(values)


def result(*rows: ComparedRow) -> Comparison:
    return Comparison(
        format=1, runs={"a": ("1",), "b": ("2",)}, level=0.975, unit="run", method="m", compared=len(rows),
        different=0, conclusion="c", rows=rows,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("interval", "slower", "left"),
    [((1.11, 1.3), 1, 0), ((1.09, 1.3), 0, 1), ((1.0, 1.1), 0, 0), ((0.5, 0.9), 0, 0), (None, 0, 1)],
)
def test_the_ends_decide(interval: tuple[float, float] | None, slower: int, left: int) -> None:
    found = gate(result(row("p50", 1.2, interval)), 0.1)
    assert (found.asked, len(found.slower), len(found.open)) == (1, slower, left)


def test_a_share_and_what_is_withheld_are_no_figures_unless_they_are_named() -> None:
    few = row("p99.9", None, None, words="withheld", withheld="too few")
    made = result(row("share", 2.0, (1.9, 2.1)), row("p99", 1.0, (0.99, 1.01)), few)
    assert gate(made, 0.1).asked == 1 and not gate(made, 0.1).open
    assert len(gate(made, 0.1, ["write-slog:slog:p99.9"]).open) == 1
    with pytest.raises(
        ConfigError, match="no figure write-slog:p50 in these runs; there are write-slog:slog:"
    ):
        gate(made, 0.1, ["write-slog:p50"])


@pytest.mark.parametrize(
    ("ratio", "interval", "said"),
    [
        (1.24, (1.2, 1.25), "B's synchronous writes (write-slog) take 24 % longer (20 to 25 %) at p50"),
        (0.5, (0.4, 0.8), "B's synchronous writes (write-slog) take 50 % less (20 to 60 %) at p50"),
    ],
)
def test_the_first_sentence_is_of_the_largest_difference_that_is_shown(
    ratio: float, interval: tuple[float, float], said: str
) -> None:
    clear = row("p50", ratio, interval)
    assert difference(clear) == said
    lines = list(plain(result(row("p99", 9.0, (0.9, 20.0)), clear), 200))
    assert lines[0] == f"{said}.", "what is not shown to differ is not said"
    assert not next(plain(result(row("p99", 9.0, (0.9, 20.0))), 200)).startswith("B's")


@pytest.mark.parametrize(("layer", "end"), [("nfs-server", "at p50"), ("client", "at p50, at the clients")])
def test_the_first_sentence_names_where_it_is_not_the_server(layer: str, end: str) -> None:
    assert difference(row("p50", 1.2, (1.1, 1.3), layer=layer)).endswith(end)


def test_the_counts_of_a_limit_add_up() -> None:
    assert told(0.1, slower=2, open_=18, of=21, shares=3) == (
        "24 figures: 2 slower by more than 10 %, 1 not slower, 18 cannot be told, "
        "3 shares of I/Os, which have no limit"
    )
    assert told(0.1, slower=0, open_=0, of=1) == "1 figure: 0 slower by more than 10 %, 1 not slower"


def test_what_is_not_shown_and_what_is_make_the_figures_of_the_conclusion() -> None:
    rows = [row("p50", 1.24, (1.2, 1.25)), row("p99", 1.0, (0.9, 1.1)), row("p99.9", 1.0, None)]
    rows[1] = rows[1].model_copy(update={"words": "no difference shown"})
    rows[2] = rows[2].model_copy(update={"withheld": "few", "words": "withheld"})
    assert [*plain(result(*rows), 200)][-1] == (
        "1 other figure and 1 that cannot be compared: --all lists them"
    )
