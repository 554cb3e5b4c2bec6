"""The part `bands` of summary.json: the bands of each phase, layer and op; times in microseconds."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from kit.core.units import format_latency, format_time_s
from kit.store.labels import CLIENT, METADATA, op_name
from kit.store.latency import Latency
from kit.store.manifest import Manifest
from kit.store.parts.bands import BandPublished, BandRow, KernelLabels, LevelsInTime, PhaseBands
from kit.store.stored import Range
from kit.store.summary import Reference
from reports.analysis import band_labels, import_source
from reports.published.ranges import Beside
from reports.statistics import levels
from reports.statistics.band_detection import OVERLAP_LIMIT, Band, Bands, find
from reports.statistics.quantiles import Bins

_KEY = ("phase", "layer", "op")
_UNLABELLED = "all"


def describe(
    latency: Latency, manifest: Manifest, reference: Reference | None, shown: Mapping[str, Beside]
) -> list[PhaseBands]:
    """One object per phase x layer x op of the counts, but for METADATA, in the order of the phases.

    `shown`: by phase, what of `reference` stands beside it.
    What has no bands (its bins overlap) has a `reason` and an empty list.
    """
    starts_ns = {phase.name: phase.start_ns for phase in manifest.phases}
    timed, tick_ns = import_source.timed(manifest), import_source.tick_ns(manifest)
    # A GETATTR of a file is other work than that of a directory: its bands are no tiers.
    counted = (
        latency.bins.filter((pl.col("count") > 0) & ~pl.col("op").is_in([*METADATA]))
        .group_by(*_KEY, "tier", "lo_ns", "hi_ns")
        .agg(pl.col("count").sum())
        .sort(*_KEY, "tier", "lo_ns", "hi_ns")
    )
    made = []
    for key, rows in itertools.groupby(counted.iter_rows(named=True), lambda r: tuple(r[k] for k in _KEY)):
        by_tier: dict[str, list[tuple[int, int, int]]] = {}
        for r in rows:
            by_tier.setdefault(r["tier"], []).append((r["lo_ns"], r["hi_ns"], r["count"]))
        entry = _described(key, by_tier, reference, shown[key[0]], tick_ns)
        if timed and not entry.kernel and len(entry.bands) > 1:
            mine = [pl.col(name) == value for name, value in zip(_KEY, key, strict=True)]
            entry = _in_time(entry, latency.cells.filter(*mine), starts_ns.get(entry.phase, 0))
        made.append(entry)
    order = {name: n for n, name in enumerate(starts_ns)}
    made.sort(key=lambda e: (order.get(e.phase, len(order)), e.phase, e.layer == CLIENT, e.op))
    return made


def _in_time(entry: PhaseBands, cells: pl.DataFrame, start_ns: int) -> PhaseBands:
    """`entry`; where its bands follow each other in time, it says so and is not separable."""
    found = in_time(cells, [round(border * 1e3) for border in entry.borders_us], start_ns)
    if found is None:
        return entry
    reason = f"levels in time. {level_words(found, op_name(entry.op))}"
    return entry.model_copy(update={"levels": found, "separable": False, "reason": reason})


def in_time(cells: pl.DataFrame, borders_ns: Sequence[int], start_ns: int) -> LevelsInTime | None:
    """Two levels that the bands between `borders_ns` are, one after the other; None where they are modes.

    `cells`: as in kit.store.latency, of one phase, layer, op and tier or all; `start_ns`: of the phase.
    """
    found = levels.find(cells, borders_ns)
    if found is None:
        return None
    first, second = (value / 1e3 for value in found.p50_ns)
    from_s, to_s = (max(at - start_ns, 0) / 1e9 for at in (found.from_ns, found.to_ns))
    return LevelsInTime(
        p50_us=(first, second), share=found.share, changes=found.changes, from_s=from_s, to_s=to_s
    )


def level_words(found: LevelsInTime, ios: str) -> str:
    """A sentence without its end; `ios`: what the I/Os are, such as "reads of disk"."""
    first, second = map(format_latency, found.p50_us)
    if found.changes == 1:
        verb = "rose" if found.p50_us[1] > found.p50_us[0] else "fell"
        return f"The p50 of the {ios} {verb} from {first} to {second} at {format_time_s(found.from_s)}"
    if found.changes == 2:
        when = f"from {format_time_s(found.from_s)} to {format_time_s(found.to_s)}"
        return f"The {ios} took about {second} {when} ({100 * found.share:.2g} % of them), about {first} else"
    return f"The {ios} took about {first} and about {second} at different times"


def _described(
    key: tuple[str, ...],
    by_tier: Mapping[str, Bins],
    reference: Reference | None,
    shown: Beside,
    tick_ns: float | None,
) -> PhaseBands:
    phase, layer, op = key
    ranges = {tier: span for (of, tier), span in shown.ranges_us.items() if of == op}
    count = sum(b[2] for bins in by_tier.values() for b in bins)
    kernel, held = None, None
    try:
        found = find(together(by_tier.values()), tick_ns)
    except ValueError as error:
        found = Bands((), (), f"no bands: {error}")
    else:
        labelled = _UNLABELLED not in by_tier
        kernel = band_labels.against_kernel(by_tier, found) if labelled else None
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
    total = Counter[tuple[int, int]]()
    for lo, hi, count in itertools.chain.from_iterable(parts):
        total[lo, hi] += count
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
