"""One sentence a candidate: buy, too slow, would not change what clients see, or cannot be told. Pure.

The order: what is today's; what the need excludes; what is not known; what clients would not notice; buy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from kit.core.units import format_latency, format_percent, three_digits
from kit.store.sheet import Decision, Need, SheetLine, SheetValue
from reports.sheet.drives import model_name
from reports.sheet.evidence import ENOUGH_RUNS, ServedLatency
from reports.sheet.facts import APART, DriveFacts
from reports.sheet.latencies import LIMITED, us_alone
from reports.sheet.words import REQUIRED
from reports.statistics.ratios import RatioRange, ratio

_WHAT = {"log": "synchronous writes", "cache": "reads from the L2ARC"}
_OP = {"log": "write", "cache": "read"}


@dataclass(frozen=True)
class Speedup:
    """Baseline over candidate at the NFS server; above 1 the candidate is faster. `same`: None: not told.

    `differs`: which of the two percentiles is known to differ, p99 first. `basis`: see `basis`.
    """

    role: str
    p50: RatioRange
    p99: RatioRange | None
    same: bool | None
    differs: RatioRange | None
    text: str
    basis: str


@dataclass(frozen=True)
class Against:
    """What a candidate is held against. `words`: of the baseline.

    `roles`: of devices that either of the two has. `lacking`: lines that are known not to be met there.
    """

    words: str
    changed: Sequence[Speedup]
    roles: Set[str]
    lacking: Sequence[SheetLine] = ()

    @property
    def is_same(self) -> bool:
        """Whether clients would see no change in anything."""
        same = {each.role for each in self.changed if each.same}
        return bool(same) and len(same) == len(self.changed) and self.roles <= same


@dataclass(frozen=True)
class Decided:
    """`reasons`: what else there is to know, as sentences. `has`: why to buy it, after "it meets"."""

    decision: Decision
    sentence: str
    reasons: tuple[str, ...] = ()
    factor: float | None = None
    has: str = ""


def changes(facts: DriveFacts, base: Mapping[str, ServedLatency | None], within: float) -> list[Speedup]:
    """Of each role that both have: how the medians and p99 of clients differ. `base`: by role."""
    found = []
    for role in _WHAT:
        mine, other = facts.served[role], base[role]
        if mine and other and (p50 := _ratio(mine, other, "p50")):
            p99 = _ratio(mine, other, "p99")
            pair = [p99 and _same(p99, within), _same(p50, within)]
            if mine.doubt or other.doubt or mine.fresh or other.fresh:
                pair = [None, None]
            differs = p99 if pair[0] is False else p50 if pair[1] is False else None
            # A CPU hides what the drive does.
            hidden = mine.cpu_bound or other.cpu_bound
            same = False if differs else True if all(pair) and not hidden else None
            text = _told(role, mine, other, p50)
            found.append(Speedup(role, p50, p99, same, differs, text, basis([mine, other])))
    return found


def _ratio(mine: ServedLatency, other: ServedLatency, name: str) -> RatioRange | None:
    both = mine.of_runs.get(name), other.of_runs.get(name)
    return ratio(both[0], both[1]) if both[0] and both[1] else None


def _told(role: str, mine: ServedLatency, other: ServedLatency, p50: RatioRange) -> str:
    """The change of the medians as a sentence."""
    now, then = (format_latency(each.us("p50") or 0) for each in (mine, other))
    faster = p50 if p50.value >= 1 else RatioRange(-p50.log, p50.reach, p50.over)
    word = "as fast" if p50.value >= 1 else "as long"
    what = _WHAT[role][:1].upper() + _WHAT[role][1:]
    return f"{what}: median {now} instead of {then}, {faster.value:.2f} times {word} ({faster.words()})."


def basis(served: Sequence[ServedLatency | None]) -> str:
    """What figures rest on, where that is little: a sentence, or ""."""
    known = [each for each in served if each]
    parts = []
    if known and (runs := min(each.runs for each in known)) < ENOUGH_RUNS:
        parts.append(
            f"{'1 run' if runs == 1 else f'{runs} runs'} of each: what others would give is not known"
        )
    if lengths := sorted({each.length for each in known} - {""}):
        parts.append(f"a run of {' and '.join(lengths)} length, which is no result to publish")
    if any(each.fresh for each in known):
        parts.append("drives that were not aged: aged ones are slower")
    return f"This is from {'; from '.join(parts)}." if parts else ""


def _gain(against: Against) -> str:
    """What clients would notice, for the sentence that says to buy."""
    told = []
    if against.is_same and against.lacking:
        lacking = ", ".join(f"{line.label[:1].lower()}{line.label[1:]}" for line in against.lacking)
        return f"; {against.words} is as fast, and has not: {lacking}"
    for each in against.changed:
        if each.differs:
            name, value = "p99" if each.differs is each.p99 else "median", each.differs.value
            by = f"{three_digits(max(value, 1 / value))} times {'shorter' if value > 1 else 'longer'}"
            told.append(f"{name} of {_WHAT[each.role]} {by}")
    if against.changed and not told:
        return f"; whether clients would see a change against {against.words} is not known"
    return f"; against {against.words}, {' and '.join(told)}" if told else ""


def decide(
    need: Need, facts: DriveFacts, lines: Sequence[tuple[SheetLine, SheetValue]], against: Against
) -> Decided:
    """`lines`: of the candidate."""
    if need.today == facts.source.name:
        return _today(lines)
    changed = against.changed
    seen = tuple(each.text for each in changed)
    little = f" {text}" if (text := basis([*facts.served.values()])) else ""
    slow = _slow(need, facts, lines)
    unmet = list(_unmet_words(lines, {f"{_OP[role]}_p99" for role, _ in LIMITED}))
    if slow:
        factor, text = slow[0]
        also = tuple(f"Also {each}." for _, each in slow[1:])
        return Decided("too-slow", f"{text}{little}", (*also, *unmet, *seen), factor)
    if unmet:
        return Decided("not-met", f"Do not buy it. {unmet[0]}", (*unmet[1:], *seen))
    asked = [(line, value) for line, value in lines if line.need]
    missing = [_missing(line, value) for line, value in asked if value.met is None]
    if missing:
        also = tuple(f"Not known either: {each}." for each in missing[1:])
        return Decided("cannot-tell", f"Cannot tell: {missing[0]}.", (*also, *seen))
    little = f" {text}" if (text := next((each.basis for each in changed if each.basis), "")) else little
    if against.is_same and not against.lacking:
        whole = (f"It meets {_all(len(asked))}.",) if asked else ()
        return Decided("no-change", f"{_no_change(need, against)}{little}", (*seen, *whole))
    asked_for = tuple(f"{line.label}: {value.text}{_asked(line)}." for line, value in asked)
    has = f"{_all(len(asked_for))}{_gain(against)}.{little}"
    return Decided("buy", f"Buy it: it meets {has}", asked_for, has=has)


def _no_change(need: Need, against: Against) -> str:
    what = " and ".join(_WHAT[each.role] for each in against.changed)
    return (
        f"It would not change what your clients see: {what} take as long as with {against.words}, "
        f"median and p99 within {format_percent(need.same_within)}."
    )


def _today(lines: Sequence[tuple[SheetLine, SheetValue]]) -> Decided:
    """What there is now is not judged; what of the need it has is said, as somebody will ask."""
    asked = [(line, value) for line, value in lines if line.need]
    met = sum(value.met is True for _, value in asked)
    open_ = sum(value.met is None for _, value in asked)
    rest = f"; {open_} not known" if open_ else ""
    has = f" It meets {met} of {len(asked)} needs{rest}." if len(asked) > 1 else ""
    unknown = tuple(f"{line.label}: {value.text}." for line, value in asked if value.met is None)
    return Decided("today", f"This is what you have today.{has}", (*_unmet_words(lines, None), *unknown))


def _asked(line: SheetLine) -> str:
    return "" if line.need == REQUIRED else f" (you need {line.need})"


def _all(asked: int) -> str:
    return f"all {asked} needs" if asked > 1 else "what you need"


def advice(decided: Sequence[tuple[DriveFacts, Decided]], within: float) -> tuple[str, str | None]:
    """The sentence above the table, and the name of the candidate to buy; None: none can be advised.

    Of several: the cheapest, where all prices are known in one currency; of these, and else, the fastest,
    or any of those that cannot be told apart.
    """
    good = [(facts, each) for facts, each in decided if each.decision == "buy"]
    if not good:
        open_ = [facts.source.name for facts, each in decided if each.decision == "cannot-tell"]
        if open_:
            return (
                f"No candidate can be advised yet: of {', '.join(open_)} something you need is not known.",
                None,
            )
        return "Buy none of them.", None
    if len(good) == 1:
        facts, each = good[0]
        return f"Buy {facts.source.name}{_models(facts)}: it meets {each.has}", facts.source.name
    best, by, why = _best([facts for facts, _ in good], within)
    names = " or ".join(f"{each.source.name}{_models(each)}" for each in best)
    why = f": {why}" if why else ""
    little = basis([served for each in best for served in each.served.values()])
    said = f"Buy {names}, {by} of {len(good)} that have all you need{why}. {little}"
    return said.strip(), best[0].source.name


def _best(every: Sequence[DriveFacts], within: float) -> tuple[list[DriveFacts], str, str]:
    """Of several that have all that is needed: the best, what they are, and why or what is not known."""
    prices = [facts.price for facts in every]
    comparable = all(prices) and len({each[1] for each in prices if each}) == 1
    cheap = [each for each in every if not comparable or each.price == min(filter(None, prices))]
    if len(cheap) == 1:
        return [cheap[0]], "the cheapest", ""
    best, by, why = _fastest(cheap, within)
    if comparable and cheap[0].price:
        amount, currency = cheap[0].price
        names = " and ".join(each.source.name for each in cheap)
        both = "both" if len(cheap) == 2 else "all"
        why = f"{names} {both} cost {amount:,.2f} {currency}{', and ' if why else ''}{why}"
    return best, by, why


def _fastest(every: Sequence[DriveFacts], within: float) -> tuple[list[DriveFacts], str, str]:
    """Those that no other is known to be faster than; what they are; and what is not known."""
    role = next((each for each in _WHAT if all(_p99(facts, each) for facts in every)), None)
    if role is None:
        return [*every], "any", "which is the fastest is not known"
    ordered = sorted(every, key=lambda facts: _p99(facts, role))
    first, best = ordered[0].served[role], ordered[:1]
    for facts in ordered[1:]:
        other = facts.served[role]
        apart = _ratio(first, other, "p99") if first and other else None
        doubted = any(each.doubt or each.fresh for each in (first, other) if each)
        if doubted or apart is None or _same(apart, within) is not False:
            best.append(facts)
    what = f"p99 of {_WHAT[role]}"
    if len(best) == 1:
        return best, f"the one with the lowest {what}", ""
    values = ", ".join(format_latency(_p99(facts, role)) for facts in best)
    return best, "any" if len(best) > 2 else "either", f"their {what} ({values}) cannot be told apart"


def _models(facts: DriveFacts) -> str:
    """The models of its drives: in brackets, unless they have some themselves."""
    models = " and ".join(dict.fromkeys(filter(None, map(model_name, facts.devices))))
    if "(" in models:
        return f", {models}"
    return f" ({models})" if models else ""


def _same(of: RatioRange, within: float) -> bool | None:
    """Whether all that a ratio can be is within `within`; None where that is open, False where none is.

    From a run of each, a difference is one only beyond what other runs of them could differ by (APART).
    """
    low, high = 1 / (1 + within), 1 + within
    if of.decides:
        return of.inside(low, high)
    if of.inside(low / (1 + APART), high * (1 + APART), of_this_run=True) is False:
        return False
    return of.inside(low, high, of_this_run=True) or None


def _slow(
    need: Need, facts: DriveFacts, lines: Sequence[tuple[SheetLine, SheetValue]]
) -> list[tuple[float, str]]:
    """Limits of latency that are broken, the worst first: by how much, and the sentence."""
    found = []
    values = {line.key: value for line, value in lines}
    for role, key in LIMITED:
        value, limit = values[f"{_OP[role]}_p99"], getattr(need, key)
        if value.met is not False or not limit:
            continue
        us = value.value if value.value is not None else us_alone(facts, role, "p99")
        if us is None:
            continue
        where = "" if value.value is not None else " on the drive alone"
        text = (
            f"p99 of {_WHAT[role]} is {format_latency(us)}{where}, you need at most {format_latency(limit)}"
        )
        found.append((us / limit, text))
    found.sort(reverse=True)
    first = [
        (factor, f"Too slow by \N{MULTIPLICATION SIGN} {factor:.1f}: {text}.") for factor, text in found[:1]
    ]
    return [*first, *found[1:]]


def _unmet_words(lines: Sequence[tuple[SheetLine, SheetValue]], besides: set[str] | None) -> list[str]:
    return [
        f"{line.label}: {value.text}, you need {line.need}."
        if line.need != REQUIRED
        else f"{line.label}: {value.text} ({value.note})."
        for line, value in lines
        if line.need and value.met is False and line.key not in (besides or ())
    ]


def _missing(line: SheetLine, value: SheetValue) -> str:
    return f"{line.label[:1].lower()}{line.label[1:]}: {value.text}{f' ({value.note})' if value.note else ''}"


def _p99(facts: DriveFacts, role: str) -> float:
    """In us; 0 where it is not known."""
    found = facts.served[role]
    return (found.us("p99") if found else None) or 0.0
