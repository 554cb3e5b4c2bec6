"""A summary as JUnit XML, as CI servers read it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from kit.store.checks.ids import id_of_expectation, id_of_sum
from kit.store.summary import JudgedExpectation, PhaseAccounting, Reason, Summary

# What XML 1.0 (section 2.2) does not allow, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(*summaries: Summary) -> bytes:
    """One suite a run: a case for the verdict, one per check, reason and expectation, called by its id.

    An unknown verdict is an <error>, and what it leaves open is <skipped>; what is not met or not valid is a
    <failure>. A known failure is <skipped> with its entry: CI servers show that it did not pass, and do not
    fail. Foreign text has no markup and none of the characters that XML 1.0 forbids.
    """
    return document(*map(_suite, summaries))


def _suite(summary: Summary) -> ET.Element:
    name = _xml_text(f"{summary.workload or 'hsp'}{f' ({summary.length})' if summary.length else ''}")
    suite = ET.Element("testsuite", name=name)
    _verdict(case(suite, name, "verdict"), summary)
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
    unmet = any(wish.ok is False for wish in summary.expect)
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
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _checks(suite: ET.Element, name: str, phase: PhaseAccounting, summary: Summary) -> None:
    for check in phase.checks:
        id_ = id_of_sum(check.name)
        made = case(suite, f"{name}.{phase.phase}", f"{id_}: {check.name} ({check.source})")
        if not check.ok:
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
    return ET.SubElement(suite, "testcase", classname=_xml_text(group), name=_xml_text(name))


def add_outcome(made: ET.Element, kind: str, message: str, reasons: Sequence[str]) -> None:
    """`kind`: failure, error or skipped."""
    part = ET.SubElement(made, kind, message=_xml_text("; ".join([message, *map(str, reasons)])))
    if kind != "skipped":
        part.set("type", message)
        part.text = _xml_text("\n".join(map(str, reasons)))


def _xml_text(text: object) -> str:
    """`text` without the characters that XML 1.0 forbids; ElementTree escapes the markup."""
    return _FORBIDDEN.sub("", str(text))
