"""The counts of a run for other programs: CSV, Parquet, OpenMetrics text. Pure; bytes out.

Foreign strings (phases, hosts) cannot act where they are read: in CSV no cell of text begins like a
formula, and neither CSV nor OpenMetrics has a control character that a terminal would obey. Parquet has
the strings as they are.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import polars as pl

from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.store.summary import Summary

Format = Literal["csv", "parquet", "openmetrics"]
_LABELS = ("phase", "layer", "host", "op", "tier")
# What spreadsheets take for the beginning of a formula, wide forms included, also after blanks.
_FORMULA = re.compile("^(?:[\\t\\r\\n]|\\s*[=+\\-@\\uff1d\\uff0b\\uff0d\\uff20])")


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


def exported(frame: pl.DataFrame, kind: Format, summary: Summary | None) -> bytes:
    """`frame` (columns of latency.parquet) in one of the formats.

    `summary`, if there is one, gives OpenMetrics the run's name and verdict.
    """
    if kind == "openmetrics":
        return "".join(_openmetrics(frame, summary)).encode()
    if kind == "csv":
        strings = [name for name, dtype in frame.schema.items() if dtype == pl.String]
        return _made_safe(frame, strings, csv_text).write_csv().encode()
    target = io.BytesIO()
    frame.write_parquet(target)
    return target.getvalue()


def csv_text(text: str) -> str:
    """`text` as a cell of CSV that is neither a formula nor obeyed by a terminal."""
    return ("'" if _FORMULA.match(text) else "") + safe_text(text)


def _made_safe(frame: pl.DataFrame, columns: Sequence[str], safe: Callable[[str], str]) -> pl.DataFrame:
    """`frame` with `safe` applied to the text of `columns`: once per name, as there are many rows."""
    return frame.with_columns(
        pl.col(name).replace_strict(
            {v: safe(v) for v in frame[name].drop_nulls().unique().to_list()}, default=None
        )
        for name in columns
        if frame.height
    )


def _openmetrics(frame: pl.DataFrame, summary: Summary | None) -> Iterator[str]:
    """Text of the OpenMetrics 1.0 specification: a cumulative histogram per phase, layer, host, op and tier.

    `le` is the upper edge of a bin in seconds; edges without I/O between are left out. There is no _sum,
    and therefore no _count: bins do not know the sum of what is in them.
    """
    values = {name: getattr(summary, name, None) for name in ("run", "workload", "verdict")}
    run = {name: value for name, value in values.items() if value}
    if run:
        yield "# TYPE hsp_run info\n# HELP hsp_run The run that the histograms are of.\n"
        yield f"hsp_run_info{_labelled(run)} 1\n"
    yield "# TYPE hsp_latency_seconds histogram\n# UNIT hsp_latency_seconds seconds\n"
    yield "# HELP hsp_latency_seconds Latency of I/Os over the whole phase.\n"
    # Two names that look alike once they are inert are one series.
    plain = _made_safe(frame, ("phase", "host"), safe_text)
    summed = plain.group_by(*_LABELS, "hi_ns").agg(pl.col("count").sum()).sort(*_LABELS, "hi_ns")
    for key, rows in summed.group_by(*_LABELS, maintain_order=True):
        labels = dict(zip(_LABELS, map(str, key), strict=True))
        total = 0
        for hi_ns, count in rows.select("hi_ns", "count").iter_rows():
            total += count
            if count:
                yield f"hsp_latency_seconds_bucket{_labelled({**labels, 'le': _seconds(hi_ns)})} {total}\n"
        yield f"hsp_latency_seconds_bucket{_labelled({**labels, 'le': '+Inf'})} {total}\n"
    yield "# EOF\n"


def _seconds(value_ns: int) -> str:
    """Nanoseconds as seconds, exact; with a point, as the specification writes floats."""
    whole, rest = divmod(value_ns, 10**9)
    return f"{whole}.{f'{rest:09d}'.rstrip('0') or '0'}"


def _labelled(labels: dict[str, str]) -> str:
    pairs = []
    for name, value in labels.items():
        escaped = safe_text(value).replace("\\", "\\\\").replace('"', '\\"')
        pairs.append(f'{name}="{escaped}"')
    return "{" + ",".join(pairs) + "}"
