"""A summary as JUnit XML, as CI servers read it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from kit.store.summary import PhaseAccounting, Summary

# What XML 1.0 (section 2.2) does not allow, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(summary: Summary) -> bytes:
    """One suite: a case for the verdict, one per check and one per expectation of the workload.

    An unknown verdict is an <error>, and what it leaves open is <skipped>; what is not met or not valid is a
    <failure>. Foreign text has no markup and none of the characters that XML 1.0 forbids.
    """
    name = _xml_text(summary.workload or "hsp")
    suite = ET.Element("testsuite", name=name)
    unknown = summary.verdict == "unknown"
    unmet = [e for e in summary.expect if e.ok is False]
    verdict = case(suite, name, "verdict")
    if unknown:
        add_outcome(verdict, "error", "the verdict is unknown", summary.reasons)
    elif summary.verdict != "valid" and not unmet:
        add_outcome(verdict, "failure", f"the verdict is {summary.verdict}", summary.reasons)
    for phase in summary.accounting.phases:
        _checks(suite, name, phase)
    for number, wish in enumerate(summary.expect, 1):
        made = case(suite, f"{name}.{wish.phase}", f"expect {number}: {wish.op}/{wish.tier}")
        if wish.ok is None:
            add_outcome(made, "skipped", "not judged: the server was not traced", [])
        elif not wish.ok:
            add_outcome(made, "failure", "the expectation is not met", wish.reasons)
        elif unknown:
            add_outcome(made, "skipped", "the verdict is unknown", [])
    _add_limits_of_time(suite, name, summary)
    return document(suite)


def _add_limits_of_time(suite: ET.Element, name: str, summary: Summary) -> None:
    for title, ok, reason in _limits_of_time(summary):
        made = case(suite, name, title)
        if not ok:
            add_outcome(made, "failure", "the limit is not met", [reason])
        elif summary.verdict == "unknown":
            add_outcome(made, "skipped", "the verdict is unknown", [])


def _limits_of_time(summary: Summary) -> Iterator[tuple[str, bool, str]]:
    """Of soaks and impacts: what was declared, whether it holds, and why not."""
    for soak in summary.soak:
        yield f"soak {soak.phase}: not stopped", soak.stopped is None, soak.stopped or ""
        for tier in soak.tiers:
            for drift in tier.drift:
                if drift.ok is not None:
                    title = f"soak {soak.phase}: drift of {drift.figure}, {tier.op}/{tier.tier}"
                    yield title, drift.ok, drift.reason
    for each in summary.impact:
        if each.ok is not None:
            title = f"impact on {each.alone} in {each.beside}: {each.figure}, {each.op}/{each.tier}"
            yield title, each.ok, f"{each.ratio} ({each.range}), at most {each.limit} was declared"


def document(suite: ET.Element) -> bytes:
    """The file of one suite, with its totals."""
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{kind}"))))
    suite.set("tests", str(len(suite.findall("testcase"))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _checks(suite: ET.Element, name: str, phase: PhaseAccounting) -> None:
    for number, check in enumerate(phase.checks, 1):
        made = case(suite, f"{name}.{phase.phase}", f"check {number}: {check.name}")
        if not check.ok:
            values = check.as_json()
            words = ", ".join(f"{k} {values[k]}" for k in ("source", "expected", "found", "tolerance"))
            add_outcome(made, "error", "the check does not hold", [words])
    for number, missing in enumerate(phase.unavailable, 1):
        made = case(suite, f"{name}.{phase.phase}", f"not available {number}: {missing.name}")
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
