"""One sentence a candidate: buy, too slow, would not change what clients see, or cannot be told. Pure.

The order: what is today's; what the need excludes; what of it is not known; a need that only the candidate
meets; what would be slower; what clients would not notice; what would be faster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kit.core.sample_size import sample_needed
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

    `differs`: what is known to differ, p99 first; the median where p99 does not say the same. `kept`: p99 is
    known to be no longer. `tells`: what would tell more. `basis`: see `basis`.
    """

    role: str
    p50: RatioRange
    p99: RatioRange | None
    same: bool | None
    differs: Sequence[tuple[str, RatioRange]]
    kept: bool
    text: str
    tells: str
    basis: str

    def told(self, word: str) -> list[str]:
        """What is known to be "shorter" or "longer", in words."""
        return [
            f"{name} of {_WHAT[self.role]} {three_digits(max(value, 1 / value))} times {word}"
            for name, value in ((name, each.value) for name, each in self.differs)
            if (value > 1) == (word == "shorter")
        ]


@dataclass(frozen=True)
class Against:
    """What a candidate is held against. `words`: of the baseline. `is_today`: the need names it.

    `roles`: of devices that either of the two has. `lacking`: lines that the candidate alone meets.
    """

    words: str
    changed: Sequence[Speedup]
    roles: Set[str]
    lacking: Sequence[SheetLine] = ()
    is_today: bool = False

    @property
    def is_same(self) -> bool:
        """Whether clients would see no change in anything."""
        same = {each.role for each in self.changed if each.same}
        return bool(same) and len(same) == len(self.changed) and self.roles <= same

    @property
    def is_better(self) -> bool:
        """Whether something is known to be faster, without a p99 of it that may be slower."""
        return any(each.kept and each.told("shorter") for each in self.changed)

    def told(self, word: str) -> str:
        return " and ".join(text for each in self.changed for text in each.told(word))

    @property
    def tells(self) -> str:
        """What would tell whether clients see a change."""
        unlike = self.roles - {each.role for each in self.changed}
        found = [each.tells for each in self.changed if not each.same]
        found += [f"a run of both with {what}" for role, what in _WHAT.items() if role in unlike]
        return "; ".join(dict.fromkeys(found)) or "a run of both"


@dataclass(frozen=True)
class Decided:
    """`reasons`: what else there is to know, as sentences. `factor`: how many times too slow.

    `has`: why to buy it, after "it meets"; or what is not known of it. `loss`: what of it is slower.
    """

    decision: Decision
    sentence: str
    reasons: tuple[str, ...] = ()
    factor: float | None = None
    has: str = ""
    loss: str = ""


def changes(facts: DriveFacts, base: Mapping[str, ServedLatency | None], within: float) -> list[Speedup]:
    """Of each role that both have: how the medians and p99 of clients differ. `base`: by role."""
    found = []
    for role in _WHAT:
        mine, other = facts.served[role], base[role]
        if mine and other and (p50 := _ratio(mine, other, "p50")):
            p99 = _ratio(mine, other, "p99")
            figures = [("p99", p99), ("median", p50)]
            pair = [each and _same(each, within) for _, each in figures]
            if doubted := bool(mine.doubt or other.doubt or mine.fresh or other.fresh):
                pair = [None, None]
            # A CPU hides what the drive does: that the slower of the two is slow.
            differs = [
                (name, each)
                for (name, each), alike in zip(figures, pair, strict=True)
                if each and alike is False and not (mine if each.value < 1 else other).cpu_bound
            ]
            if len({each.value > 1 for _, each in differs}) == 1:
                differs = differs[:1]
            hidden = mine.cpu_bound or other.cpu_bound
            same = False if differs else True if all(pair) and not hidden else None
            kept = bool(not doubted and p99 and p99.range and p99.range[0] >= 1 / (1 + within))
            text, tells = _told(role, mine, other, p50), _tells(role, mine, other)
            found.append(Speedup(role, p50, p99, same, differs, kept, text, tells, basis([mine, other])))
    return found


