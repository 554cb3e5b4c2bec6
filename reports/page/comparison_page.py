"""One page of a comparison: the table, and heat maps of A, of B and of their difference."""

from __future__ import annotations

from typing import Any

import polars as pl

from kit.core.errors import ConfigError
from reports.figures import comparison
from reports.figures.comparison import Side
from reports.page import document

Json = dict[str, Any]


def render(result: Json, a: Side, b: Side) -> str:
    """The page as HTML that needs nothing else. Raises ConfigError if a part of a run is damaged."""
    try:
        collected = document.Figures()
        figures = [collected.add_still(figure) for figure in comparison.figures(a, b)]
        return document.render("compare.html.j2", collected, result=result, figures=figures)
    except (
        LookupError, TypeError, ValueError, AttributeError, ArithmeticError, pl.exceptions.PolarsError,
    ) as error:  # fmt: skip
        raise ConfigError(
            f"manifest or latency of a run is damaged ({type(error).__name__}: {error})",
            "draw each run alone",
        ) from error
