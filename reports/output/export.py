"""The counts of a run for other programs: CSV, Parquet, OpenMetrics text. Pure; bytes out.

Foreign strings (phases, hosts) cannot act where they are read: in CSV no cell of text begins like a
formula, and neither CSV nor OpenMetrics has a control character that a terminal would obey. Parquet has
the strings as they are.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Literal

import polars as pl

from kit.core.errors import ConfigError
from kit.core.text import csv_text, safe_text
from kit.store.summary import Summary
from reports.output.openmetrics import RunTimes, coarser, openmetrics

Format = Literal["csv", "parquet", "openmetrics"]


def chosen(frame: pl.DataFrame, phases: Sequence[str], layers: Sequence[str]) -> pl.DataFrame:
    """The rows of these phases and layers; all where the list is empty.

    Raises ConfigError for unknown names.
    """
    for column, names in (("phase", phases), ("layer", layers)):
        stored = sorted(frame[column].unique().to_list())
        unknown = [name for name in names if name not in stored]
        if unknown:
            raise ConfigError(
                f"the run has no {column} {', '.join(map(safe_text, unknown))}",
                f"it has: {', '.join(map(safe_text, stored)) or 'no I/O at all'}",
            )
        if names:
            frame = frame.filter(pl.col(column).is_in(list(names)))
    return frame


def exported(
    frame: pl.DataFrame,
    kind: Format,
    summary: Summary | None,
    times: RunTimes | None = None,
    per_octave: int | None = None,
) -> bytes:
    """`frame` (columns of latency.parquet) in one of the formats.

    `summary`, if there is one, gives OpenMetrics the run's name and verdict; `times` and `per_octave` are
    those of `openmetrics` and `coarser`.
    """
    if kind == "openmetrics":
        # Two names that look alike once they are inert are one series.
        plain = _made_safe(frame, ("phase", "host"), safe_text)
        plain = coarser(plain, per_octave) if per_octave else plain
        return "".join(openmetrics(plain, summary, times)).encode()
    if kind == "csv":
        strings = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        made = _made_safe(frame, strings, csv_text)
        made.columns = _columns(made.columns)
        return made.write_csv().encode()
    target = io.BytesIO()
    frame.write_parquet(target)
    return target.getvalue()


def _columns(names: Sequence[str]) -> list[str]:
    """Names of columns as cells of CSV; what is alike then has a number."""
    made: list[str] = []
    for name in map(csv_text, names):
        alike = sum(each == name or each.startswith(f"{name} #") for each in made)
        made.append(f"{name} #{alike + 1}" if alike else name)
    return made


def _made_safe(frame: pl.DataFrame, columns: Sequence[str], safe: Callable[[str], str]) -> pl.DataFrame:
    """`frame` with `safe` applied to the text of `columns`: once per name, as there are many rows."""
    return frame.with_columns(
        pl.col(name).replace_strict(
            {v: safe(v) for v in frame[name].drop_nulls().unique().to_list()}, default=None
        )
        for name in columns
        if frame.height
    )
