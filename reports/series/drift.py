"""The base measured first and last: what moved between makes the cells in between unknown. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from kit.core.units import format_factor, format_percent
from kit.store.format import AGAIN
from kit.store.series import CellRow, Drift, Series, SeriesCell
from reports.statistics.ratios import Realisation, ratio

# Of an op's I/Os: a tier that answered fewer does not have the median's place.
_PART = 0.05


def drift_of(series: Series, cells: Sequence[SeriesCell]) -> Iterator[Drift]:
    """The base first and last. Where a build repeats the base, the first is that of the first build.

    `ok`: whether the medians differ by at most `drift_max` here; None where their ranges leave that open.
    """
    most = 1 + series.drift_max
    for last in cells:
        first = _first_of(last, cells) if last.again else None
        if first is None:
            continue
        for of_last in last.runs:
            of_first = next((run for run in first.runs if run.round == of_last.round), None)
            for before, after in _pairs(of_first.rows if of_first else (), of_last.rows):
                assert before.p50_us and after.p50_us, "rows without a median are no pair"
                medians = [Realisation.of(before.p50_us, before.p50_range_us)]
                again = [Realisation.of(after.p50_us, after.p50_range_us)]
                yield Drift(
                    build=last.build, phase=last.phase, layer=after.layer, op=after.op, tier=after.tier,
                    round=of_last.round, ratio=after.p50_us / before.p50_us,
                    ok=ratio(medians, again).inside(1 / most, most, of_this_run=True),
                )  # fmt: skip


def _first_of(last: SeriesCell, cells: Sequence[SeriesCell]) -> SeriesCell | None:
    """What `last` repeats: the same values, of its own build or of the first that has them."""
    same = [cell for cell in cells if not cell.again and cell.at == last.at and cell.phase == last.phase]
    return next((cell for cell in same if cell.build == last.build), same[0] if same else None)


def _pairs(a: Sequence[CellRow], b: Sequence[CellRow]) -> Iterator[tuple[CellRow, CellRow]]:
    """Rows of the same layer, op and tier that both have a median.

    Not the `all` of an op that several tiers answered: its median jumps from one tier to another when their
    shares change by a little.
    """
    named = {(row.layer, row.op, row.tier): row for row in a}
    mixed = _of_several_tiers(a) | _of_several_tiers(b)
    for row in b:
        other = named.get((row.layer, row.op, row.tier))
        if other is not None and other.p50_us and row.p50_us and not (row.tier == "all" and row.op in mixed):
            yield other, row


def _of_several_tiers(rows: Sequence[CellRow]) -> set[str]:
    """The ops of which two tiers or more answered a part at the server."""
    tiers = Counter(row.op for row in rows if row.tier != "all" and row.share >= _PART)
    return {op for op, number in tiers.items() if number > 1}


def drifted(cell: SeriesCell, drift: Sequence[Drift]) -> SeriesCell:
    """Unknown where the base drifted around it: in its own build, or over the builds."""
    bad = [
        each
        for each in drift
        if each.ok is False and each.phase == cell.phase and each.build in (cell.build, AGAIN)
    ]
    if not bad or not cell.runs:
        return cell
    worst = max(bad, key=lambda each: abs(math.log(each.ratio)))
    reason = (
        f"The base drifted around it, or scatters as much: its {worst.op}/{worst.tier} p50 was "
        f"{format_factor(worst.ratio)} the first when it was measured last."
    )
    rounds = {each.round for each in bad}
    runs = [
        run.model_copy(update={"verdict": "unknown", "reasons": (*run.reasons, reason), "known": False})
        if run.round in rounds
        else run
        for run in cell.runs
    ]
    return cell.model_copy(update={"runs": tuple(runs), "verdict": "unknown"})


def open_drift(series: Series, drift: Sequence[Drift]) -> Iterator[str]:
    """What is said of a base of which it cannot be told whether it moved."""
    left = list(dict.fromkeys(f"{each.phase} {each.op}/{each.tier}" for each in drift if each.ok is None))
    if left:
        yield (
            f"Whether the base drifted by more than {format_percent(series.drift_max)} cannot be told of "
            f"{', '.join(left)}: their p50 is known less exactly than that. Longer phases tell it."
        )
