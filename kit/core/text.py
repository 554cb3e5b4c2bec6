"""Text in lines, and text from outside: JSON, and what must not act on a terminal, in Markdown, in CSV."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

# C0, DEL, C1, what turns the direction of writing, what some programs take for an end of line, and halves of
# surrogate pairs, which no encoding can write.
_CONTROLS = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")

# What Markdown or the HTML in it could act on.
_MARKUP = re.compile(r"([\\`*_{}\[\]()#+!|<>~&$-])")

# What spreadsheets take for the beginning of a formula, wide forms included, also after blanks.
_FORMULA = re.compile("^(?:[\\t\\r\\n]|\\s*[=+\\-@\\uff1d\\uff0b\\uff0d\\uff20])")

NO_BREAK = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=(?:(?:ns|µs|ms|s|min|h|[KMGT]?i?B|[KMG]B/s)\b|%))")
_PROSE_WIDTH = 100
# All that 64 bits hold, and more.
_WHOLE = re.compile("[0-9]{1,20}")

# What the kit's own texts have beyond ASCII, for a terminal without it.
_ASCII = str.maketrans({"µ": "u", "\N{EN DASH}": "-", "·": "-", "\N{MULTIPLICATION SIGN}": "x"})


def safe_text(text: str) -> str:
    """`text` with a question mark for each character that a terminal would obey or could not show."""
    return _CONTROLS.sub("?", text)


def markdown_text(text: str) -> str:
    """`text` without markup for Markdown or HTML."""
    return _MARKUP.sub(r"\\\1", safe_text(text))


def csv_text(text: str) -> str:
    """`text` as a cell of CSV that is neither a formula nor obeyed by a terminal."""
    return ("'" if _FORMULA.match(text) else "") + safe_text(text)


def glued(text: str) -> str:
    """`text` with no-break spaces between numbers and their units."""
    return _BEFORE_UNIT.sub(NO_BREAK, text)


def wrapped(text: str, width: int, mark: str = "") -> list[str]:
    """`text` in lines of at most `width` characters; the first begins with `mark`, the rest are indented.

    No line ends between a number and its unit, or at a no-break space, which is shown as a space. The lines
    are safe (`safe_text`).
    """
    lines = textwrap.wrap(
        glued(text), width, initial_indent=mark, subsequent_indent=" " * max(len(mark), 2),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
    return [safe_text(line.replace(NO_BREAK, " ")) for line in lines]


def fitted(line: str, width: int) -> list[str]:
    """`line` itself, or in lines of `width`, each indented as it is and all but the first by 2 more."""
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return [indent + each for each in wrapped(line.lstrip(), width - len(indent))]


def prose(texts: Iterable[str], width: int, mark: str = "") -> list[str]:
    """Each text wrapped; longer lines than 100 characters are hard to read."""
    return [line for text in texts for line in wrapped(text, min(width, _PROSE_WIDTH), mark)]


def encoded(text: str, encoding: str) -> bytes:
    """`text` for a terminal of that encoding. Without UTF-8 a microsecond is "us"."""
    if encoding.lower().replace("-", "") != "utf8":
        text = text.translate(_ASCII)
    return text.encode(encoding, "replace")


def listed(texts: Sequence[str]) -> str:
    """Such as "a pool, an export and 9 settings"."""
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def commas(count: float) -> str:
    """A count for people: "4519" is "4,519". Here and not among units, which take long to import."""
    return f"{count:,.0f}"


def some(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """The first `most` of them, and how many more there are: "a, b and 7 more"."""
    more = f" and {commas(len(texts) - most)} more" if len(texts) > most else ""
    return f"{separator.join(texts[:most])}{more}"


def counted(number: int, noun: str) -> str:
    """With the noun in the singular or with an s, such as "1 build"."""
    return f"{commas(number)} {noun}{'s' * (number != 1)}"


def whole(text: str) -> int | None:
    """A number as counters and parameters print it; None of other text, which may be a stranger's."""
    return int(text) if _WHOLE.fullmatch(text) else None


def json_value(text: str | bytes) -> Any:
    """The value of JSON that a program printed. Raises ValueError, also where it is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def json_lines(text: str) -> list[dict[str, Any]]:
    """The objects in the whole lines of what a program prints as it goes on. Raises ValueError."""
    found = [json_value(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    if not all(isinstance(each, dict) for each in found):
        raise ValueError(f"not objects: {text[:200]!r}")
    return found
