"""A summary, and a series, as JUnit XML, as CI servers read it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from kit.store.checks.outcome import Outcome
from kit.store.series import Series
from kit.store.summary import Summary

# What XML 1.0 (section 2.2) does not allow, not even escaped; C1, and what turns the direction of writing.
_FORBIDDEN = re.compile(
    "[^\t\n\r\u0020-\u007e\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
    "|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)


def junit(*summaries: Summary) -> bytes:
    """One suite a run: a case for the verdict, and one for each outcome that was asked for, by its id.

    What leaves the run unknown is an <error>; what makes it invalid is a <failure>; what could not be judged
    here, and a known failure with its entry, are <skipped>: CI servers show that they did not pass, and do
    not fail. Foreign text has no markup and none of the characters that XML 1.0 forbids.
    """
    return document(*map(_suite, summaries))


def _suite(summary: Summary) -> ET.Element:
    name = f"{summary.workload or 'hsp'}{f' ({summary.length})' if summary.length else ''}"
    suite = ET.Element("testsuite", name=name)
    made = case(suite, name, "verdict")
    if summary.is_known:
        add_outcome(made, "skipped", f"{summary.verdict}, by known failures alone", summary.shown_reasons)
    elif summary.verdict == "unknown":
        new = [str(cause) for cause in summary.causes if not cause.known] or summary.reasons
        add_outcome(made, "error", "the verdict is unknown", new)
    # Of a run that cannot be used no requirement is met.
    unsure = not summary.is_usable
    for outcome in summary.outcomes:
        if outcome.open != "not asked for":
            _add_case(suite, name, outcome, unsure=unsure)
    for entry in summary.known:
        if entry.state == "passes":
            made = case(suite, name, f"known: {entry.check}")
            add_outcome(made, "skipped", "passes now: remove it from [[known]]", [])
    return suite


def _add_case(suite: ET.Element, name: str, outcome: Outcome, *, unsure: bool) -> None:
    subject = "" if outcome.is_expectation else outcome.subject
    title = f"{outcome.id}: {subject}" if subject else outcome.id
    made = case(suite, f"{name}.{outcome.phase}" if outcome.phase else name, title)
    if outcome.known:
        add_outcome(made, "skipped", "known", [outcome.marked])
    elif outcome.by_nature:
        add_outcome(made, "skipped", "unknown by nature", [outcome.text])
    elif outcome.decides:
        kind, message = _DECIDES[outcome.makes]
        add_outcome(made, kind, _LITTLE if outcome.of_amount else message, [str(outcome)])
    elif outcome.holds is None:
        add_outcome(made, "skipped", outcome.open or "", [outcome.text])
    elif unsure and outcome.is_requirement:
        add_outcome(made, "skipped", "the verdict is unknown", [])
    elif outcome.text:
        ET.SubElement(made, "system-out").text = outcome.text


_LITTLE = "too little was measured"
# Kind and message of what decides.
_DECIDES = {
    "unknown": ("error", "the measurement cannot be trusted"),
    "invalid": ("failure", "the requirement is not met"),
}


def series_junit(series: Series) -> bytes:
    """A case for each cell, and one for each expectation on an axis.

    An unknown cell is an <error>, an invalid one a <failure>, one that cannot be is <skipped>. So
    is one that is not valid by known failures alone: CI servers do not fail.
    """
    suite = ET.Element("testsuite", name=series.name)
    for cell in series.cells:
        again = " (once more)" if cell.again else ""
        made = case(suite, f"{series.name}.{cell.phase}", f"{cell.name}{again}")
        reasons = [reason for run in cell.runs for reason in run.reasons]
        if cell.is_known:
            add_outcome(made, "skipped", f"{cell.verdict}, by known failures alone", reasons)
        elif cell.verdict == "invalid":
            add_outcome(made, "failure", "the cell is invalid", reasons)
        elif cell.verdict != "valid":
            add_outcome(made, "error", f"the cell is {cell.verdict or 'not measured'}", reasons)
    for skipped in series.skipped:
        made = case(suite, f"{series.name}.{skipped.phase}", skipped.name)
        add_outcome(made, "skipped", skipped.reason, [])
    for number, wish in enumerate(series.expect, 1):
        name = f"expect {number}: {wish.axis} {wish.from_} to {wish.to}, {wish.op}/{wish.tier}"
        made = case(suite, f"{series.name}.{wish.phase}", name)
        if wish.known:
            add_outcome(made, "skipped", "known", [f"{wish.reason} [{wish.known.words}]"])
        elif wish.ok is None:
            add_outcome(made, "error", "not judged", [wish.reason])
        elif not wish.ok:
            add_outcome(made, "failure", "the expectation is not met", [wish.reason])
    return document(suite)


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
