"""The expectations of a workload against the rows of a summary; latencies in microseconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from kit.core.sample_size import sample_needed
from kit.core.units import commas, format_beside, format_factor, format_latency, format_latency_range
from kit.store.checks.ids import id_of_expectation
from kit.store.checks.outcome import Outcome
from kit.store.labels import ios_words
from kit.store.latency import Latency
from kit.store.manifest import Expectation, Manifest
from kit.store.parts.judged import JudgedExpectation, Limit, OtherRow
from kit.store.phase import Phase
from kit.store.summary import Published, Row
from reports.published.share import share_inside
from reports.statistics import batch_means
from reports.statistics.batch_means import above, part
from reports.statistics.ratios import ratio
from reports.verdict import remedies
from reports.verdict.stalls import longest_gap_ns

# Key of a limit -> (percentile of the row, its quantile, how a reason calls it).
PERCENTILES = {
    "p50_us_max": ("p50", 0.5, "p50"),
    "p95_us_max": ("p95", 0.95, "p95"),
    "p99_us_max": ("p99", 0.99, "p99"),
    "p999_us_max": ("p999", 0.999, "p99.9"),
}
_SHARES = ("share_min", "share_max")
_RATIOS = {f"{figure}_ratio_{end}": figure for figure in ("p50", "p99") for end in ("min", "max")}
# What has a smaller part of its phase's I/Os is not a tier that answers.
_LEAST_SHARE = 0.001
_FEW = "too few I/Os for the statistic"
_UNMEASURED = "the server was not traced, or the phase was not measured"
_Key = tuple[str, str, str, str]
LIMITS = (*PERCENTILES, *_SHARES, "max_us_max", "stall_ms_max", *_RATIOS)


@dataclass(frozen=True)
class _Judged:
    """What an expectation is judged by: `row` is None where the run has none."""

    expectation: Expectation
    row: Row | None
    rows: Sequence[Row]
    phases: Mapping[str, Phase]
    latency: Latency

    @property
    def ratio_to(self) -> dict[str, str]:
        """Phase, op and tier of the row that ratios are to."""
        to = self.expectation.ratio_to
        return {
            part: getattr(to, part, None) or getattr(self.expectation, part)
            for part in ("phase", "op", "tier")
        }

    @property
    def other(self) -> Row | None:
        """The row that ratios are to."""
        return _row(self.rows, self.expectation, **self.ratio_to)


@dataclass(frozen=True)
class _Short:
    """A row with too few I/Os; a limit needs `needed`."""

    row: Row
    needed: int

    @property
    def key(self) -> _Key:
        return self.row.phase, self.row.layer, self.row.op, self.row.tier


def judge(
    manifest: Manifest, rows: Sequence[Row], latency: Latency
) -> tuple[list[JudgedExpectation], list[Outcome]]:
    """Each expectation of `manifest` with `ok`, and an outcome for each of its limits.

    Where the server was not traced it is unknown which tier answered: `ok` of an expectation on a tier
    is then None, as of one on a phase that has no I/O. `rows` are a summary's, made of `latency`. An
    expectation is met if all its limits are known to be. `ok` is None, too, where the I/Os are too few to
    tell (FEW-IOS), and of a limit where the run cannot tell.
    """
    phases = {phase.name: phase for phase in manifest.phases}
    measured = {row.phase for row in rows} - manifest.skipped_phases
    asked = []
    for each in manifest.expect:
        by = _Judged(each, _row(rows, each), rows, phases, latency)
        value, limits = _judged(by)
        can_tell = each.phase in measured and (manifest.traced or each.tier == "all")
        shorts = [(limit, _short(limit, by) if can_tell else None) for limit in limits]
        asked.append((each, value, shorts, can_tell))
    few = _few([short for _, _, pairs, _ in asked for _, short in pairs if short], phases)
    judged, outcomes = [], [_not_measured(manifest)]
    for each, value, pairs, can_tell in asked:
        if not can_tell:
            outcomes += [_open(each, limit, _UNMEASURED) for limit, _ in pairs]
            judged.append(value.model_copy(update={"limits": ()}))
            continue
        made = [_open(each, limit, _FEW) if short else _outcome(each, limit) for limit, short in pairs]
        lacking = [str(few[short.key]) for _, short in pairs if short]
        judged.append(_with_reasons(value, made, lacking))
        outcomes += made
        if value.not_published:
            outcomes.append(_not_published(each, value.not_published))
    return judged, [*outcomes, *few.values()]


def _with_reasons(value: JudgedExpectation, made: Sequence[Outcome], few: Sequence[str]) -> JudgedExpectation:
    """With whether all its limits are met, and why not. `few`: of what there are too few I/Os."""
    unmet = [str(outcome) for outcome in made if outcome.holds is False]
    open_ = [str(outcome) for outcome in made if outcome.makes == "unknown"]
    lacking = dict.fromkeys([*few, *open_])
    ok = False if unmet else None if lacking else True
    return value.model_copy(update={"ok": ok, "reasons": (*unmet, *lacking)})


def _not_measured(manifest: Manifest) -> Outcome:
    """Phases of which something is expected, and of which the run says nothing."""
    told = {phase.name for phase in manifest.phases}
    if not told:
        return Outcome.absent("NOT-MEASURED", "not available", "the run has no phases")
    known = told | manifest.skipped_phases
    if missing := dict.fromkeys(each.phase for each in manifest.expect if each.phase not in known):
        return Outcome.failed("NOT-MEASURED", f"Not measured: {', '.join(missing)}.")
    return Outcome.ok("NOT-MEASURED")


def _short(limit: Limit, by: _Judged) -> _Short | None:
    """What has too few I/Os to tell whether the limit is met; None if that is not the reason.

    A tier with hardly any I/O of its phase is not short of time: another tier answers.
    """
    figure = f"{_RATIOS[limit.name]}_us_max" if limit.name in _RATIOS else limit.name
    rows = [by.row, *([by.other] if limit.name in _RATIOS else [])]
    if limit.ok or None in rows or not (limit.name == "min_count" or figure in PERCENTILES):
        return None
    needed = by.expectation.min_count if limit.name == "min_count" else sample_needed(PERCENTILES[figure][1])
    short = (_Short(row, needed) for row in rows if row and row.count < needed)
    return next((each for each in short if each.row.share >= _LEAST_SHARE), None)


def _few(shorts: Sequence[_Short], phases: Mapping[str, Phase]) -> dict[_Key, Outcome]:
    """An outcome for each row with too few I/Os; each has the time that its phase needs for all of them."""
    most: dict[_Key, _Short] = {}
    times: dict[str, float] = {}
    for each in shorts:
        phase = each.row.phase
        times[phase] = max(times.get(phase, 0.0), each.needed / each.row.count)
        if each.key not in most or each.needed > most[each.key].needed:
            most[each.key] = each
    made = {}
    for key, each in most.items():
        row, subject = each.row, f"{each.row.op}/{each.row.tier}"
        of_row = phases.get(row.phase)
        longer = f"; {remedies.longer(of_row, times[row.phase])}" if of_row else ""
        counts = f"{commas(row.count)} of at least {commas(each.needed)}"
        text = f"{ios_words(row.op, row.tier)}: {_FEW}: {counts}{longer}."
        made[key] = Outcome.failed("FEW-IOS", text, row.phase, subject)
    return made


def _judged(by: _Judged) -> tuple[JudgedExpectation, list[Limit]]:
    """It as it is stored, not judged yet, and all its limits: also those that are no `limits` there."""
    expectation, row, inside = by.expectation, by.row, by.expectation.inside
    # The range was published for other loads than this phase's: that says nothing about this row.
    unlike = row.not_published if row and inside else None
    asked = {name: getattr(expectation, name) for name in LIMITS}
    limits = [_limit(name, limit, by) for name, limit in asked.items() if limit is not None]
    least = expectation.inside_share_min if inside else None
    if least is not None and row and row.published:
        limits.append(_inside_share(least, row, row.published, by.latency))
    few = _count(by)
    own = [few]
    if inside and not unlike and (least is None or not row or not row.published):
        # Without an I/O one reason is enough.
        own += [_inside(by)] if row or few.ok else []
    value = JudgedExpectation(
        phase=expectation.phase, op=expectation.op, tier=expectation.tier, min_count=expectation.min_count,
        count=row.count if row else 0, inside=inside, limits=tuple(limits),
        **({"not_published": unlike} if unlike else {}), id=id_of_expectation(_key(expectation)), ok=None,
        reasons=(),
    )  # fmt: skip
    return value, [*own, *limits]


def _key(expectation: Expectation) -> dict[str, str]:
    return {"phase": expectation.phase, "op": expectation.op, "tier": expectation.tier}


def _id(expectation: Expectation, limit: Limit) -> str:
    to = limit.to.as_json() if limit.to else None
    return id_of_expectation(_key(expectation), limit.name, to)


def _ios(expectation: Expectation) -> str:
    """What the sentences call its I/Os."""
    return ios_words(expectation.op, expectation.tier)


def _subject(expectation: Expectation) -> str:
    return f"{expectation.op}/{expectation.tier}"


def _open(expectation: Expectation, limit: Limit, why: str) -> Outcome:
    """Of a limit that is not judged."""
    subject = _subject(expectation)
    return Outcome.absent(_id(expectation, limit), "not available", why, expectation.phase, subject)


def _not_published(expectation: Expectation, why: str) -> Outcome:
    subject = _subject(expectation)
    id_ = id_of_expectation(_key(expectation), "inside")
    return Outcome.absent(id_, "not available", f"{subject}: {why}", expectation.phase, subject)


def _outcome(expectation: Expectation, limit: Limit) -> Outcome:
    """Of a limit; where the run leaves it open, it is unknown whether it holds."""
    id_, subject = _id(expectation, limit), _subject(expectation)
    return Outcome.judged(id_, limit.ok, limit.reason, expectation.phase, subject)


def _row(rows: Sequence[Row], expectation: Expectation, **other: str) -> Row | None:
    """That of the expectation, or of another phase, op or tier."""
    of = {**_key(expectation), **other}
    key = expectation.layer, of["phase"], of["op"], of["tier"]
    return next((row for row in rows if (row.layer, row.phase, row.op, row.tier) == key), None)


def _made(
    name: str, limit: float, found: float | None, reason: str, ok: bool | None = False, **more: Any
) -> Limit:
    """It is met without a reason, or if it is `ok`; else not met, or open."""
    met = ok or not reason
    return Limit(name=name, limit=limit, found=found, ok=met or ok, reason="" if met else reason, **more)


def _count(by: _Judged) -> Limit:
    needed, tier = by.expectation.min_count, by.expectation.tier
    count, few = by.row.count if by.row else 0, ""
    if count < needed:
        key = (by.expectation.layer, by.expectation.phase, by.expectation.op)
        of = sum(row.count for row in by.rows if (row.layer, row.phase, row.op) == key)
        few = f"{commas(count)} {_ios(by.expectation)}, at least {commas(needed)} expected; others answered "
        few += commas(of - count)
        few += f". {remedies.of_tier(tier)}." if tier != "all" else "."
    return _made("min_count", needed, count, few)


def _inside(by: _Judged) -> Limit:
    row, ios, reason = by.row, _ios(by.expectation), ""
    if row is None:
        reason = f"{ios}: no I/O that could be inside the published range."
    elif row.published is None:
        reason = f"{ios}: there is no published range to be inside of."
    elif not row.published.inside:
        found, published = (format_latency_range(*each) for each in (row.range_us, row.published.range_us))
        reason = f"95 % of {ios} took {found}, published {published}."
    return _made("inside", 1, None, reason)


def _inside_share(limit: float, row: Row, published: Published, latency: Latency) -> Limit:
    """The limit on the share of the I/Os of `row` inside the published range."""
    low, high = (edge * 1e3 for edge in published.range_us)
    found = share_inside(latency.bins, row, published.range_us) or 0.0
    certain = (pl.col("lo_ns") >= low) & (pl.col("hi_ns") <= high)
    possible = (pl.col("hi_ns") > low) & (pl.col("lo_ns") < high)
    known = part(_cells_of(latency.cells, row), certain, possible)
    span = format_latency_range(*published.range_us)
    said = f"{100 * found:.2f} % of {ios_words(row.op, row.tier)} took {span}"
    return _of_share("inside_share_min", limit, found, known, said)


def _holds(name: str, limit: float, known: tuple[float, float]) -> tuple[bool | None, str]:
    """Whether what is `known` is on the right side of the limit (None: open), and how the limit is called."""
    low, high = known
    if name.endswith("_min"):
        return True if low >= limit else False if high < limit else None, "at least"
    return True if high <= limit else False if low > limit else None, "at most"


def _of_share(name: str, limit: float, found: float, known: tuple[float, float], said: str) -> Limit:
    """A limit on a part of the I/Os, `known` as far as the run tells it."""
    low, high = known
    if limit in (0, 1):
        # All, and none, are counted.
        low = high = found
    ok, asked = _holds(name, limit, (low, high))
    reason = f"{said}, limit {asked} {100 * limit:.4g} %."
    if ok is None:
        reason = f"unknown: {reason[:-1]}; of I/Os like these it is {100 * low:.2f} to {100 * high:.2f} %."
    return _made(name, limit, found, reason, ok)


def _limit(name: str, limit: float, by: _Judged) -> Limit:
    """One limit: what was found and why it is not met, "" if it is."""
    if name in PERCENTILES:
        return _percentile(name, limit, by)
    if name in _RATIOS:
        return _ratio(name, limit, by)
    if name == "max_us_max":
        return _longest(limit, by)
    if name == "stall_ms_max":
        return _stall(limit, by)
    mine, found = pl.col("tier") == by.expectation.tier, by.row.share if by.row else 0.0
    known = part(_cells_of(by.latency.cells, by.row, "tier"), mine, mine) if by.row else (0.0, 0.0)
    said = f"{_ios(by.expectation)} were {100 * found:.4g} % of the {by.expectation.op}s"
    return _of_share(name, limit, found, known, said)


def _bounds(row: Row, figure: str) -> tuple[float, float]:
    """Between which a percentile of the run's I/Os, if it is not withheld, lies for certain: its bin."""
    exact, found = row.interpolated.get(figure), getattr(row, f"{figure}_us") or 0.0
    return exact.bound_us if exact else (found, found)


