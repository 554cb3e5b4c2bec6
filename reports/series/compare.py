"""Two series: B over A for each figure of each cell, and for each ratio to the base. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kit.core.errors import ConfigError
from kit.core.text import some
from kit.store.format import FORMAT
from kit.store.parts.comparison import ComparedCell, ComparedRatio, ComparedSeries, Finding
from kit.store.series import Series, SeriesCell
from reports.comparison.in_turn import not_in_turn
from reports.series.figures import Key, figures_of
from reports.series.ratios import named, rounds_of
from reports.statistics.ratios import ALPHA_TOGETHER, Realisation, mean, ratios

# Two figures are the same within this part.
LIMIT = 0.03
ONE_ROUND = "not known: one round"
_FINDINGS: dict[bool | None, Finding] = {True: "same", False: "differs", None: "open"}
_MOST_AXES = 3
_UNITS = {"p50": "us", "p99": "us", "ios_per_s": "1/s"}


def compare_series(a: Series, b: Series) -> ComparedSeries:
    """Cells and ratios that both have. Raises ConfigError if they have no cell in common.

    `interval`: of B/A over the rounds of both, all intervals together with 97.5 % confidence; None where a
    side has one round. `range`: what the I/Os leave open within the rounds. `finding`: "same" or "differs"
    where the interval lies wholly within or beyond LIMIT, "open" otherwise; None without an interval.
    """
    if a.id == b.id:
        raise ConfigError(f"{a.id} on both sides", "compare a series with another one")
    mine, other = _cells_by_name(a), _cells_by_name(b)
    both = [(cell, other[key]) for key, cell in mine.items() if key in other]
    figures = [(*cells, key, found) for cells in both for key, found in _figures(*cells)]
    if not figures:
        raise ConfigError(
            f"{a.id} and {b.id} have no cell in common",
            "compare series of the same workload, or of alike ones",
        )
    theirs = rounds_of(b.cells)
    pairs = {key: (found, theirs[key]) for key, found in rounds_of(a.cells).items() if key in theirs}
    alpha = ALPHA_TOGETHER / (len(figures) + len(pairs))
    said = _said([sides for *_, sides in figures], alpha)
    rows = tuple(_cell(*of[:3], found) for of, found in zip(figures, said, strict=True))
    said = _said(list(pairs.values()), alpha)
    to_base = tuple(
        ComparedRatio.model_validate({**named(a, key), **found})
        for key, found in zip(pairs, said, strict=True)
    )
    conclusion = [_conclusion("Figures", rows), _conclusion(_to_base(a), to_base)]
    caveat = not_in_turn([a.started_utc], [b.started_utc])
    if caveat and any(row.finding for row in (*rows, *to_base)):
        conclusion.append(caveat)
    return ComparedSeries(
        format=FORMAT, a=a.id, b=b.id, limit=LIMIT, rows=rows, ratios=to_base,
        conclusion=tuple(conclusion),
        only_a=tuple(" ".join(key) for key in mine if key not in other),
        only_b=tuple(sorted(map(" ".join, other.keys() - mine.keys()))),
        emulated=a.emulated or b.emulated,
    )  # fmt: skip


def _cells_by_name(series: Series) -> dict[tuple[str, str], SeriesCell]:
    return {(cell.phase, cell.name): cell for cell in series.cells if not cell.again}


_Sides = tuple[list[Realisation], list[Realisation]]


def _figures(a: SeriesCell, b: SeriesCell) -> Iterator[tuple[Key, _Sides]]:
    """The figures that both cells have, by round."""
    first, second = ([figures_of(run) for run in cell.runs] for cell in (a, b))
    for key in dict.fromkeys(key for figures in first for key in figures):
        found = [[figures[key] for figures in side if key in figures] for side in (first, second)]
        if all(found):
            yield key, (found[0], found[1])


def _cell(a: SeriesCell, b: SeriesCell, key: Key, said: dict[str, Any]) -> ComparedCell:
    excluded = "; ".join(dict.fromkeys(filter(None, (a.excluded, b.excluded)))) or None
    layer, op, tier, figure = key
    return ComparedCell(
        cell=a.name, at=a.at, phase=a.phase, layer=layer, op=op, tier=tier, figure=figure,
        unit=_UNITS[figure], excluded=excluded, **{**said, **({"finding": None} if excluded else {})},
    )  # fmt: skip


def _said(figures: Sequence[_Sides], alpha: float) -> Iterator[dict[str, Any]]:
    """Of each both sides, their ratio, and what it says."""
    for sides, known in zip(figures, ratios(figures, alpha), strict=True):
        a, b = map(mean, sides)
        inside = known.inside(1 / (1 + LIMIT), 1 + LIMIT)
        yield {
            "a": a.value, "b": b.value, "ratio": known.value, "range": b.minus(a).range,
            "interval": known.range if known.decides else None,
            "finding": _FINDINGS[inside] if known.decides else None,
        }  # fmt: skip


def _to_base(series: Series) -> str:
    """What the ratios along the axes are ratios to."""
    base = [f"{axis.name} {axis.values[0]}" for axis in series.axes]
    return f"Ratios to the base ({some(base, _MOST_AXES)})" if base else "Ratios to the base"


def _conclusion(what: str, rows: Sequence[ComparedCell | ComparedRatio]) -> str:
    found = Counter(row.finding for row in rows if row.finding)
    excluded = sum(isinstance(row, ComparedCell) and row.excluded is not None for row in rows)
    single = len(rows) - excluded - found.total()
    parts = []
    if found:
        undecided = f", {found['open']} are undecided" if found["open"] else ""
        parts.append(
            f"{found['differs']} of {found.total()} differ by more than {100 * LIMIT:.0f} %, {found['same']} "
            f"do not{undecided}."
        )
    if single:
        parts.append(f"{single} are {ONE_ROUND} on a side, which says nothing of the next (--repeat).")
    if excluded:
        parts.append(f"{excluded} of excluded cells are not judged.")
    return f"{what}: {' '.join(parts) or 'none.'}"
