"""A summary as JUnit XML, as CI servers read it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from kit.store.checks.ids import id_of_expectation, id_of_sum
from kit.store.summary import JudgedExpectation, PhaseAccounting, Reason, Summary

# What XML 1.0 (section 2.2) does not allow, not even escaped; C1, and what turns the direction of writing.
_FORBIDDEN = re.compile(
    "[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    "|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def junit(*summaries: Summary) -> bytes:
    """One suite a run: a case for the verdict, one per check, reason and expectation, called by its id.

    An unknown verdict is an <error>, and what it leaves open is <skipped>; what is not met or not valid is a
    <failure>. A known failure is <skipped> with its entry: CI servers show that it did not pass, and do not
    fail. Foreign text has no markup and none of the characters that XML 1.0 forbids.
    """
    return document(*map(_suite, summaries))


def _suite(summary: Summary) -> ET.Element:
    name = f"{summary.workload or 'hsp'}{f' ({summary.length})' if summary.length else ''}"
    suite = ET.Element("testsuite", name=name)
    _verdict(case(suite, name, "verdict"), summary)
    if summary.power_loss:
        _power_losses(suite, name, summary)
    for phase in summary.accounting.phases:
        _checks(suite, name, phase, summary)
    sums = {(each.phase, str(check)) for each in summary.accounting.phases for check in each.checks}
    for cause in summary.causes:
        if (
            (cause.phase, cause.text) not in sums
            and cause.makes != "invalid"
            and str(cause) != summary.by_nature
        ):
            made = case(suite, f"{name}.{cause.phase}" if cause.phase else name, cause.id)
            _add_reason(made, "error", "the measurement cannot be trusted", [cause])
    _faults(suite, name, summary)
    for wish in summary.expect:
        _expectation(case(suite, f"{name}.{wish.phase}", _id_of(wish)), wish, summary)
    _add_limits_of_time(suite, name, summary)
    for entry in summary.known:
        if entry.state == "passes":
            made = case(suite, name, f"known: {entry.check}")
            add_outcome(made, "skipped", "passes now: remove it from [[known]]", [])
    return suite


def _verdict(made: ET.Element, summary: Summary) -> None:
    new = [str(cause) for cause in summary.causes if not cause.known] or summary.reasons
    unmet = any(wish.ok is False for wish in summary.expect) or any(f.ok is False for f in summary.faults)
    if summary.is_known:
        add_outcome(made, "skipped", f"{summary.verdict}, by known failures alone", summary.shown_reasons)
    elif summary.verdict == "unknown":
        add_outcome(made, "error", "the verdict is unknown", new)
    elif summary.verdict != "valid" and not unmet:
        add_outcome(made, "failure", f"the verdict is {summary.verdict}", new)


def _id_of(wish: JudgedExpectation) -> str:
    return wish.id or id_of_expectation({"phase": wish.phase, "op": wish.op, "tier": wish.tier})


def _expectation(made: ET.Element, wish: JudgedExpectation, summary: Summary) -> None:
    mine = [each for each in summary.causes if each.makes == "invalid" and str(each) in wish.reasons]
    if wish.ok is None:
        add_outcome(made, "skipped", "not judged: the server was not traced, or the phase was left out", [])
    elif not wish.ok and mine:
        _add_reason(made, "failure", "the expectation is not met", mine)
    elif not wish.ok:
        add_outcome(made, "failure", "the expectation is not met", wish.reasons)
    elif summary.verdict == "unknown" and not summary.by_nature:
        add_outcome(made, "skipped", "the verdict is unknown", [])


def _add_reason(made: ET.Element, kind: str, message: str, causes: Sequence[Reason]) -> None:
    """What is new is a failure or error; known failures alone are skipped."""
    if new := [str(cause) for cause in causes if not cause.known]:
        add_outcome(made, kind, message, new)
    else:
        texts = [f"{cause} [{cause.known.words}]" for cause in causes if cause.known]
        add_outcome(made, "skipped", "known", texts)


def _faults(suite: ET.Element, name: str, summary: Summary) -> None:
    """A case per declared fault and event."""
    for row in summary.faults:
        made = case(suite, f"{name}.{row.phase}", f"{row.kind} at {row.at_s:g} s: {row.text}")
        if row.ok is None:
            add_outcome(made, "error", f"{row.id}: it is not known whether it is as declared", [row.why])
        elif not row.ok:
            add_outcome(made, "failure", f"{row.id}: it is not as declared", [row.why])
    for each in summary.fault_checks:
        if not any(row.kind == "fault" and row.phase == each.phase for row in summary.faults):
            continue
        made = case(suite, f"{name}.{each.phase}", "errors that clients saw during the faults")
        if each.client_errors:
            add_outcome(made, "failure", "FAULT-ERRORS", [f"{each.client_errors} NFS calls"])
        made = case(suite, f"{name}.{each.phase}", "data read back after the faults")
        if each.data_errors:
            add_outcome(made, "failure", "FAULT-DATA", [f"{each.data_errors} data errors", each.scan])
        elif each.data_errors is None:
            add_outcome(made, "skipped", f"FAULT-UNVERIFIED: {each.why}", [])


def _add_limits_of_time(suite: ET.Element, name: str, summary: Summary) -> None:
    for title, ok, id_, part in _limits_of_time(summary):
        made = case(suite, name, title)
        if not ok:
            mine = [each for each in summary.causes if each.id == id_ and part in str(each)]
            _add_reason(made, "failure", "the limit is not met", mine)
        elif summary.verdict == "unknown":
            add_outcome(made, "skipped", "the verdict is unknown", [])


def _limits_of_time(summary: Summary) -> Iterator[tuple[str, bool, str, str]]:
    """Of soaks and impacts: what was declared, whether it holds, the id of its reason and a part of it."""
    for soak in summary.soak:
        yield f"soak {soak.phase}: not stopped", soak.stopped is None, "SOAK-STOPPED", f"{soak.phase}: "
        for tier in soak.tiers:
            for drift in tier.drift:
                if drift.ok is not None:
                    title = f"soak {soak.phase}: drift of {drift.figure}, {tier.op}/{tier.tier}"
                    yield title, drift.ok, "SOAK-DRIFT", f"{soak.phase}: {drift.reason}"
    for each in summary.impact:
        if each.ok is not None:
            title = f"impact on {each.alone} in {each.beside}: {each.figure}, {each.op}/{each.tier}"
            part = f"{each.op}/{each.tier} in {each.beside}, beside {each.alone}: {each.figure}"
            yield title, each.ok, "IMPACT", part


def document(*suites: ET.Element) -> bytes:
    """The file of the suites, with their totals."""
    root = ET.Element("testsuites")
    for suite in suites:
        for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))
        suite.set("tests", str(len(suite.findall("testcase"))))
        root.append(suite)
    for each in root.iter():
        each.text = _xml_text(each.text) if each.text else None
        for name, value in each.items():
            each.set(name, _xml_text(value))
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _power_losses(suite: ET.Element, name: str, summary: Summary) -> None:
    """A case of its own, with how much so many power losses say."""
    losses = summary.power_loss or {}
    made = case(suite, name, "power losses")
    bound = losses.get("bound") or {}
    words = f"{losses.get('moments_with_loss')} of {bound.get('of', 0)} power losses lost acknowledged writes"
    if bound:
        words += f": {100 * bound['low']:.1f} to {100 * bound['high']:.1f} % do (95 % confidence)"
    if losses.get("lost"):
        add_outcome(made, "failure", "acknowledged writes were lost", [words])
    elif summary.verdict == "unknown":
        add_outcome(made, "skipped", "the verdict is unknown", [])
    else:
        ET.SubElement(made, "system-out").text = words


def _checks(suite: ET.Element, name: str, phase: PhaseAccounting, summary: Summary) -> None:
    for check in phase.checks:
        id_ = id_of_sum(check.name)
        made = case(suite, f"{name}.{phase.phase}", f"{id_}: {check.name} ({check.source})")
        if not check.closes:
            values = check.as_json()
            words = ", ".join(f"{k} {values[k]}" for k in ("source", "expected", "found", "tolerance"))
            known = (each.known for each in summary.causes if (each.id, each.phase) == (id_, phase.phase))
            if entry := next(known, None):
                add_outcome(made, "skipped", "known", [f"{words} [{entry.words}]"])
            else:
                add_outcome(made, "error", "the check does not hold", [words])
    for missing in phase.unavailable:
        id_ = id_of_sum(missing.name)
        made = case(suite, f"{name}.{phase.phase}", f"{id_}: {missing.name} ({missing.source})")
        add_outcome(made, "skipped", missing.why, [])


def case(suite: ET.Element, group: str, name: str) -> ET.Element:
    """A new case of the suite."""
    return ET.SubElement(suite, "testcase", classname=group, name=name)


def add_outcome(made: ET.Element, kind: str, message: str, reasons: Sequence[str]) -> None:
    """`kind`: failure, error or skipped."""
    part = ET.SubElement(made, kind, message="; ".join([message, *map(str, reasons)]))
    if kind != "skipped":
        part.set("type", message)
        part.text = "\n".join(map(str, reasons))


def _xml_text(text: object) -> str:
    """`text` without the characters that XML 1.0 forbids; ElementTree escapes the markup."""
    return _FORBIDDEN.sub("", str(text))
