"""Reads a second of each value of an axis that gives SSDs another role, and which tiers answer them."""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.text import commas, listed
from kit.core.units import format_factor, format_percent
from kit.store.labels import tier_name
from kit.store.series import Ratio, Series, SeriesAxis, SeriesCell
from reports.series.view import cells_of, merged_rows, rate_of
from reports.statistics.ratios import is_too_wide

# The keys that give devices to a pool as what answers reads.
_ROLES = frozenset({"use.cache", "use.special"})
_LEAST_SHARE = 0.005
# Cells with value and reads a second.
Cells = list[tuple[SeriesCell, str, float]]


def answers(series: Series) -> Iterator[str]:
    """Of each axis that sets both roles, and each phase that reads: the fastest value first."""
    for axis in series.axes:
        found = [*_known(series, axis)]
        for phase, known in found:
            said = [f"{value} {commas(rate)}" for _, value, rate in known]
            of_phase = f" ({phase})" if len(found) > 1 else ""
            yield f"Reads a second by {axis.name}{of_phase}: {listed(said)}{_ratio(series, axis, known)}."


def answering_sentences(series: Series, axis: SeriesAxis) -> Iterator[str]:
    """The same, with the tiers that answer."""
    for _, known in _known(series, axis):
        parts = [f"{value} {commas(rate)}{_shares(cell)}" for cell, value, rate in known]
        yield f"Reads a second: {'; '.join(parts)}."


def _known(series: Series, axis: SeriesAxis) -> Iterator[tuple[str, Cells]]:
    """By phase: the cells that are known."""
    if not set(axis.keys) >= _ROLES:
        return
    for phase, cells in cells_of(series, axis):
        known = [(cell, value, rate) for cell, value in cells if (rate := _reads_per_s(cell))]
        if len(known) > 1:
            yield phase, sorted(known, key=lambda each: -each[2])


def _reads_per_s(cell: SeriesCell) -> float | None:
    """None of a cell that is kept out, or that does not only read."""
    reads_only = {row.op for row in merged_rows(cell)} == {"read"}
    return rate_of(cell) if reads_only and not cell.excluded else None


def _ratio(series: Series, axis: SeriesAxis, known: Cells) -> str:
    """The fastest value to the base, over rounds; of one round nothing is known about the next."""
    (cell, best, _), base = known[0], axis.values[0]
    rounds = min(len(each.runs) for each, _, _ in known)
    ratio = next((each for each in series.ratios if _is_rate(each, cell, axis.name)), None)
    if rounds < 2:
        return " (one round; another may differ)"
    if best == base or ratio is None:
        return f" (means of {rounds} rounds)"
    if ratio.interval is None or is_too_wide(ratio.interval):
        return f" (means of {rounds} rounds, too few to know the ratios)"
    low, high = (format_factor(each) for each in ratio.interval)
    return f"; with {best} {format_factor(ratio.ratio)} as many as with {base} (95 %: {low} to {high})"


def _shares(cell: SeriesCell) -> str:
    rows = sorted(merged_rows(cell), key=lambda row: -row.share)
    shares = [(row.tier, row.share) for row in rows if row.share >= _LEAST_SHARE]
    return f" ({listed([f'{tier_name(tier)} {format_percent(share)}' for tier, share in shares])})"


def _is_rate(ratio: Ratio, cell: SeriesCell, axis: str) -> bool:
    same = ratio.axis == axis and ratio.to == cell.at.get(axis) and not ratio.beside
    return same and ratio.phase == cell.phase and ratio.figure == "ios_per_s"