def _percentile(name: str, limit: float, by: _Judged) -> Limit:
    """A percentile: by the part of the I/Os above the limit, as far as the run leaves that open."""
    figure, q, words = PERCENTILES[name]
    row, ios, at_most = by.row, _ios(by.expectation), format_latency(limit, 6)
    found = getattr(row, f"{figure}_us") if row else None
    if row is None:
        return _made(name, limit, found, f"{ios}: no I/O that could have a {words}; limit {at_most}.")
    if found is None:
        few = f"{commas(row.count)} of {commas(sample_needed(q))} I/Os needed"
        return _made(name, limit, found, f"{words} of {ios} is withheld: {few}; limit {at_most}.", None)
    low, high = above(_cells_of(by.latency.cells, row), limit * 1e3)
    if high <= 1 - q:
        return _made(name, limit, found, "")
    value, at_most = format_beside(found, limit)
    if low > 1 - q:
        return _made(name, limit, found, f"{words} of {ios} is {value}, limit {at_most}.")
    part_above = f"of I/Os like these {100 * low:.2f} to {100 * high:.2f} % take longer"
    near = f"{words} of {ios} is {value}, too near to the limit {at_most}"
    return _made(name, limit, found, f"{near}: {part_above}, {100 * (1 - q):.3g} % may.", None)


