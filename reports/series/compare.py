"""Two series: B over A for each figure of each cell, and for each ratio to the base. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from kit.core.errors import ConfigError
from kit.store.parts.comparison import ComparedCell, ComparedRatio, ComparedSeries, Finding
from kit.store.series import Ratio, Series, SeriesCell
from kit.store.summary import Range
from reports.series.figures import figures_of
from reports.statistics.bootstrap import intervals
from reports.statistics.ratios import Figure, around, mean

FORMAT = 1
# Two figures are the same within this part.
LIMIT = 0.03
_UNITS = {"p50": "us", "p99": "us", "ios_per_s": "1/s"}


def compare_series(a: Series, b: Series) -> ComparedSeries:
    """Cells and ratios that both have. Raises ConfigError if they have no cell in common.

    `interval`: of B/A with 95 % confidence, over the rounds of both; None where a side has one round.
    `range`: what the number of I/Os alone leaves open. `finding`: "same" or "differs" where interval, or else
    range, lies wholly within or beyond LIMIT; "open" otherwise.
    """
    if a.id == b.id:
        raise ConfigError(f"{a.id} on both sides", "compare a series with another one")
    named = {(cell.phase, cell.name): cell for cell in b.cells if not cell.again}
    mine = {(cell.phase, cell.name): cell for cell in a.cells if not cell.again}
    rows = tuple(row for key, cell in mine.items() if key in named for row in _rows(cell, named[key]))
    if not rows:
        raise ConfigError(
            f"{a.id} and {b.id} have no cell in common",
            "compare series of the same workload, or of alike ones",
        )
    ratios = tuple(_ratios(a, b))
    return ComparedSeries(
        format=FORMAT,
        a=a.id,
        b=b.id,
        limit=LIMIT,
        conclusion=(_conclusion("Figures", rows), _conclusion("Ratios to the base", ratios)),
        rows=rows,
        ratios=ratios,
        only_a=tuple(" ".join(key) for key in mine if key not in named),
        only_b=tuple(sorted(" ".join(key) for key in named if key not in mine)),
    )


def _rows(a: SeriesCell, b: SeriesCell) -> Iterator[ComparedCell]:
    excluded = "; ".join(dict.fromkeys(filter(None, (a.excluded, b.excluded)))) or None
    sides = [[figures_of(run) for run in cell.runs] for cell in (a, b)]
    for key in dict.fromkeys(key for figures in sides[0] for key in figures):
        found = [[figures[key] for figures in side if key in figures] for side in sides]
        if not all(found):
            continue
        means = [mean(side) for side in found]
        of_both = means[1].minus(means[0])
        interval = _over_rounds(*found)
        layer, op, tier, figure = key
        yield ComparedCell(
            cell=a.name, at=a.at, phase=a.phase, layer=layer, op=op, tier=tier, figure=figure,
            unit=_UNITS[figure], a=means[0].value, b=means[1].value, ratio=of_both.value, interval=interval,
            range=of_both.range, finding=None if excluded else _finding(interval or of_both.range),
            excluded=excluded,
        )  # fmt: skip


def _over_rounds(a: Sequence[Figure], b: Sequence[Figure]) -> Range | None:
    logs = [np.array([each.log for each in side]).reshape(-1, 1) for side in (a, b)]
    known = intervals(*logs, *(np.zeros_like(values) for values in logs))
    return (known[0].low, known[0].high) if known else None


def _ratios(a: Series, b: Series) -> Iterator[ComparedRatio]:
    """The ratios to the base that both have."""
    theirs = {_identity(ratio): ratio for ratio in b.ratios}
    for ratio in a.ratios:
        other = theirs.get(_identity(ratio))
        if other is None:
            continue
        interval, known = (_of_both(ratio, other, name) for name in ("interval", "range"))
        yield ComparedRatio(
            axis=ratio.axis, **{"from": ratio.from_}, to=ratio.to, beside=ratio.beside, phase=ratio.phase,
            layer=ratio.layer, op=ratio.op, tier=ratio.tier, figure=ratio.figure, a=ratio.ratio,
            b=other.ratio, ratio=other.ratio / ratio.ratio, interval=interval, range=known,
            finding=_finding(interval or known),
        )  # fmt: skip


def _identity(ratio: Ratio) -> tuple[object, ...]:
    beside = tuple(sorted(ratio.beside.items()))
    return ratio.axis, ratio.to, beside, ratio.phase, ratio.layer, ratio.op, ratio.tier, ratio.figure


def _of_both(a: Ratio, b: Ratio, name: str) -> Range | None:
    """The range of b/a, from those of both."""
    known: list[Range | None] = [getattr(each, name) for each in (a, b)]
    reaches = [math.log(each[1] / each[0]) / 2 for each in known if each]
    return around(math.log(b.ratio / a.ratio), math.hypot(*reaches)) if len(reaches) == len(known) else None


def _finding(known: Range | None) -> Finding:
    low, high = known or (0.0, math.inf)
    if low > 1 + LIMIT or high < 1 / (1 + LIMIT):
        return "differs"
    return "same" if low >= 1 / (1 + LIMIT) and high <= 1 + LIMIT else "open"


def _conclusion(what: str, rows: Sequence[ComparedCell | ComparedRatio]) -> str:
    found = Counter(row.finding for row in rows)
    judged = sum(found.values()) - found[None]
    left_out = f" {found[None]} of excluded cells are not judged." if found[None] else ""
    return (
        f"{what}: {found['differs']} of {judged} differ by more than {LIMIT:.0%}, {found['same']} are "
        f"the same within {LIMIT:.0%}, {found['open']} are known less exactly than that.{left_out}"
    )
