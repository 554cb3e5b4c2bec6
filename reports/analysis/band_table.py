"""The part `bands` of summary.json: the bands of each phase, layer and op; times in microseconds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from kit.store.labels import CLIENT
from kit.store.parts.bands import BandPublished, BandRow, KernelLabels, PhaseBands, Range
from kit.store.summary import Reference
from reports.analysis import band_labels
from reports.statistics.band_detection import OVERLAP_LIMIT, Band, Bands, find
from reports.statistics.quantiles import Bins

Ranges = Mapping[tuple[str, str], Range]  # by op and tier
_KEY = ("phase", "layer", "op")
_UNLABELLED = "all"


def describe(
    latency: pl.DataFrame,
    phases: Sequence[str],
    reference: Reference | None,
    ranges: Mapping[str, Ranges] | None = None,
) -> list[PhaseBands]:
    """One object per phase x layer x op of `latency` (columns of latency.parquet), in the order of `phases`.

    `ranges`: those of `reference` that stand beside a phase, by its name; None: all of them beside each.
    What has no bands (its bins overlap) has a `reason` and an empty list.
    """
    counted = (
        latency.filter(pl.col("count") > 0)
        .group_by(*_KEY, "tier", "lo_ns", "hi_ns")
        .agg(pl.col("count").sum())
        .sort(*_KEY, "tier", "lo_ns", "hi_ns")
    )
    made = []
    for key, rows in itertools.groupby(counted.iter_rows(named=True), lambda r: tuple(r[k] for k in _KEY)):
        by_tier: dict[str, list[tuple[int, int, int]]] = {}
        for r in rows:
            by_tier.setdefault(r["tier"], []).append((r["lo_ns"], r["hi_ns"], r["count"]))
        every = reference.ranges_us if reference else {}
        shown = every if ranges is None else ranges.get(key[0], {})
        made.append(_described(key, by_tier, reference, shown))
    order = {name: n for n, name in enumerate(phases)}
    made.sort(key=lambda e: (order.get(e.phase, len(order)), e.phase, e.layer == CLIENT, e.op))
    return made


def _described(
    key: tuple[str, ...], by_tier: Mapping[str, Bins], reference: Reference | None, shown: Ranges
) -> PhaseBands:
    phase, layer, op = key
    ranges = {tier: span for (of, tier), span in shown.items() if of == op}
    count = sum(b[2] for bins in by_tier.values() for b in bins)
    kernel, held = None, None
    try:
        found = find(together(by_tier.values()))
    except ValueError as error:
        found = Bands((), (), f"no bands: {error}")
    else:
        labelled = _UNLABELLED not in by_tier
        kernel = band_labels.against_kernel(by_tier, found.bands, found.borders_ns) if labelled else None
        if reference:
            held = band_labels.against_published(reference.name, by_tier, ranges, labelled)
    return PhaseBands(
        phase=phase, layer=layer, op=op, count=count, overlap_limit=OVERLAP_LIMIT,
        separable=found.separable, reason=found.reason or None,
        borders_us=tuple(b / 1e3 for b in found.borders_ns), bands=tuple(_listed(found, kernel, ranges)),
        kernel=kernel, published=held,
    )  # fmt: skip


def together(parts: Iterable[Bins]) -> list[tuple[int, int, int]]:
    """The sum of several histograms, ascending."""
    total: dict[tuple[int, int], int] = {}
    for bins in parts:
        for lo, hi, count in bins:
            total[lo, hi] = total.get((lo, hi), 0) + count
    return [(lo, hi, count) for (lo, hi), count in sorted(total.items())]


def _listed(found: Bands, kernel: KernelLabels | None, ranges: Mapping[str, Range]) -> list[BandRow]:
    owners = kernel.owners if kernel else [None] * len(found.bands)
    return [
        BandRow(
            from_us=band.from_ns / 1e3, to_us=band.to_ns / 1e3, count=band.count, share=band.share,
            share_interval=band.share_interval, range_us=_us(band),
            modes_us=tuple(mode / 1e3 for mode in band.modes_ns), overlap=band.overlap,
            separable=len(band.modes_ns) == 1, tier=owner,
            published=tuple(
                BandPublished(tier=tier, inside=low <= _us(band)[0] and _us(band)[1] <= high)
                for tier, (low, high) in ranges.items()
                if _us(band)[0] < high and low < _us(band)[1]
            ),
        )
        for band, owner in zip(found.bands, owners, strict=True)
    ]  # fmt: skip


def _us(band: Band) -> Range:
    return band.range_ns[0] / 1e3, band.range_ns[1] / 1e3
