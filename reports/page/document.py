"""What every page has: templates, colours, plotly.js, scripts, and the data that the scripts draw from."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from kit.core.sample_size import sample_needed
from kit.core.text import glued
from kit.store.labels import EMULATED, verdict_name
from kit.store.stored import Json
from reports import features
from reports.analysis import analysed
from reports.devices.stripes import Stripes
from reports.figures import encoding, palette
from reports.figures.figure import Figure
from reports.figures.runs import stripes as stripes_figure
from reports.figures.text import plotly_text
from reports.page import filters
from reports.page.plotly_bundle import plotly_js
from reports.page.script import script

# Those of a feature stand in its folder.
_TEMPLATES = (Path(__file__).parent / "templates", Path(features.__file__).parent)
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


@dataclass(frozen=True)
class Placed:
    """What a template needs of a figure. `pictures`: data URIs and names, for a page without scripts."""

    id: str
    title: str
    caption: str
    kind: str
    height: int
    pictures: Sequence[tuple[str, str]] = ()


class Figures:
    """The figures of a page, numbered, and the cells that they are drawn from.

    `scripts`: what the page's scripts read, deflated, by the id of its element.
    """

    def __init__(self) -> None:
        self.scripts: dict[str, Markup] = {}
        self._figures = itertools.count(1)
        self._cells: dict[int, tuple[str, Json]] = {}

    def add(self, figure: Figure, kind: str, pictures: Sequence[tuple[str, str]] = ()) -> Placed:
        """Keep a figure with its cells. `pictures`: what stands for it without scripts."""
        name = f"figure-{next(self._figures)}"
        self.scripts[f"{name}-data"] = _packed({**figure.spec, "cells": self._cells_of(figure)})
        return Placed(name, figure.title, figure.caption, kind, figure.layout["height"], pictures)

    def _cells_of(self, figure: Figure) -> str:
        """The name under which the figure finds its cells; figures of one layer have the same."""
        if figure.cells is None:
            return ""
        if id(figure.cells) not in self._cells:
            name = f"cells-{len(self._cells) + 1}"
            self._cells[id(figure.cells)] = name, figure.cells
            self.scripts[name] = _packed(figure.cells)
        return self._cells[id(figure.cells)][0]


@dataclass(frozen=True)
class StripesPart:
    """What stripes.html.j2 shows of a run with arrays of whole stripes."""

    found: Stripes
    figure: Placed

    @classmethod
    def of(cls, found: Stripes, collected: Figures) -> StripesPart:
        """With its figure; its sentences are among the notes."""
        return cls(found, collected.add(stripes_figure.by_number(found), "stripes"))


def _packed(value: Json) -> Markup:
    # The digits of base 85 have none of <, > and &: nothing can end the script.
    return Markup(encoding.packed(json.dumps(value).encode()))


def damage_refused(what: str, hint: str) -> ContextDecorator:
    """Raise ConfigError where drawing fails because `what` of a stored run is damaged."""
    return analysed.damage_refused(what, hint, jinja2.TemplateError)


def render(
    template: str,
    collected: Figures,
    stamp: Sequence[str] = (),
    entry: str = "main.js",
    run: str = "",
    **values: Any,
) -> str:
    """The page as HTML that needs nothing else. `stamp`: the lines above a figure that is saved.

    `entry`: the script of the page. `run`: what the names of saved files begin with.
    """
    quantiles = [{"name": name, "q": q, "needed": sample_needed(q)} for name, q in _QUANTILES.items()]
    stamp = [plotly_text(line, 200) for line in stamp]
    settings = {"themes": palette.FOR_SCRIPTS, "quantiles": quantiles, "stamp": stamp, "run": run}
    return _environment().get_template(template).render(
        palette=palette,
        stamped=" \N{MIDDLE DOT} ".join(stamp[:2]),
        settings=htmlsafe_json_dumps(settings),
        plotly=_plotly(),
        script=Markup(script(entry)),
        blocks=collected.scripts.items(),
        **values,
    )  # fmt: skip


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.ChainableUndefined,
    )
    environment.globals["EMULATED"] = EMULATED
    environment.filters.update({**filters.ALL, "glued": glued, "verdict_name": verdict_name})
    return environment


@functools.cache
def _plotly() -> str:
    """plotly.js, deflated: a third of its size."""
    return encoding.packed(plotly_js().encode())
