"""kit.core.table: what a terminal of each width shows, and that foreign text does not act."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from kit.core.table import LEAST_WIDTH, TextTable

ROWS = [
    "a title", (" memory and its cache", "1,260", "6.21 µs", "128 to 260 µs", ""),
    ("", "7", "5.05 ms", "", "differs from what was published"),
]  # fmt: skip
TABLE = TextTable(("", "I/Os", "read\np50", "range", ""), ROWS, range(1, 4), spare=1)
EVIL = "\x1b[31m[bold]x[/bold] :smile: |`<b>\n\u202e=1"


def test_a_table_fits_its_terminal(snapshot: Callable[[str, str], None]) -> None:
    """From wide gaps to a paragraph a row. No figure is cut, and none is torn from its unit."""
    forms = {"\n".join(TABLE.lines(width, "  ")): width for width in range(120, LEAST_WIDTH - 1, -1)}
    for text, width in forms.items():
        assert max(map(len, text.splitlines())) <= width
        assert all(figure in text for figure in ("6.21 µs", "128 to 260 µs", "5.05 ms"))
    snapshot("table.txt", "".join(f"{width}:\n{text}\n" for text, width in forms.items()))


def test_empty_columns_and_heads_are_left_out() -> None:
    assert list(TextTable(("a", "b", "c"), [("x", "", 1), ("y", "", 2)], [2]).lines(80)) == [
        "a  c",
        "x  1",
        "y  2",
    ]
    assert list(TextTable(("", ""), [("x", "1"), "", ("yy", "2")]).lines(80)) == ["x   1", "", "yy  2"]
    assert not list(TextTable(("a", "b"), []).lines(80))


def test_wide_characters_take_two_columns() -> None:
    lines = list(
        TextTable(
            ("name", "n"), [("読む", "1"), ("read", "22"), ("e\u0301 e\u0301 e\u0301", "3")], [1]
        ).lines(80)
    )
    assert {cell_len(line) for line in lines} == {9}


def test_foreign_text_does_not_act() -> None:
    table = TextTable(("name", "n"), [(EVIL, 1), EVIL, (EVIL, -2.5)], [1])
    assert list(table.lines(80))[1] == "?[31m[bold]x[/bold] :smile: |`<b>??=1     1"
    assert table.markdown().splitlines()[:3] == [
        "| name | n |", "| --- | ---: |",
        r"| ?\[31m\[bold\]x\[/bold\] :smile: \|\`\<b\>??=1 | 1 |",
    ]  # fmt: skip
    rows = list(csv.reader(io.StringIO(TextTable(("=a", "n"), [("+1", 1), ("x", -2.5)]).csv())))
    assert rows == [["'=a", "n"], ["'+1", "1"], ["x", "-2.5"]]


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1), st.integers(1, 60))
def test_whatever_the_text_no_character_is_obeyed_and_no_word_is_lost(
    rows: list[tuple[str, str]], width: int
) -> None:
    lines = list(TextTable(("a", "b"), rows, [1]).lines(width))
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for line in lines for char in line)
    words = "".join(
        char for row in rows for cell in row for char in cell if char.isascii() and char.isalnum()
    )
    shown = "".join("".join(lines).split())
    assert all(shown.count(char) >= words.count(char) for char in set(words))
