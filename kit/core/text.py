"""Text from outside, as it may be shown on a terminal, and numbers with their nouns."""

from __future__ import annotations

import re

# C0, DEL, C1, what turns the direction of writing, what some programs take for an end of line, and halves of
# surrogate pairs, which no encoding can write.
_CONTROLS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")

# What the kit's own texts have beyond ASCII, for a terminal without it.
_ASCII = str.maketrans({"µ": "u", "\N{EN DASH}": "-", "·": "-", "\N{MULTIPLICATION SIGN}": "x"})


def safe_text(text: str) -> str:
    """`text` with a question mark for each character that a terminal would obey or could not show."""
    return _CONTROLS.sub("?", text)


def encoded(text: str, encoding: str) -> bytes:
    """`text` for a terminal of that encoding. Without UTF-8 a microsecond is "us"."""
    if encoding.lower().replace("-", "") != "utf8":
        text = text.translate(_ASCII)
    return text.encode(encoding, "replace")


def counted(number: int, noun: str) -> str:
    """With the noun in the singular or with an s, such as "1 build"."""
    return f"{number} {noun}{'s' * (number != 1)}"
