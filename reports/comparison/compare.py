"""A against B, over runs: ratios of means, percentiles and shares with intervals; latencies in us."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import truediv
from statistics import fmean
from typing import Any

from kit.core.sample_size import sample_needed
from kit.core.table import TextTable
from kit.core.text import counted, listed
from kit.core.units import commas, format_change
from kit.store.format import FORMAT
from kit.store.labels import ios_words, layer_name
from kit.store.parts.comparison import ComparedCell, ComparedRow, Comparison
from kit.store.summary import Row, Summary
from reports.comparison.comparability import side_names
from reports.statistics.ratios import (
    ALPHA_TOGETHER,
    ERRORS_95,
    FEWEST,
    RatioRange,
    Realisation,
    is_too_wide,
    mean,
    ratios,
)

Key = tuple[str, str, str, str]  # phase, layer, op, tier
# Of each run of A and of B: its rows, and the I/Os of phase and layer.
_Tables = Sequence[Sequence[Mapping[Key, Row]]]
_Totals = Sequence[Sequence[Mapping[tuple[str, str], int]]]
NO_DIFFERENCE = "no difference shown"
DIFFERENCE = "difference shown"
# What people read for the words of a row.
SHOWN = {"no statement": "not judged", "withheld": "n/a"}
_PERCENTILES = {"p50": ("p50", 0.5), "p99": ("p99", 0.99), "p99.9": ("p999", 0.999)}
# More, less, and of a factor; of a latency others.
_WORDS = {"ios_per_s": ("more", "less", "as many"), "share": ("more", "less", "as much")}
# Latencies are whole nanoseconds.
_TICK_US = 1e-3
# Fewer I/Os than for a median in every run: their share says nothing.
_LEAST_IOS = sample_needed(0.5)


@dataclass(frozen=True)
class _Figure:
    """One figure of one row in every run of A and of B. `smallest` ratio told.

    `counted`: the mean shares of A and of B where a run has no I/O, whose logarithm is only a bound.
    """

    a: list[Realisation]
    b: list[Realisation]
    smallest: float
    counted: tuple[float, float] | None = None

    def sides(self, *, pairs: bool) -> list[list[Realisation]]:
        return [[b.minus(a) for a, b in zip(self.a, self.b, strict=True)]] if pairs else [self.a, self.b]


def compare(
    a: Sequence[Summary], b: Sequence[Summary], *, pairs: bool = False, caveat: str | None = None
) -> Comparison:
    """Summaries of runs of A and of B, at least one each (docs/compare.md).

    `pairs`: each of A and the one of B at its place are phases of one run. `caveat`: what a difference may
    come from besides, a sentence of the conclusion where there is one.

    `rows` has one per phase x layer x op x tier x figure. A figure that cannot be told is `withheld`,
    with the reason; a difference of less than the errors of two interpolated percentiles is none.
    """
    tables = [[summary.rows_by_key for summary in side] for side in (a, b)]
    keys = list(dict.fromkeys(key for side in tables for table in side for key in table))
    totals = [[_totals(table) for table in side] for side in tables]
    made = [(key, *named) for key in keys for named in _figures(key, tables, totals)]
    figures = [figure for *_, figure in made if isinstance(figure, _Figure)]
    found = iter(ratios([each.sides(pairs=pairs) for each in figures], ALPHA_TOGETHER / max(len(figures), 1)))
    rows = tuple(
        _row(key, name, figure, next(found) if isinstance(figure, _Figure) else None)
        for key, name, figure in made
    )
    different = sum(row.words == DIFFERENCE for row in rows)
    return Comparison(
        format=FORMAT, runs={"a": tuple(s.run for s in a), "b": tuple(s.run for s in b)},
        states=Counter(s.state for s in (*a, *b)),
        level=1 - ALPHA_TOGETHER, unit="run",
        method=_method(min(len(a), len(b)), len(figures), pairs=pairs), compared=len(figures),
        different=different, conclusion=_conclusion(len(a), len(b), len(figures), different, caveat),
        rows=rows,
    )  # fmt: skip


def sides_words(result: Comparison) -> str:
    """How many runs each side has, and how they came out: "5 runs of A and 5 of B, all valid"."""
    a, b = (len(result.runs[side]) for side in "ab")
    words = f"{counted(a, 'run')} of A and {b} of B"
    if len(result.states) == 1:
        return f"{words}, all {next(iter(result.states))}"
    return ", ".join((words, *(f"{number} {state}" for state, number in sorted(result.states.items()))))


def _method(runs: int, figures: int, *, pairs: bool) -> str:
    if runs < 2:
        return "one run on a side: no interval"
    over = "over pairs of one run each" if pairs else "over runs, with the freedom of the smaller side"
    scatter = "scatter shared between figures, " if figures >= FEWEST else ""
    return f"Student's t {over}, {scatter}Bonferroni's correction"


def _conclusion(runs_a: int, runs_b: int, figures: int, different: int, caveat: str | None) -> str:
    if not figures:
        return "nothing that both sides have could be compared"
    if min(runs_a, runs_b) < 2:
        few = "1 run each" if runs_a == runs_b else "1 run on a side"
        return f"{few}: too few to compare"
    if not different:
        return NO_DIFFERENCE
    shown = f"{DIFFERENCE} in {different} of {figures} figures"
    return f"{shown}. {caveat}" if caveat else shown


def largest(result: Comparison) -> ComparedRow | None:
    """The largest difference that is shown, of a median if there is one."""
    differ = [row for row in result.rows if row.words == DIFFERENCE and (row.ratio or _lacking(row))]
    return max(differ, key=lambda each: (each.figure == "p50", _size(each)), default=None)


def _size(row: ComparedRow) -> float:
    return abs(math.log(row.ratio)) if row.ratio else math.inf


def badge(differ: Sequence[ComparedRow | ComparedCell], of: int) -> str:
    """In which direction figures of B differ, and how many; a share of I/Os has no direction."""
    if not differ:
        return NO_DIFFERENCE
    ways = Counter(_way(row) for row in differ)
    words = {1: "slower", -1: "faster", 0: "different"}
    held = [f"{words[way]} in {ways[way]}" for way in words if ways[way]]
    return f"B {listed(held)} of {counted(of, 'figure')}"


def _way(row: ComparedRow | ComparedCell) -> int:
    """1: B is slower, -1: faster, 0: neither."""
    if row.figure == "share" or not row.ratio:
        return 0
    return 1 if (row.ratio > 1) != (row.figure == "ios_per_s") else -1


def others(result: Comparison) -> str:
    """How far apart A and B may be in the figures where no difference is shown; "" without such figures."""
    rows = [row for row in result.rows if row.words == NO_DIFFERENCE]
    if not rows:
        return ""
    known = [row.interval for row in rows if row.interval and not is_too_wide(row.interval)]
    other = "other " if len(rows) < result.compared else ""
    said = f"In {counted(len(rows), f'{other}figure')} no difference is shown"
    if known:
        low, high = min(0, *(low - 1 for low, _ in known)), max(0, *(high - 1 for _, high in known))
        of = "" if len(known) == len(rows) else f" of {len(known)}"
        said += f"; changes{of} from {100 * low:+.2g} to {100 * high:+.2g} % are not excluded"
    if len(known) < len(rows):
        said += f"; {len(rows) - len(known)} may have changed by any factor"
    return f"{said} ({100 * result.level:g} % confidence, all together)."


def _lacking(row: ComparedRow | ComparedCell) -> str:
    """The side none of whose runs has an I/O of the tier."""
    return next((side for side, value in (("A", row.a), ("B", row.b)) if value == 0), "")


def interval(row: ComparedRow | ComparedCell) -> str:
    """Of the ratio, in words; "" where there is none."""
    if row.interval and row.interval[0] > 0 and is_too_wide(row.interval):
        return "not known"
    return " to ".join(f"{end:.4g}" for end in row.interval or ())


def answer(result: Comparison) -> str:
    """Direction and size of the largest difference, and what tells A and B apart."""
    row = largest(result)
    if row is None:
        return f"A against B: {result.conclusion}"
    sides = side_names(result.across)
    return difference(row) + (f" ({', '.join(sides)})" if sides != ("A", "B") else "")


def difference(row: ComparedRow | ComparedCell) -> str:
    """Such as "B's synchronous writes (write-slog) take 24.9 % longer (23.7 to 26 %) at p50"."""
    ios = f"{ios_words(row.op, row.tier)} ({row.phase})"
    if side := _lacking(row):
        share = 100 * ((row.a or 0) + (row.b or 0))
        return f"{side} has no {ios}, which are {share:.3g} % of the I/Os of {'B' if side == 'A' else 'A'}"
    assert row.ratio and row.interval, "a difference that is shown has both"
    words = _WORDS.get(row.figure, ("longer", "less", "as long"))
    ends = [abs(100 * (end - 1)) for end in row.interval]
    within = f"{min(ends):.3g} to {max(ends):.3g} %" if 0.5 <= row.ratio < 2 else interval(row)
    change = f"{format_change(row.ratio, *words)} ({within})"
    at = "" if row.layer == "nfs-server" else f", at the {layer_name(row.layer)}"
    if row.figure == "ios_per_s":
        return f"B makes {change} {ios} a second"
    if row.figure == "share":
        return f"B has {change} of {ios}, as a share"
    return f"B's {ios} take {change} at {row.figure}{at}"


def _totals(table: Mapping[Key, Row]) -> dict[tuple[str, str], int]:
    """I/Os per phase and layer: what a share is of."""
    totals: Counter[tuple[str, str]] = Counter()
    for (phase, layer, *_), row in table.items():
        totals[phase, layer] += row.count
    return totals


def _row(key: Key, name: str, figure: _Figure | str, found: RatioRange | None) -> ComparedRow:
    """`figure`: why it is withheld, or what is `found` of it."""
    values: dict[str, Any] = {"a": None, "b": None, "ratio": None, "interval": None, "words": "withheld"}
    if isinstance(figure, _Figure) and found:
        values = {"a": mean(figure.a).value, "b": mean(figure.b).value, "ratio": found.value}
        values |= {"interval": found.range if found.decides else None, "words": "no statement"}
        values |= _as_counted(figure.counted, found) if figure.counted else {}
        if found.decides:
            clear = found.inside(1, 1) is False and abs(found.log) > math.log1p(figure.smallest)
            values["words"] = DIFFERENCE if clear else NO_DIFFERENCE
    values |= zip(("phase", "layer", "op", "tier"), key, strict=True)
    return ComparedRow(figure=name, withheld=figure if isinstance(figure, str) else None, **values)


def _as_counted(shares: tuple[float, float], found: RatioRange) -> dict[str, Any]:
    """Shares where a run has no I/O: no ratio but 0, which has an upper end."""
    none_in_b = not shares[1]
    known = (0.0, found.range[1]) if none_in_b and found.decides and found.range else None
    return dict(zip("ab", shares, strict=True)) | {"ratio": 0.0 if none_in_b else None, "interval": known}


def _figures(key: Key, tables: _Tables, totals: _Totals) -> Iterator[tuple[str, _Figure | str]]:
    """Each by its name, or why it is withheld. A mean that no run has is none."""
    has_mean = any(table[key].mean_us is not None for side in tables for table in side if key in table)
    for name in ("mean", *_PERCENTILES) if has_mean else _PERCENTILES:
        yield name, _latency(key, name, tables)
    yield "share", _share(key, tables, totals)


def _latency(key: Key, name: str, tables: _Tables) -> _Figure | str:
    """The mean, which has no bins: sums are exact; or an interpolated percentile."""
    field, q = _PERCENTILES.get(name, ("", 0.0))
    sides = []
    for letter, side in zip("AB", tables, strict=True):
        rows = [row for table in side if (row := table.get(key))]
        if missing := len(side) - len(rows):
            return f"{letter}: no I/O in {missing} of {len(side)} runs: missing there"
        values = [
            (value.us, max(value.error_us, _TICK_US))
            if field and (value := row.interpolated.get(field))
            else None if field or row.mean_us is None else (row.mean_us, _TICK_US)
            for row in rows
        ]  # fmt: skip
        known = [each for each in values if each]
        if len(known) < len(rows) and field:
            fewest = min(row.count for row in rows)
            return f"{letter}: a run has {commas(fewest)} I/Os, {name} needs {commas(sample_needed(q))}"
        if len(known) < len(rows):
            return f"{letter}: {len(rows) - len(known)} of {len(rows)} runs have no sum of latencies"
        sides.append(known)
    return _figure(name, sides)


def _figure(name: str, sides: Sequence[Sequence[tuple[float, float]]]) -> _Figure | str:
    """`sides`: value and error (us) of each run of A and of B."""
    for letter, side in zip("AB", sides, strict=True):
        if any(value <= 0 for value, _ in side):
            return f"{letter}: {name} is below the clock's resolution"
    errors = [[math.log1p(error / value) for value, error in side] for side in sides]
    # What an even spread over twice the error leaves open.
    a, b = (
        [
            Realisation(math.log(value), ERRORS_95 * math.log1p(error / value) / math.sqrt(3))
            for value, error in side
        ]
        for side in sides
    )
    return _Figure(a, b, math.expm1(sum(map(fmean, errors))))


def _share(key: Key, tables: _Tables, totals: _Totals) -> _Figure | str:
    """The share of a tier. For the interval, a run without it counts as one with half an I/O."""
    counts = [[(t[key].count if key in t else 0) for t in side] for side in tables]
    wholes = [[t.get(key[:2], 0) for t in side] for side in totals]
    for letter, side in zip("AB", wholes, strict=True):
        if not all(side):
            return f"{letter}: a run has no I/O in that phase and layer"
    if counts == wholes:
        return "only tier"
    if max(n for side in counts for n in side) < _LEAST_IOS:
        return f"no run has {_LEAST_IOS} I/Os of it"
    add = 0.0 if all(n for side in counts for n in side) else 0.5
    a, b = (_shares(*each, add) for each in zip(counts, wholes, strict=True))
    counted = [fmean(map(truediv, *each)) for each in zip(counts, wholes, strict=True)]
    return _Figure(a, b, 0.0, (counted[0], counted[1]) if add else None)


def _shares(counts: Sequence[int], wholes: Sequence[int], add: float) -> list[Realisation]:
    """Of each run of a side; `add`: to its I/Os of the tier, and to the others."""
    made = []
    for count, whole in zip(counts, wholes, strict=True):
        share = (count + add) / (whole + 2 * add)
        # Binomial, and one I/O more or less.
        error = math.sqrt((1 - share) / (whole * share) + 1 / (whole * share) ** 2)
        made.append(Realisation(math.log(share), ERRORS_95 * error))
    return made


_CSV_HEAD = "phase layer op tier figure unit a b ratio ratio_low ratio_high finding".split()


def csv(result: Comparison) -> str:
    """A row a figure; `unit` is that of A and B."""
    rows = []
    for row in result.rows:
        names = (row.phase, row.layer, row.op, row.tier, row.figure, "1" if row.figure == "share" else "us")
        numbers = (row.a, row.b, row.ratio, *(row.interval or (None, None)))
        shown = ("" if value is None else float(f"{value:.6g}") for value in numbers)
        rows.append((*names, *shown, f"{row.words}: {row.withheld}" if row.withheld else row.words))
    return TextTable(_CSV_HEAD, rows).csv()
