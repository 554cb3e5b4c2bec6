"""The ratio of two figures: what decides, and what never does."""

from __future__ import annotations

import math

import pytest

from reports.statistics.ratios import RatioRange, Realisation, along, is_too_wide, mean, paired, ratio, ratios


def figures(*values: float, reach: float | None = 0.01) -> list[Realisation]:
    return [Realisation(math.log(value), reach) for value in values]


@pytest.mark.parametrize(
    ("found", "words", "inside"),
    [
        (ratio(figures(1), figures(2)), "within this run: 1.97 to 2.03", None),
        (ratio(figures(1), figures(2, 2.02)), "within this run: 1.99 to 2.03", None),
        (ratio(figures(1, 1.01, 0.99), figures(2, 2.02, 1.98)), "95 %, over 3 runs: 1.93 to 2.07", False),
        (paired(figures(2)), "within this run: 1.98 to 2.02", None),
        (paired(figures(2, 2.01, 2.02)), "95 %, over 3 runs: 1.99 to 2.03", False),
        (RatioRange(0.0, None, (1, 1)), "range not known", None),
        (RatioRange(0.0, 7.0, (1, 3)), "within this run: open by more than ten times", None),
        (
            RatioRange(0.0, 7.0, (2, 2)),
            "not known over 2 runs: as they scatter, about 8 on each side would tell",
            None,
        ),
        (
            RatioRange(0.0, 700.0, (2, 3)),
            "not known over 2 and 3 runs: as they scatter, more than 200 on each side would tell",
            None,
        ),
    ],
)
def test_one_realisation_decides_nothing(found: RatioRange, words: str, inside: bool | None) -> None:
    assert (found.words(), found.inside(0.9, 1.1)) == (words, inside)
    wide = found.range is None or is_too_wide(found.range)
    assert found.inside(0.9, 1.1, of_this_run=True) is (None if wide else False)


def test_realisations_that_agree_are_known_no_better_than_their_ios_tell() -> None:
    found = ratio(figures(1, 1, reach=0.02), figures(1.04, 1.04, reach=0.02))
    assert found.reach == pytest.approx(0.02, rel=0.01)
    assert found.inside(1, 1) is False, "1.04 is more than their I/Os leave open"


@pytest.mark.parametrize(("scatter", "number"), [((0.1, 0.001), (3, 10)), ((0.001, 0.1), (10, 3))])
def test_the_smaller_side_has_the_freedom(scatter: tuple[float, float], number: tuple[int, int]) -> None:
    sides = [
        figures(*(math.exp(spread * (-1) ** n) for n in range(count)), reach=None)
        for spread, count in zip(scatter, number, strict=True)
    ]
    found = ratio(sides[0], sides[1])
    error = math.sqrt(sum(0.01 * (1 - 1 / 9) for _ in range(3)) / 2 / 3)
    assert found.reach == pytest.approx(4.303 * error, rel=0.01)


def test_a_line_through_places_has_their_scatter() -> None:
    places = [float(n) for n in range(10)]
    falls = [Realisation(-0.02 * n + 0.001 * (-1) ** n, None) for n in range(10)]
    found = along(places, falls)
    assert found.log == pytest.approx(-0.18, abs=0.002) and found.inside(0.8, 0.9)
    assert along(places, falls[::-1]).value == pytest.approx(1 / found.value, rel=0.01)
    with pytest.raises(ValueError):
        along([0, 1], falls[:2])
    with pytest.raises(ValueError):
        mean([])


def test_figures_lend_each_other_scatter_where_they_are_over_as_many_runs() -> None:
    agree, scatter = figures(1, 1, 1, reach=0.001), figures(0.97, 1, 1.03, reach=0.001)
    few = [[agree, agree[:2]]] * 4
    found = ratios([[agree, agree], *[[scatter, scatter]] * 9, *few], 0.05)
    alone = ratio(agree, agree)
    assert found[0].reach and alone.reach and found[0].reach > 3 * alone.reach
    assert {each.over for each in found} == {(3, 3), (3, 2)}
    assert found[-1].reach == pytest.approx(ratio(*few[0]).reach), "nothing is lent to those over fewer runs"
