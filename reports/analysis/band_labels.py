"""Bands held against what the kernel said, and against published ranges. Counts are I/Os, times ns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reports.statistics.band_detection import Band
from reports.statistics.quantiles import Bins

Json = dict[str, Any]
Range = tuple[float, float]
# They waited for something of another tier, of any: no place on the latency axis is theirs.
PLACELESS = ("shared", "indirect")
# The least share of a tier inside another's band that is told.
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


def against_kernel(by_tier: Mapping[str, Bins], bands: Sequence[Band], borders_ns: Sequence[int]) -> Json:
    """The confusion matrix of tiers and bands, and what of it is on the right side.

    A band belongs to the tier that most of its I/Os are of. Tiers of PLACELESS are in the matrix, but not
    judged. `warnings` are sentences.
    """
    table = matrix(by_tier, borders_ns)
    owners = owners_of(table)
    judged = {tier: row for tier, row in table.items() if tier not in PLACELESS}
    right = sum(n for tier, row in judged.items() for n, own in zip(row, owners, strict=True) if own == tier)
    total = sum(map(sum, judged.values()))
    return {
        "tiers": table,
        "owners": owners,
        "judged": total,
        "right": right,
        "share_right": right / total if total else None,
        "warnings": [w for tier, row in judged.items() for w in _tails(tier, row, owners, bands)],
    }


def owners_of(table: Mapping[str, Sequence[int]]) -> list[str | None]:
    """The tier that most I/Os of each band are of; None where only placeless ones are."""
    names = sorted(tier for tier in table if tier not in PLACELESS)
    if not names:
        return [None] * len(next(iter(table.values()), []))
    counts: npt.NDArray[np.int64] = np.array([table[name] for name in names])
    best = counts.argmax(axis=0)
    return [names[b] if counts[b, n] else None for n, b in enumerate(best)]


def _tails(tier: str, row: Sequence[int], owners: Sequence[str | None], bands: Sequence[Band]) -> list[str]:
    """What of `tier` lies inside bands of others."""
    total, told = sum(row), []
    for count, owner, band in zip(row, owners, bands, strict=True):
        if owner in (None, tier) or not count or count < _TAIL * total:
            continue
        at = f"{band.from_ns / 1e3:.4g}-{band.to_ns / 1e3:.4g} us"
        text = f"{count} of {total} I/Os of {tier} ({count / total:.2%}) lie inside a band of {owner} ({at})"
        beyond = sum(n for n, b in zip(row, bands, strict=True) if b.from_ns >= band.from_ns)
        for q, name in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")):
            # Only a tail upwards has a percentile that names it.
            if beyond >= (1 - q) * total and beyond < total:
                text += f": its {name} is there or beyond"
                break
        told.append(text + ".")
    return told


def against_published(
    by_tier: Mapping[str, Bins], ranges_us: Mapping[str, Range], labelled: bool
) -> Json | None:
    """I/Os inside each published range, outside all, and the borders that the ranges imply.

    `ranges_us` by tier. A border is the geometric middle of the gap between two neighbouring ranges; there
    are none where ranges overlap. Where the kernel labelled the I/Os, `share_right` is the part of them on
    their tier's side of those borders. None if nothing is published.
    """
    if not ranges_us:
        return None
    ordered = sorted(ranges_us.items(), key=lambda item: item[1])
    counts = dict.fromkeys(ranges_us, 0)
    outside = total = 0
    for bins in by_tier.values():
        for lo, hi, count in bins:
            middle = (lo + hi) / 2e3
            holders = [tier for tier, (low, high) in ordered if low <= middle <= high]
            for tier in holders[:1]:
                counts[tier] += count
            outside += 0 if holders else count
            total += count
    borders = _between([r for _, r in ordered])
    result: Json = {
        "ranges": [
            {"tier": tier, "range_us": list(span), "count": counts[tier], "share": counts[tier] / total}
            for tier, span in ordered
        ],
        "outside": outside,
        "borders_us": borders,
        "share_right": None,
    }
    if labelled and borders is not None:
        table = matrix(by_tier, [round(b * 1e3) for b in borders])
        judged = {tier: row for tier, row in table.items() if tier in ranges_us}
        right = sum(row[n] for n, (tier, _) in enumerate(ordered) for row in [judged.get(tier)] if row)
        seen = sum(map(sum, judged.values()))
        result["share_right"] = right / seen if seen else None
    return result


def _between(ranges: Sequence[Range]) -> list[float] | None:
    if any(b[0] < a[1] for a, b in itertools.pairwise(ranges)):
        return None
    return [math.sqrt(a[1] * b[0]) for a, b in itertools.pairwise(ranges)]