def _cells_of(frame: pl.DataFrame, row: Row, *of_all: str) -> pl.DataFrame:
    """Those of the row, or of each value of `of_all`."""
    key = {name: getattr(row, name) for name in ("phase", "layer", "op", "tier") if name not in of_all}
    return frame.filter(*(pl.col(name) == value for name, value in key.items()), pl.col("count") > 0)


def _longest(limit: float, by: _Judged) -> Limit:
    """The longest I/O. It is exact unless the run kept only its bin."""
    row, name, at_most = by.row, "max_us_max", format_latency(limit, 6)
    ios = f"the longest of {_ios(by.expectation)}"
    if row is None:
        return _made(name, limit, None, f"{ios}: there is none; limit {at_most}.")
    mine = _cells_of(by.latency.bins, row)
    found = row.max_us
    least: float = found
    if not mine.is_empty() and mine["hi_ns"].max() == round(found * 1e3):
        least = float(mine["lo_ns"].max()) / 1e3  # type: ignore[arg-type]
    if found <= limit:
        return _made(name, limit, found, "")
    if least > limit:
        words = "{} took {}, limit {}.".format(ios, *format_beside(found, limit))
        return _made(name, limit, found, words)
    between = f"{format_latency(least, 6)} to {format_latency(found, 6)}"
    reason = f"{ios} took {between}, as the run kept its bin alone: limit {at_most}."
    return _made(name, limit, found, reason, None)


