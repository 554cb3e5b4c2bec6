"""Bands held against what the kernel said, and against published ranges. Counts are I/Os, times ns."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kit.core.units import commas, format_latency_range, format_percent
from kit.store.labels import tier_name
from kit.store.parts.bands import KernelLabels, PhaseBands, PublishedBorders, PublishedCount
from kit.store.stored import Range
from reports.statistics.band_detection import Band, Bands
from reports.statistics.quantiles import Bins

# They waited for something of another tier, of any: no place on the latency axis is theirs.
PLACELESS = ("shared", "indirect")
# The least share of a tier inside another's band that a sentence names.
_TAIL = 0.001


def matrix(by_tier: Mapping[str, Bins], borders_ns: Sequence[int]) -> dict[str, list[int]]:
    """I/Os of each tier in each of the len(borders) + 1 stretches; a bin is where its middle is."""
    made = {}
    for tier, bins in by_tier.items():
        row = [0] * (len(borders_ns) + 1)
        for lo, hi, count in bins:
            row[int(np.searchsorted(borders_ns, (lo + hi) / 2, side="right"))] += count
        made[tier] = row
    return made


def against_kernel(by_tier: Mapping[str, Bins], found: Bands) -> KernelLabels:
    """The confusion matrix of tiers and bands, and what of it is on the right side.

    A band belongs to the tier that most of its I/Os are of. Tiers of PLACELESS are in the matrix, but not
    judged. `warnings` are sentences.
    """
    table = matrix(by_tier, found.borders_ns)
    owners = owners_of(table)
    judged = {tier: row for tier, row in table.items() if tier not in PLACELESS}
    right = sum(n for tier, row in judged.items() for n, own in zip(row, owners, strict=True) if own == tier)
    warnings = (text for tier, row in judged.items() for text in _tails(tier, row, owners, found.bands))
    total = sum(map(sum, judged.values()))
    return KernelLabels(
        tiers={tier: tuple(row) for tier, row in table.items()}, owners=tuple(owners), judged=total,
        right=right, share_right=right / total if total else None, warnings=tuple(warnings),
    )  # fmt: skip


def owners_of(table: Mapping[str, Sequence[int]]) -> list[str | None]:
    """The tier that most I/Os of each band are of; None where only placeless ones are."""
    names = sorted(tier for tier in table if tier not in PLACELESS)
    if not names:
        return [None] * len(next(iter(table.values()), []))
    counts: npt.NDArray[np.int64] = np.array([table[name] for name in names])
    best = counts.argmax(axis=0)
    return [names[b] if counts[b, n] else None for n, b in enumerate(best)]


@dataclass(frozen=True)
class Misplaced:
    """`count` of the `total` I/Os of `tier` lie in a band of `owner`, from `from_us` to `to_us`.

    `beyond`: the percentile of the tier that is in that band or above it; "" if it is not a tail upwards.
    """

    tier: str
    owner: str
    count: int
    total: int
    from_us: float
    to_us: float
    beyond: str

    def sentence(self) -> str:
        """For people, with the names of tiers and units by magnitude."""
        # A band reaches from border to border; the last one ends with the longest I/O.
        at = format_latency_range(self.from_us, self.to_us)
        share = format_percent(self.count / self.total, 2)
        text = f"{commas(self.count)} of {commas(self.total)} I/Os of {tier_name(self.tier)} ({share}) "
        text += f"lie in the band of {tier_name(self.owner)}, {at}"
        return f"{text}; the {self.beyond} is there or above." if self.beyond else f"{text}."


def misplaced(entry: PhaseBands) -> list[Misplaced]:
    """What lies in another tier's band; the same as its stored `warnings`.

    Empty where the kernel labelled nothing. Raises ValueError if the entry is not one of the kit's.
    """
    kernel = entry.kernel
    if not kernel:
        return []
    edges = [(band.from_us, band.to_us) for band in entry.bands]
    rows = {tier: row for tier, row in kernel.tiers.items() if tier not in PLACELESS}
    return [each for tier, row in rows.items() for each in _misplaced(tier, row, kernel.owners, edges)]


def _misplaced(
    tier: str, row: Sequence[int], owners: Sequence[str | None], edges_us: Sequence[Range]
) -> Iterator[Misplaced]:
    """What of `tier` lies inside bands of others."""
    total = sum(row)
    for count, owner, (low, high) in zip(row, owners, edges_us, strict=True):
        if owner is None or owner == tier or not count or count < _TAIL * total:
            continue
        beyond = sum(n for n, edge in zip(row, edges_us, strict=True) if edge[0] >= low)
        # Only a tail upwards has a percentile that names it.
        upwards = beyond < total
        quantiles = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"))
        named = next((name for q, name in quantiles if upwards and beyond >= (1 - q) * total), "")
        yield Misplaced(tier, owner, count, total, low, high, named)


def _tails(tier: str, row: Sequence[int], owners: Sequence[str | None], bands: Sequence[Band]) -> list[str]:
    """The stored `warnings`: summary.json keeps these words."""
    told = []
    for each in _misplaced(tier, row, owners, [(band.from_ns / 1e3, band.to_ns / 1e3) for band in bands]):
        at = f"{each.from_us:.4g}-{each.to_us:.4g} us"
        text = f"{commas(each.count)} of {commas(each.total)} I/Os of {tier} ({each.count / each.total:.2%}) "
        text += f"lie inside a band of {each.owner} ({at})"
        told.append(f"{text}: its {each.beyond} is there or beyond." if each.beyond else f"{text}.")
    return told


def against_published(
    reference: str, by_tier: Mapping[str, Bins], ranges_us: Mapping[str, Range], labelled: bool
) -> PublishedBorders | None:
    """I/Os inside each published range, outside all, and the borders that the ranges imply.

    `ranges_us` by tier. A border is the geometric middle of the gap between two neighbouring ranges; there
    are none where ranges overlap. Where the kernel labelled the I/Os, `share_right` is the part of them on
    their tier's side of those borders. None if nothing is published.
    """
    if not ranges_us:
        return None
    ordered = sorted(ranges_us.items(), key=lambda item: item[1])
    counts: Counter[str | None] = Counter()
    for lo, hi, count in itertools.chain.from_iterable(by_tier.values()):
        middle = (lo + hi) / 2e3
        counts[next((tier for tier, (low, high) in ordered if low <= middle <= high), None)] += count
    total = counts.total()
    borders = _between([r for _, r in ordered])
    share_right = None
    if labelled and borders is not None:
        table = matrix(by_tier, [round(b * 1e3) for b in borders])
        judged = {tier: row for tier, row in table.items() if tier in ranges_us}
        right = sum(judged[tier][n] for n, (tier, _) in enumerate(ordered) if tier in judged)
        seen = sum(map(sum, judged.values()))
        share_right = right / seen if seen else None
    return PublishedBorders(
        reference=reference,
        ranges=tuple(
            PublishedCount(tier=tier, range_us=span, count=counts[tier], share=counts[tier] / total)
            for tier, span in ordered
        ),
        outside=counts[None], borders_us=borders, share_right=share_right,
    )  # fmt: skip


def _between(ranges: Sequence[Range]) -> tuple[float, ...] | None:
    if any(b[0] < a[1] for a, b in itertools.pairwise(ranges)):
        return None
    return tuple(math.sqrt(a[1] * b[0]) for a, b in itertools.pairwise(ranges))
