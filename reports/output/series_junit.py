"""A series as JUnit XML: a case for each cell, and one for each expectation on an axis."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from kit.store.series import Series
from reports.output.junit import add_outcome, case, document


def series_junit(series: Series) -> bytes:
    """An unknown cell is an <error>, an invalid one a <failure>, one that cannot be is <skipped>.

    So is one that is not valid by known failures alone: CI servers do not fail.
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