def _stall(limit: float, by: _Judged) -> Limit:
    """The longest time without an I/O that ended, of all ops and tiers of the phase at the layer."""
    layer = by.expectation.layer
    phase = by.phases.get(by.expectation.phase)
    span = longest_gap_ns(by.latency, phase, layer) if phase else None
    if span is None:
        none = f"unknown whether an I/O ended at least every {limit:g} ms: none did."
        return _made("stall_ms_max", limit, None, none)
    low, high = (edge / 1e6 for edge in span)
    if low > limit:
        reason = f"no I/O ended at the layer {layer} for at least {low:.5g} ms, limit {limit:g} ms."
        return _made("stall_ms_max", limit, low, reason, at_most=high)
    words = f"unknown whether an I/O ended at the layer {layer} at least every {limit:g} ms"
    bounds = f"the longest time without is from {low:.5g} to {high:.5g} ms"
    reason = f"{words}: {bounds}; a shorter interval of the phase bounds it better."
    return _made("stall_ms_max", limit, low, reason, True if high <= limit else None, at_most=high)


def _ratio_range(by: _Judged, figure: str) -> tuple[float, float]:
    """What the run leaves open: by batches of its I/Os, and never less than the bins of both percentiles."""
    q, found, edges = PERCENTILES[f"{figure}_us_max"][1], [], []
    for row in (by.other, by.row):
        phase = by.phases.get(row.phase) if row else None
        if row is None or phase is None:
            return 0.0, math.inf
        found.append(batch_means.quantile(_cells_of(by.latency.cells, row), *by.latency.stretch(phase), q))
        edges.append(_bounds(row, figure))
    within = ratio([found[0]], [found[1]]).range if found[0] and found[1] else None
    (least, most), (mine_least, mine_most) = edges
    low, high = within or (0.0, math.inf)
    return min(low, mine_least / most), max(high, mine_most / max(least, 1e-9))


