"""One sentence a candidate: buy, too slow, would not change what clients see, or cannot be told. Pure.

The order: what is today's; what the need excludes; what clients would not notice; what is not known; buy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kit.core.units import format_latency, three_digits
from kit.store.sheet import Decision, Need, SheetLine, SheetValue
from reports.sheet.drives import model_name
from reports.sheet.evidence import Served
from reports.sheet.facts import Facts
from reports.sheet.latencies import LIMITED, us_alone
from reports.statistics.ratios import Figure

_WHAT = {"log": "synchronous writes", "cache": "reads from the L2ARC"}
_OP = {"log": "write", "cache": "read"}


@dataclass(frozen=True)
class Change:
    """Baseline over candidate at the NFS server; above 1 the candidate is faster. `same`: None: not told."""

    role: str
    p50: Figure
    same: bool | None
    text: str


@dataclass(frozen=True)
class Decided:
    """`reasons`: what else there is to know, as sentences. `has`: why to buy it, after "it has"."""

    decision: Decision
    sentence: str
    reasons: tuple[str, ...] = ()
    factor: float | None = None
    has: str = ""


def changes(facts: Facts, base: Mapping[str, Served | None], within: float) -> list[Change]:
    """Of each role that both have: how the medians and p99 of clients differ. `base`: by role."""
    found = []
    for role in _WHAT:
        mine, other = facts.served[role], base[role]
        if not mine or not other or "p50" not in mine.figures or "p50" not in other.figures:
            continue
        ratio = other.figures["p50"].minus(mine.figures["p50"])
        same = None if mine.doubt or other.doubt else _same(ratio, within)
        tails = [each.figures.get("p99") for each in (mine, other)]
        if same and tails[0] and tails[1] and _same(tails[1].minus(tails[0]), within) is False:
            same = False  # their medians are the same, and one has longer tails
        if same and mine.cpu_bound:
            same = None  # a CPU hides what the drive does
        found.append(Change(role, ratio, same, _told(role, mine, other, ratio)))
    return found


def _told(role: str, mine: Served, other: Served, ratio: Figure) -> str:
    """The change of the medians as a sentence."""
    now, then = (format_latency(each.figures["p50"].value) for each in (mine, other))
    faster = ratio if ratio.value >= 1 else Figure(-ratio.log, ratio.reach)
    known = f" (95 %: {faster.range[0]:.2f} to {faster.range[1]:.2f})" if faster.range else ""
    word = "as fast" if ratio.value >= 1 else "as long"
    what = _WHAT[role][:1].upper() + _WHAT[role][1:]
    return f"{what}: median {now} instead of {then}, {faster.value:.2f} times {word}{known}."


def _gain(changed: Sequence[Change], baseline: str) -> str:
    """What clients would notice, for the sentence that says to buy; "" if nothing is known to be faster."""
    faster = [each for each in changed if each.same is False and each.p50.value > 1]
    told = [f"{_WHAT[each.role]} {three_digits(each.p50.value)} times as fast" for each in faster]
    return f"; against {baseline}, {' and '.join(told)}" if told else ""


def decide(
    need: Need,
    facts: Facts,
    lines: Sequence[tuple[SheetLine, SheetValue]],
    changed: Sequence[Change],
    baseline: str,
) -> Decided:
    """`lines`: of the candidate. `baseline`: the words for what `changed` is against."""
    if need.today == facts.source.name:
        return _today(lines)
    seen = tuple(each.text for each in changed)
    slow = _slow(need, facts, lines)
    unmet = list(_unmet_words(lines, {f"{_OP[role]}_p99" for role, _ in LIMITED}))
    if slow:
        factor, text = slow[0]
        also = tuple(f"Also {each}." for _, each in slow[1:])
        return Decided("too-slow", text, (*also, *unmet, *seen), factor)
    if unmet:
        return Decided("not-met", f"Do not buy it. {unmet[0]}", (*unmet[1:], *seen))
    asked = [value.met for line, value in lines if line.need]
    if changed and all(each.same for each in changed):
        whole = (f"It has {_all(len(asked))}.",) if asked and all(asked) else ()
        return Decided(
            "no-change",
            "It would not change what your clients see: "
            f"{' and '.join(_WHAT[each.role] for each in changed)} take as long as with {baseline}, "
            f"within {need.same_within:.0%}.",
            (*seen, *whole),
        )
    missing = [(line, value) for line, value in lines if line.need and value.met is None]
    if missing:
        return Decided("cannot-tell", f"Cannot tell: {_missing(*missing[0])}.", tuple(
            f"Not known either: {_missing(*each)}." for each in missing[1:]) + seen)  # fmt: skip
    asked_for = tuple(f"{line.label}: {value.text}{_asked(line)}." for line, value in lines if line.need)
    has = f"{_all(len(asked_for))}{_gain(changed, baseline)}"
    return Decided("buy", f"Buy it: it has {has}.", asked_for, has=has)


def _today(lines: Sequence[tuple[SheetLine, SheetValue]]) -> Decided:
    """What there is now is not judged; what of the need it has is said, as somebody will ask."""
    asked = [(line, value) for line, value in lines if line.need]
    met = sum(value.met is True for _, value in asked)
    open_ = sum(value.met is None for _, value in asked)
    rest = f"; of {open_} it is not known" if open_ else ""
    has = f" It has {met} of the {len(asked)} things that you need{rest}." if len(asked) > 1 else ""
    unknown = tuple(f"{line.label}: {value.text}." for line, value in asked if value.met is None)
    return Decided("today", f"This is what you have today.{has}", (*_unmet_words(lines, None), *unknown))


def _asked(line: SheetLine) -> str:
    return "" if line.need == "must" else f" (you need {line.need})"


def _all(asked: int) -> str:
    return f"all {asked} things that you need" if asked > 1 else "what you need"


def advice(decided: Sequence[tuple[Facts, Decided]]) -> tuple[str, str | None]:
    """The sentence above the table, and the name of the candidate to buy; None: none can be advised.

    Of several: the cheapest, where all prices are known in one currency; else the fastest synchronous writes.
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
    prices = [facts.price for facts, _ in good]
    comparable = all(prices) and len({each[1] for each in prices if each}) == 1
    best = min(good, key=lambda one: one[0].price[0] if comparable and one[0].price else _p99(one[0]))[0]
    why = f": it has {next(each.has for facts, each in good if facts is best)}."
    if len(good) > 1:
        by = "the cheapest" if comparable else "the one with the lowest p99 of synchronous writes"
        why = f", {by} of {len(good)} that have all you need."
    return f"Buy {best.source.name}{_models(best)}{why}", best.source.name


def _models(facts: Facts) -> str:
    """The models of its drives: in brackets, unless they have some themselves."""
    models = " and ".join(dict.fromkeys(filter(None, map(model_name, facts.devices))))
    if "(" in models:
        return f", {models}"
    return f" ({models})" if models else ""


def _same(ratio: Figure, within: float) -> bool | None:
    """Whether all that a ratio can be is within `within`; None where that is open, False where none is."""
    low, high = ratio.range or (0.0, math.inf)
    if high < 1 / (1 + within) or low > 1 + within:
        return False
    return True if low >= 1 / (1 + within) and high <= 1 + within else None


def _slow(need: Need, facts: Facts, lines: Sequence[tuple[SheetLine, SheetValue]]) -> list[tuple[float, str]]:
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
        if line.need != "must"
        else f"{line.label}: {value.text} ({value.note})."
        for line, value in lines
        if line.need and value.met is False and line.key not in (besides or ())
    ]


def _missing(line: SheetLine, value: SheetValue) -> str:
    return f"{line.label[:1].lower()}{line.label[1:]}: {value.text}{f' ({value.note})' if value.note else ''}"


def _p99(facts: Facts) -> float:
    log = facts.served["log"]
    return (log.us("p99") if log else None) or math.inf
