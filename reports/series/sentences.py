"""What a series says about each axis, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kit.core.text import some
from kit.core.units import format_factor, format_latency
from kit.store.labels import ios_words, op_name, tier_name
from kit.store.series import Series, SeriesAxis
from kit.store.summary import Range
from reports.series.addresses import address_sentences
from reports.series.answering import answering_sentences, answers
from reports.series.batches import batches_of
from reports.series.ratios import largest_change
from reports.series.sync_methods import SyncTable
from reports.series.view import cell_ratio, cells_of, geometric_mean, merged_rows
from reports.statistics.ratios import is_too_wide

_MOST_STRUCK = 3


def answer(series: Series, found: Sequence[str], table: SyncTable | None) -> str:
    """The sentence above all: of arrays (`found`) first; of what the series has, or the largest ratio."""
    said = [*found, *_forced(table)]
    if not said:
        # How well it is known stands beside the figure.
        of_addresses = (text for axis in series.axes for text in address_sentences(series, axis))
        said = [text.partition(" (")[0].removesuffix(".") + "." for text in of_addresses]
    if not said:
        said = [each.sentence for each in batches_of(series)] or [*answers(series)]
    return said[0] if said else _largest(series)


def _forced(table: SyncTable | None) -> Iterator[str]:
    """What the second configuration costs beside the first; with one, what methods take that are durable."""
    if table is None:
        return
    ratios = sorted((row.ratio, row.label) for row in table.rows if row.ratio)
    if ratios:
        first, second = (f"{table.axes} = {name}" for name in table.configurations[:2])
        ends = [f"{format_factor(ratio)} ({label})" for ratio, label in ratios]
        between = " to ".join(dict.fromkeys((ends[0], ends[-1])))
        yield (
            f"With {second}, forced writes take {between} as long as with {first}, within this series."
            f"{_struck_out(table)}"
        )
        return
    cells = [(cell, row.label) for row in table.rows for cell in row.cells if cell]
    times = [(cell.mean_us, label) for cell, label in cells if not cell.struck]
    if times:
        (low, fast), (high, slow) = min(times), max(times)
        yield f"A forced write takes {format_latency(low)} ({fast}) to {format_latency(high)} ({slow})."


def _struck_out(table: SyncTable) -> str:
    """Methods that are good for a comparison in one configuration, and not in another."""
    said = []
    for lost, words in ((True, "Not durable"), (False, "Left out, see the note")):
        found = [
            f"{row.label} at {name} (note {table.notes.index(cell.struck) + 1})"
            for row in table.rows
            for name, cell in zip(table.configurations, row.cells, strict=True)
            if cell and cell.struck and cell.lost == lost
            and any(other and not other.struck for other in row.cells)
        ]  # fmt: skip
        said += [f" {words}: {some(found, _MOST_STRUCK)}."] if found else []
    return "".join(said)


def _largest(series: Series) -> str:
    """The largest change of a median along an axis."""
    found = largest_change(series.cells)
    if found is None:
        return ""
    (axis, to, beside, phase, layer, op, tier, _), most, number = found
    is_open = most.decides and most.inside(1, 1) is None
    none = f"No change of p50 is shown in {number} ratios to the base: " if is_open else ""
    of_all = f", all {number} ratios at once" if most.decides and number > 1 else ""
    first = series.axis(axis).values[0]
    now, base = (
        _p50(series, at, phase, (layer, op, tier)) for at in ({**dict(beside), axis: to}, dict(beside))
    )
    return (
        f"{none}p50 of {ios_words(op, tier)} is {now} at {axis} {to} and {base} at {first}: "
        f"{format_factor(most.value)} as long ({most.words('round' if most.decides else 'run')}{of_all})."
    )


def _p50(series: Series, at: Mapping[str, str], phase: str, row: tuple[str, str, str]) -> str:
    """Of the cells at these values, over their rounds; as in the ratio a base is measured twice."""
    cells = (each for each in series.cells if each.phase == phase and each.at == at and not each.excluded)
    found = (each for cell in cells for each in merged_rows(cell) if (each.layer, each.op, each.tier) == row)
    mean_us = geometric_mean([each.p50_us for each in found])
    return format_latency(mean_us) if mean_us else "not known"


def sentences(series: Series, axis: SeriesAxis) -> Iterator[str]:
    """Of addresses what they say; for each phase and tier the ratios to the base, and what was published."""
    of_addresses = list(address_sentences(series, axis))
    yield from of_addresses
    yield from answering_sentences(series, axis)
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
                of_row = (value, op, tier, phase)
                claims = [c.text for c in axis.published if (c.to, c.op, c.tier, c.phase) == of_row]
                text = f"; published: {claims[0]}" if claims else ""
                parts.append(f"{axis.values[0]} to {value}: {format_factor(ratio.ratio)}{span}{text}")
            if parts:
                yield f"{phase}, {tier_name(tier)}, {op_name(op)}: {'. '.join(parts)}."


def _range(known: Range) -> str:
    return "not known" if is_too_wide(known) else f"95 %: {known[0]:.2f} to {known[1]:.2f}"
