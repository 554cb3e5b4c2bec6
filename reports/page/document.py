"""What every page has: templates, colours, plotly.js, scripts, and the data that the scripts draw from."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from kit.core.errors import ConfigError
from kit.core.sample_size import sample_needed
from kit.store.stored import Json
from reports.figures import encoding, palette
from reports.figures.still_figure import StillFigure
from reports.page import filters
from reports.page.script import script
from reports.statistics.quantiles import NARROW

_TEMPLATES = Path(__file__).parent / "templates"
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


class Figures:
    """The figures of a page, numbered, and the cells that they are drawn from.

    `scripts`: what the page's scripts read, by the id of its element. htmlsafe_json_dumps writes every <, >
    and & as \\u00..: nothing can end the script.
    """

    def __init__(self) -> None:
        self.scripts: dict[str, Markup] = {}
        self._cells, self._figures = itertools.count(1), itertools.count(1)

    def cells(self, block: Json) -> str:
        """Keep a block of cells (reports.figures.heat_map); the name under which figures find it."""
        name = f"cells-{next(self._cells)}"
        self.scripts[name] = htmlsafe_json_dumps(block)
        return name

    def add(self, spec: Json, caption: str, kind: str) -> Json:
        """Keep a figure; what a template needs of it. `spec` is for still.js or, with cells, heat_map.js."""
        name = f"figure-{next(self._figures)}"
        self.scripts[f"{name}-data"] = htmlsafe_json_dumps(spec)
        height = spec["figure"]["layout"]["height"] if "figure" in spec else spec["height"]
        return {"id": name, "caption": caption, "kind": kind, "height": height, "title": spec["title"]}

    def add_still(self, figure: StillFigure, kind: str = "") -> Json:
        """Keep a figure that was made whole, with its cells."""
        spec = {**figure.spec, "blocks": [self.cells(block) for block in figure.blocks]}
        return self.add(spec, figure.caption, kind)


@contextmanager
def damage_refused(what: str, hint: str) -> Iterator[None]:
    """Raise ConfigError where drawing fails because `what` of a stored run is damaged."""
    try:
        yield
    except (
        LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
        jinja2.TemplateError, pl.exceptions.PolarsError,
    ) as error:  # fmt: skip
        raise ConfigError(f"{what} is damaged ({type(error).__name__}: {error})", hint) from error


def render(template: str, collected: Figures, **values: Any) -> str:
    """The page as HTML that needs nothing else."""
    quantiles = [{"name": name, "q": q, "needed": sample_needed(q)} for name, q in _QUANTILES.items()]
    settings = {"palette": palette.FOR_SCRIPTS, "quantiles": quantiles, "narrow": NARROW}
    return _environment().get_template(template).render(
        palette=palette,
        settings=htmlsafe_json_dumps(settings),
        plotly=_plotly(),
        script=Markup(script()),
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
    environment.filters.update({f.__name__: f for f in filters.ALL})
    return environment


@functools.cache
def _plotly() -> str:
    """plotly.js, deflated: two fifths of its size."""
    return encoding.packed(get_plotlyjs().encode())
