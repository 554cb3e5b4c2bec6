"""Figures of runs in the documents are those that `python -m tests.figures` has stored."""

from __future__ import annotations

import json
import re
from datetime import date

from reports.analysis import findings
from tests import figures

STORED = json.loads(figures.STORED.read_text())


def test_the_documents_have_the_figures_that_were_measured() -> None:
    old = [
        path.name
        for path in figures.documents()
        if figures.filled(path.read_text(), STORED) != path.read_text()
    ]
    assert old == [], "run python -m tests.figures"


def test_each_table_is_in_a_document_and_each_mark_has_a_table() -> None:
    marks = [
        m for path in figures.documents() for m in re.findall(r"<!-- figures: (.*?) -->", path.read_text())
    ]
    assert sorted(marks) == sorted(figures.TABLES)


def test_they_say_where_they_are_from() -> None:
    assert STORED["command"] == "python -m tests.figures" and STORED["measured_with"] and STORED["hsp"]
    assert date.fromisoformat(STORED["date"]) > date(2026, 1, 1)
    assert len(STORED["rows"]) == 5


def test_another_figure_changes_the_documents() -> None:
    other = {**STORED, "rows": [{**row, "ios": 17} for row in STORED["rows"]]}
    text = (figures.ROOT / "README.md").read_text()
    assert figures.filled(text, other) != text


def test_the_modes_whose_causes_are_named_are_those_that_were_measured() -> None:
    modes = [(mode["us"], mode["share"]) for mode in STORED["dram_modes"]]
    assert len(modes) == len(findings.DRAM_MODES)
    for mode, (where_us, part, _) in zip(modes, findings.DRAM_MODES, strict=True):
        assert findings.is_like(mode, where_us, part), (mode, where_us, part)
