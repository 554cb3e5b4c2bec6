"""What a series says about each axis, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator

from kit.store.series import Series, SeriesAxis
from kit.store.summary import Range
from reports.analysis.tier_names import op_name, tier_name
from reports.series.addresses import address_sentences
from reports.series.view import cell_ratio, cells_of, merged_rows
from reports.statistics.ratios import is_too_wide


def sentences(series: Series, axis: SeriesAxis) -> Iterator[str]:
    """Of addresses what they say; for each phase and tier the ratios to the base, and what was published."""
    of_addresses = list(address_sentences(series, axis))
    yield from of_addresses
    if of_addresses and not axis.published:
        return  # a ratio for each place would say the same once more
    for phase, cells in cells_of(series, axis):
        keys = dict.fromkeys((row.op, row.tier) for cell, _ in cells for row in merged_rows(cell))
        for op, tier in keys:
            parts = []
            for cell, value in cells[1:]:
                row = next((r for r in merged_rows(cell) if (r.op, r.tier) == (op, tier)), None)
                ratio = cell_ratio(series, cell, axis.name, row) if row else None
                if ratio is None:
                    continue
                span = f" ({_range(ratio.interval)})" if ratio.interval else ""
                claim = next(
                    (c for c in axis.published if (c.to, c.op, c.tier, c.phase) == (value, op, tier, phase)),
                    None,
                )
                text = f"; published: {claim.text}" if claim else ""
                parts.append(
                    f"{axis.values[0]} to {value}: \N{MULTIPLICATION SIGN} {ratio.ratio:.2f}{span}{text}"
                )
            if parts:
                yield f"{phase}, {tier_name(tier)}, {op_name(op)}: {'. '.join(parts)}."


def _range(known: Range) -> str:
    return "not known" if is_too_wide(known) else f"95 %: {known[0]:.2f} to {known[1]:.2f}"
