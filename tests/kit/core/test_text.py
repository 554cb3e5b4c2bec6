"""kit.core.text: text from outside cannot control a terminal."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kit.core.text import commas, counted, encoded, json_lines, json_value, safe_text, some

pytestmark = pytest.mark.any_python


@given(st.text(max_size=30))
@example("\x1b[2Jhi\x07\x9b\x7f")
def test_text_for_a_terminal_has_no_control_characters(text: str) -> None:
    shown = safe_text(text)
    assert len(shown) == len(text)
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in shown)
    shown.encode()


def test_ordinary_text_stays() -> None:
    assert safe_text("Größe 5 µs ~ 💾") == "Größe 5 µs ~ 💾"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_without_utf8_a_microsecond_is_us(encoding: str) -> None:
    text = "128\N{EN DASH}260 µs"
    assert encoded(text, encoding) == b"128-260 us"
    assert encoded(text, "utf8") == encoded(text, "UTF-8") == text.encode()


def test_counts_have_commas_from_a_thousand_on() -> None:
    assert [*map(commas, (999, 1000, 4519, 60_385, 1234.6))] == ["999", "1,000", "4,519", "60,385", "1,235"]
    assert counted(4519, "record") == "4,519 records"
    assert some(["a", "b"], 2) == "a, b" and some(["x"] * 1003, 2, "; ") == "x; x and 1,001 more"


def test_what_a_program_printed_is_a_value_or_a_value_error() -> None:
    assert json_value('{"a": [1]}') == {"a": [1]}
    assert json_lines('{"a": 1}\n{"b": 2}\n{"c"') == [{"a": 1}, {"b": 2}] and json_lines("{") == []
    for text in ("", "nonsense", "[" * 100_000, '{"a":' * 100_000):
        with pytest.raises(ValueError, match=r"."):
            json_value(text)
    for text in ("[]\n", '{"a": 1}\n1\n', "[" * 100_000 + "\n"):
        with pytest.raises(ValueError, match=r"."):
            json_lines(text)
