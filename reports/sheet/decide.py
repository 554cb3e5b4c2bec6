"""One sentence a candidate: buy, too slow, would not change what clients see, or cannot be told. Pure.

The order: what is today's; what the need excludes; what of it is not known; a need that only the candidate
meets; what would be slower; what clients would not notice; what would be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from kit.core.units import format_factor, format_latency, format_percent
from kit.store.sheet import Decision, Need, SheetLine, SheetValue
from reports.sheet.drives import model_name
from reports.sheet.evidence import OPS
from reports.sheet.facts import DriveFacts
from reports.sheet.latencies import LIMITED, us_alone
from reports.sheet.speedup import WHAT, Speedup, basis, is_same, ratio_of
from reports.sheet.words import REQUIRED


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
        found += [f"a run of both with {what}" for role, what in WHAT.items() if role in unlike]
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
    """The first sentence of docs/sheet.md that is true. `lines`: of the candidate."""
    candidate = _Candidate(need, facts, lines, against)
    return next(conclusion(candidate) for is_true, conclusion in _ORDER if is_true(candidate))


@dataclass(frozen=True)
class _Candidate:
    """What the sentence depends on, and the sentence of each conclusion."""

    need: Need
    facts: DriveFacts
    lines: Sequence[tuple[SheetLine, SheetValue]]
    against: Against

    @cached_property
    def asked(self) -> list[tuple[SheetLine, SheetValue]]:
        return [(line, value) for line, value in self.lines if line.need]

    @cached_property
    def slow(self) -> list[tuple[float, str]]:
        return _slow(self.need, self.facts, self.lines)

    @cached_property
    def unmet(self) -> list[str]:
        """But for the limits of latency."""
        return _unmet_words(self.lines, {f"{op}_p99" for op in OPS.values()})

    @cached_property
    def missing(self) -> list[str]:
        open_ = [(_name(line), value) for line, value in self.asked if value.met is None]
        return [f"{name}: {value.text}{f' ({value.note})' if value.note else ''}" for name, value in open_]

    @property
    def seen(self) -> Sequence[str]:
        return [each.text for each in self.against.changed]

    @property
    def meets(self) -> str:
        return f"all {len(self.asked)} needs" if len(self.asked) > 1 else "what you need"

    def basis(self, changed: Sequence[Speedup] = ()) -> str:
        """What the sentence rests on: the figures of `changed`, or else those of the candidate."""
        text = next((each.basis for each in changed if each.basis), "")
        text = text or basis([*self.facts.served.values()], full=False)
        return f" {text}" if text else ""

    def not_bought(self, decision: Decision, text: str, has: str = "") -> Decided:
        """Of a candidate that has all that is needed."""
        meets = [f"It meets {self.meets}."] if self.asked else []
        text = f"{text}{self.basis(self.against.changed)}"
        return Decided(decision, text, (*self.seen, *meets), has=has)

    def todays(self) -> Decided:
        """What there is now is not judged; what of the need it has is said, as somebody will ask."""
        met = sum(value.met is True for _, value in self.asked)
        rest = f"; {len(self.missing)} not known" if self.missing else ""
        has = f" It meets {met} of {len(self.asked)} needs{rest}." if len(self.asked) > 1 else ""
        unknown = [f"{line.label}: {value.text}." for line, value in self.asked if value.met is None]
        reasons = (*_unmet_words(self.lines), *unknown)
        return Decided("today", f"This is what you have today.{has}", reasons)

    def too_slow(self) -> Decided:
        factor, text = self.slow[0]
        also = [f"Also {each}." for _, each in self.slow[1:]]
        return Decided("too-slow", f"{text}{self.basis()}", (*also, *self.unmet, *self.seen), factor)

    def not_met(self) -> Decided:
        return Decided("not-met", f"Do not buy it. {self.unmet[0]}", (*self.unmet[1:], *self.seen))

    def need_unknown(self) -> Decided:
        also = [f"Not known either: {each}." for each in self.missing[1:]]
        told = f"Cannot tell: {self.missing[0]}."
        first = next(_name(line) for line, value in self.asked if value.met is None)
        more = f" and {len(also)} more" if also else ""
        return Decided("cannot-tell", told, (*also, *self.seen), has=f'the need "{first}"{more}')

    def worse(self) -> Decided:
        words, gains = self.against.words, self.against.told("shorter")
        known = f"Do not buy it: against {words}, {_both(gains, self.against.told('longer'))}."
        but = f" Only a need that {words} does not meet is a reason to buy it." if gains else ""
        return self.not_bought("worse", f"{known}{but}")

    def no_change(self) -> Decided:
        what = " and ".join(WHAT[each.role] for each in self.against.changed)
        text = f"It would not change what your clients see: {what} take as long as with {self.against.words}"
        within = format_percent(self.need.same_within)
        return self.not_bought("no-change", f"{text}, median and p99 within {within}.")

    def change_unknown(self) -> Decided:
        told = f"Cannot tell: it meets {self.meets}{_gain(self.against)}."
        text = f"{told} What would tell: {self.against.tells}."
        return self.not_bought("cannot-tell", text, "the change for clients")

    def buy(self) -> Decided:
        asked_for = tuple(f"{line.label}: {value.text}{_asked(line)}." for line, value in self.asked)
        has = f"{self.meets}{_gain(self.against)}."
        losses = self.against.told("longer")
        loss = f"Against {self.against.words}, {self.facts.source.name}: {losses}." if losses else ""
        text = f"Buy it: it meets {has}{self.basis(self.against.changed)}"
        return Decided("buy", text, asked_for, has=has, loss=loss)


# Condition and conclusion, in the order of docs/sheet.md, "The sentence".
_ORDER: Sequence[tuple[Callable[[_Candidate], object], Callable[[_Candidate], Decided]]] = (
    (lambda it: it.need.today == it.facts.source.name, _Candidate.todays),
    (lambda it: it.slow, _Candidate.too_slow),
    (lambda it: it.unmet, _Candidate.not_met),
    (lambda it: it.missing, _Candidate.need_unknown),
    (lambda it: it.against.lacking, _Candidate.buy),
    (lambda it: it.against.told("longer"), _Candidate.worse),
    (lambda it: it.against.is_same, _Candidate.no_change),
    (lambda it: it.against.is_today and not it.against.is_better, _Candidate.change_unknown),
    (lambda it: True, _Candidate.buy),
)


def _asked(line: SheetLine) -> str:
    return "" if line.need == REQUIRED else f" (you need {line.need})"


def advice(decided: Sequence[tuple[DriveFacts, Decided]], within: float) -> tuple[str, str | None]:
    """The sentence above the table, and the name of the candidate to buy; None: none can be advised.

    Of several: the cheapest, where all prices are known in one currency; of these, and else, the fastest,
    or any of those that cannot be told apart.
    """
    good = [(facts, each) for facts, each in decided if each.decision == "buy"]
    if not good:
        return _with_basis([_none_to_buy(decided)], [facts for facts, _ in decided]), None
    if len(good) == 1:
        facts, each = good[0]
        said = f"Buy {facts.source.name}{_models(facts)}: it meets {each.has}"
        today = [other for other, its in decided if its.decision == "today"]
        return _with_basis([said], [facts, *today]), facts.source.name
    best, by, why = _best([facts for facts, _ in good], within)
    names = " or ".join(f"{each.source.name}{_models(each)}" for each in best)
    why = f": {why}" if why else ""
    losses = [each.loss for facts, each in good if any(facts is one for one in best)]
    said = f"Buy {names}, {by} of {len(good)} that have all you need{why}."
    return _with_basis([said, *losses], best), best[0].source.name


def _with_basis(said: Sequence[str], of: Sequence[DriveFacts]) -> str:
    little = basis([served for each in of for served in each.served.values()])
    return " ".join(filter(None, (*said, little)))


def _none_to_buy(decided: Sequence[tuple[DriveFacts, Decided]]) -> str:
    unknown: dict[str, list[str]] = {}
    for facts, each in decided:
        if each.decision == "cannot-tell":
            unknown.setdefault(each.has, []).append(facts.source.name)
    if unknown:
        open_ = "; ".join(f"{what} is not known of {', '.join(names)}" for what, names in unknown.items())
        return f"No candidate can be advised yet: {open_}."
    today = [facts.source.name for facts, each in decided if each.decision == "today"]
    keep = today and any(each.decision in ("worse", "no-change") for _, each in decided)
    return f"Buy none of them{f': keep what you have ({today[0]})' if keep else ''}."


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
    role = next((each for each in WHAT if all(_p99(facts, each) for facts in every)), None)
    if role is None:
        return [*every], "any", "which is the fastest is not known"
    ordered = sorted(every, key=lambda facts: _p99(facts, role))
    first, best = ordered[0].served[role], ordered[:1]
    for facts in ordered[1:]:
        other = facts.served[role]
        apart = ratio_of(first, other, "p99") if first and other else None
        doubted = any(each.doubt or each.fresh for each in (first, other) if each)
        if doubted or apart is None or is_same(apart, within) is not False:
            best.append(facts)
    what = f"p99 of {WHAT[role]}"
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


def _slow(
    need: Need, facts: DriveFacts, lines: Sequence[tuple[SheetLine, SheetValue]]
) -> list[tuple[float, str]]:
    """Limits of latency that are broken, the worst first: by how much, and the sentence."""
    found = []
    values = {line.key: value for line, value in lines}
    for role, key in LIMITED:
        value, limit = values[f"{OPS[role]}_p99"], getattr(need, key)
        if value.met is not False or not limit:
            continue
        us = value.value if value.value is not None else us_alone(facts, role, "p99")
        if us is None:
            continue
        where = "" if value.value is not None else " on the drive alone"
        text = f"p99 of {WHAT[role]} is {format_latency(us)}{where}, you need at most {format_latency(limit)}"
        found.append((us / limit, text))
    found.sort(reverse=True)
    first = [(factor, f"{format_factor(factor)} too slow: {text}.") for factor, text in found[:1]]
    return [*first, *found[1:]]


def _unmet_words(lines: Sequence[tuple[SheetLine, SheetValue]], besides: Set[str] = frozenset()) -> list[str]:
    return [
        f"{line.label}: {value.text}, you need {line.need}."
        if line.need != REQUIRED
        else f"{line.label}: {value.text} ({value.note})."
        for line, value in lines
        if line.need and value.met is False and line.key not in besides
    ]


def _name(line: SheetLine) -> str:
    """Within a sentence; L2ARC stays as it is."""
    return line.label if line.label[1:2].isdigit() else f"{line.label[:1].lower()}{line.label[1:]}"


def _p99(facts: DriveFacts, role: str) -> float:
    """In us; 0 where it is not known."""
    found = facts.served[role]
    return (found.us("p99") if found else None) or 0.0
