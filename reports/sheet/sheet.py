"""From the runs of candidates and a need to the sheet. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from kit.core.text import safe_text
from kit.core.units import format_factor
from kit.store.labels import EMULATED
from kit.store.sheet import Candidate, Need, Sheet, SheetLine, SheetValue
from reports.sheet.decide import Against, Decided, advice, decide
from reports.sheet.drives import drive_lines, price_lines, safety_lines, wear_lines
from reports.sheet.evidence import OPS, EvidenceSource
from reports.sheet.facts import NOT_KNOWN, DriveFacts, facts_of, line, unknown
from reports.sheet.latencies import CLIENTS, Line, alone_lines, client_lines
from reports.sheet.sized import sized_lines, sized_notes, sized_sentence
from reports.sheet.speedup import WHAT, Speedup, changes


def sheet_of(sources: Sequence[EvidenceSource], need: Need, kit: str, notes: Sequence[str] = ()) -> Sheet:
    """The sheet. `kit`: its version; `notes`: what else is to know of the runs, as sentences."""
    facts = facts_of(sources, need)
    today = next((each for each in facts if each.source.name == need.today), None)
    baseline = f"what you have ({need.today})" if today else "the same pool without such a drive"
    lines, decided, columns = [], [], []
    for each in facts:
        roles = {role for one in (each, today) if one for role in each.served if one.source.devices(role)}
        base = _serving(today, roles) if today else replace(each, served=each.without)
        changed = changes(_serving(each, roles), base.served, need.same_within)
        mine = _lines(each, changed, baseline)
        lacking = _lacking(base, today, mine)
        found = decide(need, each, mine, Against(baseline, changed, roles, lacking, bool(today)))
        lines.append([line for line, _ in mine])
        decided.append((each, found))
        columns.append(_column(each, found, mine))
    said, choice = advice(decided, need.same_within)
    columns.sort(key=lambda column: column.name != safe_text(choice or ""))
    return Sheet(
        kit=kit,
        need=need,
        advice=safe_text(said),
        choice=choice,
        baseline=baseline,
        lines=tuple(_shown(lines, columns)),
        candidates=tuple(columns),
        notes=tuple(map(safe_text, [*_notes(facts), *notes])),
    )


def _serving(facts: DriveFacts, roles: Set[str]) -> DriveFacts:
    """In these roles, with what serves instead where there is no such device."""
    found = {
        role: (facts.served if facts.source.devices(role) else facts.without)[role] if role in roles else None
        for role in facts.served
    }
    return replace(facts, served=found)


def _lacking(base: DriveFacts, today: DriveFacts | None, mine: Sequence[Line]) -> list[SheetLine]:
    """Lines that the candidate meets, and the baseline is known not to. What is there is paid for."""
    met = {line.key for line, value in mine if value.met} - {"price"}
    theirs = _lines(base, (), "") if today else client_lines(base)
    return [line for line, value in theirs if value.met is False and line.key in met]


def _lines(facts: DriveFacts, changed: Sequence[Speedup], baseline: str) -> list[Line]:
    return [
        *client_lines(facts),
        *_change_lines(changed, baseline),
        *sized_lines(facts),
        *safety_lines(facts),
        *wear_lines(facts),
        *price_lines(facts),
        *alone_lines(facts),
        *drive_lines(facts),
    ]


def _change_lines(changed: Sequence[Speedup], baseline: str) -> list[Line]:
    known = {each.role: each for each in changed}
    found = []
    for role, op in OPS.items():
        value = unknown("one of the two was not measured")
        if change := known.get(role):
            p50, text = change.p50, format_factor(change.p50.value)
            value = SheetValue(text=text, value=p50.value, range=p50.range, note=f"of medians; {p50.words()}")
        label = f"{WHAT[role][:1].upper()}{WHAT[role][1:]}, median: as fast as with {baseline}"
        found.append((line(CLIENTS, f"{op}_change", label), value))
    return found


def _column(facts: DriveFacts, decided: Decided, lines: Sequence[Line]) -> Candidate:
    return Candidate(
        name=safe_text(facts.source.name),
        decision=decided.decision,
        sentence=safe_text(decided.sentence),
        reasons=tuple(map(safe_text, [*decided.reasons, *sized_sentence(facts)])),
        factor=decided.factor,
        runs=tuple(run.name for run in facts.source.runs),
        emulated=facts.source.emulated,
        values={line.key: _safe(value) for line, value in lines},
    )


def _safe(value: SheetValue) -> SheetValue:
    return value.model_copy(update={"text": safe_text(value.text), "note": safe_text(value.note)})


def _shown(lines: Sequence[Sequence[SheetLine]], columns: Sequence[Candidate]) -> list[SheetLine]:
    """The lines, each once, without those that no candidate has a value on and the need does not ask for."""
    every = {line.key: line for of_one in lines for line in sorted(of_one, key=lambda each: bool(each.need))}
    return [
        every[key]
        for key in dict.fromkeys(line.key for of_one in lines for line in of_one)
        if every[key].need or any(column.values[key].text != NOT_KNOWN for column in columns)
    ]


def _notes(facts: Sequence[DriveFacts]) -> list[str]:
    found = []
    if any(each.source.emulated for each in facts):
        found.append(f"{EMULATED}: latencies are those of models. Prices are the testbed's.")
    if missing := [each.source.name for each in facts if not each.source.devices("log")]:
        found.append(f"No log device: {', '.join(missing)}.")
    if facts[0].source.sizing:
        found += sized_notes(facts[0].source.sizing)
    return found
