"""One page of two series: both on one figure for each axis that they share, and the table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kit.store.parts.comparison import ComparedCell, ComparedSeries
from kit.store.series import Series
from reports.comparison.comparability import differences, side_names
from reports.comparison.compare import badge, difference
from reports.figures.runs.series import compared
from reports.page import document


@document.damage_refused("series.json of a series", "draw each series alone")
def render(result: ComparedSeries, a: Series, b: Series, across: Mapping[str, tuple[Any, Any]]) -> str:
    """The page as HTML that needs nothing else. `across`: settings that differ, key -> (A's, B's)."""
    names = dict(zip(("A", "B"), side_names(across), strict=True))
    judged = [row for row in result.rows if row.finding]
    differ = [row for row in judged if row.finding == "differs"]
    collected = document.Figures()
    figures = [collected.add(figure, "series") for figure in compared(result, a)]
    return document.render(
        "compare-series.html.j2",
        collected,
        [*names.values(), f"A: {a.id}, B: {b.id}"],
        result=result,
        answer=_answer(result, differ, names),
        badge=badge(differ, len(judged)) if judged else "",
        names=names,
        titles=list(dict.fromkeys((a.title, b.title))),
        figures=figures,
        across=differences(across),
    )


def _answer(result: ComparedSeries, differ: Sequence[ComparedCell], names: Mapping[str, str]) -> str:
    """Direction and size of the largest difference, of a median if there is one, and where it is."""
    if not differ:
        return result.conclusion[0]
    most = max(differ, key=lambda row: (row.figure == "p50", abs(math.log(row.ratio))))
    where = ", ".join(f"{name} {value}" for name, value in most.at.items()) or "base"
    sides = ", ".join(name for letter, name in names.items() if name != letter)
    return f"{difference(most)}, at {where}" + (f" ({sides})" if sides else "")