def _tells(role: str, mine: ServedLatency, other: ServedLatency) -> str:
    """What would tell whether they differ, where these runs do not."""
    if doubt := mine.doubt or other.doubt:
        return f"valid runs ({doubt})"
    if mine.fresh or other.fresh:
        return "aged drives"
    if not all("p99" in each.of_runs for each in (mine, other)):
        return f"at least {sample_needed(0.99):,} {_WHAT[role]} in each run"
    if mine.cpu_bound or other.cpu_bound:
        return "a load at which no CPU is the limit"
    few = min(mine.runs, other.runs) < ENOUGH_RUNS
    return f"{'three' if few else 'more'} runs of each (`--repeat`)"


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
    """What clients would notice, and what the baseline lacks, for the sentence that says to buy."""
    gains, losses = against.told("shorter"), against.told("longer")
    lacking = ", ".join(_name(line) for line in against.lacking)
    if against.is_same and lacking:
        return f"; {against.words} is as fast, and has not: {lacking}"
    told = f"; against {against.words}, {_both(gains, losses)}" if gains or losses else ""
    if (against.changed or against.is_today) and not told:
        told = f"; whether clients would see a change against {against.words} is not known"
    return f"{told}; {against.words} does not meet: {lacking}" if lacking and (losses or not gains) else told


def _both(gains: str, losses: str) -> str:
    return ", but ".join(filter(None, (gains, losses)))


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
        told = f"Cannot tell: {missing[0]}."
        return Decided("cannot-tell", told, (*also, *seen), has="something you need")
    little = f" {text}" if (text := next((each.basis for each in changed if each.basis), "")) else little
    if not against.lacking and (found := _not_better(need, against, _all(len(asked)), little)):
        return replace(found, reasons=(*seen, *((f"It meets {_all(len(asked))}.",) if asked else ())))
    asked_for = tuple(f"{line.label}: {value.text}{_asked(line)}." for line, value in asked)
    has = f"{_all(len(asked_for))}{_gain(against)}.{little}"
    losses = against.told("longer")
    loss = f"Against {against.words}, {facts.source.name}: {losses}." if losses else ""
    return Decided("buy", f"Buy it: it meets {has}", asked_for, has=has, loss=loss)


def _not_better(need: Need, against: Against, meets: str, little: str) -> Decided | None:
    """Of a candidate that has all that is needed, as what there is now has: why not to buy it, if so."""
    gains, losses = against.told("shorter"), against.told("longer")
    if losses:
        known = f"Do not buy it: against {against.words}, {_both(gains, losses)}."
        but = f" Only a need that {against.words} does not meet is a reason to buy it." if gains else ""
        return Decided("worse", f"{known}{but}{little}")
    if against.is_same:
        return Decided("no-change", f"{_no_change(need, against)}{little}")
    if against.is_today and not against.is_better:
        text = f"Cannot tell: it meets {meets}{_gain(against)}. What would tell: {against.tells}.{little}"
        return Decided("cannot-tell", text, has="the change for clients")
    return None


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
        unknown: dict[str, list[str]] = {}
        for facts, each in decided:
            if each.decision == "cannot-tell":
                unknown.setdefault(each.has, []).append(facts.source.name)
        if unknown:
            open_ = "; ".join(f"of {', '.join(names)} {what} is not known" for what, names in unknown.items())
            return f"No candidate can be advised yet: {open_}.", None
        today = [facts.source.name for facts, each in decided if each.decision == "today"]
        keep = today and any(each.decision in ("worse", "no-change") for _, each in decided)
        return f"Buy none of them{f': keep what you have ({today[0]})' if keep else ''}.", None
    if len(good) == 1:
        facts, each = good[0]
        return f"Buy {facts.source.name}{_models(facts)}: it meets {each.has}", facts.source.name
    best, by, why = _best([facts for facts, _ in good], within)
    names = " or ".join(f"{each.source.name}{_models(each)}" for each in best)
    why = f": {why}" if why else ""
    little = basis([served for each in best for served in each.served.values()])
    losses = [each.loss for facts, each in good if any(facts is one for one in best)]
    said = f"Buy {names}, {by} of {len(good)} that have all you need{why}."
    return " ".join(filter(None, (said, *losses, little))), best[0].source.name


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
    return f"{_name(line)}: {value.text}{f' ({value.note})' if value.note else ''}"


def _name(line: SheetLine) -> str:
    """Within a sentence; L2ARC stays as it is."""
    return line.label if line.label[1:2].isdigit() else f"{line.label[:1].lower()}{line.label[1:]}"


def _p99(facts: DriveFacts, role: str) -> float:
    """In us; 0 where it is not known."""
    found = facts.served[role]
    return (found.us("p99") if found else None) or 0.0
