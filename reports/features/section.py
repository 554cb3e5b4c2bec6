"""A part of a run's page that a feature has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reports.figures.figure import Figure


class Section(NamedTuple):
    """`anchor`, `title`: in the page's list of parts. `template`: in the folder of the feature.

    The template finds `values` in `section`, and `figures` as they are placed on the page. The first figure
    of all sections stands below the headline.
    """

    anchor: str
    title: str
    template: str
    values: Mapping[str, Any] = {}
    figures: Sequence[Figure] = ()
