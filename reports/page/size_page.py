"""The page of `hsp size`: what a larger cache would answer, its curves, a row for each size."""

from __future__ import annotations

from collections.abc import Sequence

from reports.figures import size as figures
from reports.page import document
from reports.size.curve import Sizing
from reports.size.words import HEAD, groups, headline, is_known, notes


def render(sizing: Sizing, name: str, more: Sequence[str], *, emulated: bool = False) -> str:
    """The page as HTML that needs nothing else. `name`: of the run or the file; `more`: further notes."""
    collected = document.Figures()
    drawn = [collected.add(each, "lines") for each in figures.figures(sizing)]
    said = headline(sizing)
    return document.render(
        "size.html.j2",
        collected,
        [document.plain(said), document.plain(name)],
        said=said,
        known=is_known(sizing),
        name=name,
        sizing=sizing,
        figures=drawn,
        head=HEAD,
        groups=list(groups(sizing)),
        notes=[*notes(sizing), *more],
        emulated=emulated,
    )
