"""One page of a comparison: the table, and heat maps of A, of B and of their difference."""

from __future__ import annotations

from kit.store.parts.comparison import Comparison
from reports.comparison.comparability import differences
from reports.comparison.compare import (
    DIFFERENCE,
    SHOWN,
    answer,
    badge,
    csv,
    interval,
    largest,
    others,
    sides_words,
)
from reports.figures.runs import comparison
from reports.page import document


@document.damage_refused("manifest or latency of a run", "draw each run alone")
def render(result: Comparison, a: comparison.Side, b: comparison.Side) -> str:
    """The page as HTML that needs nothing else. Raises ConfigError if a part of a run is damaged."""
    collected = document.Figures()
    first = largest(result)
    drawn = comparison.figures(a, b, first.phase if first else "")
    figures = [collected.add(figure, "") for figure in drawn]
    # The row of the first sentence stands first.
    differ = sorted((row for row in result.rows if row.words == DIFFERENCE), key=lambda row: row != first)
    titles = dict.fromkeys(manifest.title or manifest.workload for manifest, _ in (*a, *b))
    sides = " against ".join(f"{letter}: {', '.join(map(str, result.runs[letter]))}" for letter in "ab")
    return document.render(
        "compare.html.j2",
        collected,
        [answer(result), sides],
        result=result,
        title=" / ".join(filter(None, titles)),
        answer=answer(result),
        badge=badge(differ, result.compared) if differ else result.conclusion,
        differ=differ,
        others=others(result),
        sides=sides_words(result),
        figures=figures,
        shown_words=SHOWN,
        interval=interval,
        across=differences(result.across),
        csv=csv(result),
    )
