"""The page of `hsp size`: what a larger cache would answer, its curves, a row for each size."""

from __future__ import annotations

from kit.store.printed.sizing import SizeResult
from reports.figures import size as figures
from reports.page import document
from reports.size.words import tables


def render(result: SizeResult) -> str:
    """The page as HTML that needs nothing else."""
    collected = document.Figures()
    drawn = [collected.add(each, "lines") for each in figures.figures(result)]
    return document.render(
        "size.html.j2",
        collected,
        [result.headline, result.name],
        result=result,
        figures=drawn,
        tables=list(tables(result)),
        emulated=result.emulated,
    )
