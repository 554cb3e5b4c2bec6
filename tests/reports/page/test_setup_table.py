"""The table of a published set-up beside that of the run, as HTML."""

from __future__ import annotations

import re

from reports.page import document
from reports.published.setup import SetupRow, SetupTable

HOSTILE = "<script>alert(1)</script>"
TABLE = SetupTable(
    HOSTILE,
    (
        SetupRow("Disk speed", "7200 rpm", "10,000 rpm", False),
        SetupRow("I/O size", "512 B", "512 B", True),
        SetupRow("Server", f"a {HOSTILE}", f"b {HOSTILE}", None),
    ),
    "The devices are models.",
)


def drawn(table: SetupTable | None) -> str:
    return document._environment().get_template("setup.html.j2").render(setup=table)


def test_rows_that_differ_are_marked_by_text_and_class() -> None:
    speed, size, server = re.findall(r"<tr.*?</tr>", drawn(TABLE).partition("<tbody>")[2])
    assert speed.startswith('<tr class="differs">') and "differs</b></td>" in speed
    assert "class" not in size.partition(">")[0] and "<td>same</td>" in size
    assert "class" not in server.partition(">")[0] and "cannot be compared" in server


def test_foreign_text_is_text() -> None:
    html = drawn(TABLE)
    assert HOSTILE not in html and html.count("&lt;script&gt;") == 3


def test_what_was_chosen_is_said_for_models_alone() -> None:
    assert '<p class="soft">The devices are models.</p>' in drawn(TABLE)
    assert "<p" not in drawn(SetupTable("title", TABLE.rows, ""))
    assert not drawn(None).strip()
