"""What figures of the same runs lend each other: freedom, where their variances are alike."""

from __future__ import annotations

import numpy as np
import pytest

from reports.statistics.ratios import shared


@pytest.mark.parametrize("freedom", [1, 4, 9])
def test_variances_of_the_same_scatter_lend_freedom_and_keep_their_level(freedom: int) -> None:
    random = np.random.default_rng(1)
    used, found = shared((random.chisquare(freedom, 400) / freedom).tolist(), freedom)
    assert found > 1.7 * freedom and min(used) == pytest.approx(0.5, abs=0.1)


def test_alike_figures_lend_as_much_as_the_runs_have() -> None:
    used, freedom = shared([1.0, 1.1, 0.9, 1.0, 0.1], 4)
    assert freedom == 8 and used[-1] > 0.3 and used[1] >= 1.1
    assert shared([1.0, 0.0, 0.0, 1.0], 4)[1] < 5, "variances that are not alike lend next to nothing"


def test_a_figure_that_scatters_more_keeps_its_variance() -> None:
    used, _ = shared([1.0, 1.1, 0.9, 1.0, 25.0], 4)
    assert used[-1] == 25


def test_few_figures_lend_nothing() -> None:
    assert shared([1.0, 2.0, 3.0], 4) == ([1.0, 2.0, 3.0], 4)