def _leaves_open(known: tuple[float, float]) -> str:
    if math.isfinite(known[1]):
        return f"within this run it is from {known[0]:.4g} to {known[1]:.4g}"
    return "its I/Os or intervals are too few to say how exactly: a longer phase or shorter intervals tell"


def _ratio(name: str, limit: float, by: _Judged) -> Limit:
    """A percentile of the row, divided by that of another row of the layer."""
    figure, other = _RATIOS[name], by.ratio_to
    ios, label = _ios(by.expectation), ios_words(other["op"], other["tier"])
    label += f" ({other['phase']})" if other["phase"] != by.expectation.phase else ""
    pair = (by.row, by.other)
    found, ok = None, None
    if absent := [words for row, words in zip(pair, (ios, label), strict=True) if row is None]:
        reason = f"no ratio to {label}: {absent[0]} have no I/O."
    else:
        mine, theirs = (getattr(row, f"{figure}_us") for row in pair)
        if mine and theirs:
            found = mine / theirs
            known = _ratio_range(by, figure)
            ok, words = _holds(name, limit, known)
            reason = (
                f"{figure} of {ios} is {format_factor(found, 4)} that of {label} ({format_latency(mine)} and "
                f"{format_latency(theirs)}), limit {words} {format_factor(limit, 2)}."
            )
            if ok is None:
                reason = f"unknown: {reason[:-1]}; {_leaves_open(known)}."
        else:
            words, row = (ios, pair[0]) if not mine else (label, pair[1])
            count, needed = row.count if row else 0, sample_needed(PERCENTILES[f"{figure}_us_max"][1])
            reason = f"no ratio to {label}: {figure} of {words} is withheld, {commas(count)} of "
            reason += f"{commas(needed)} I/Os."
    return _made(name, limit, found, reason, ok, to=OtherRow(**other))
