"""What the documents quote of the program's sentences is what it prints today."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import figures

# A quote: words between single asterisks. Titles of publications have capitals.
_QUOTE = re.compile(r"(?<![\w*])\*([^*|`]{14,400}?)\*(?![\w*])")
_WORDS, _LEAST_CHARACTERS = 4, 6
# Letters that a template has itself.
_LEAST_LETTERS = 12
# What is no part of a template is a name or a number.
_LEAST_PRINTED = 0.6


Template = tuple[str, ...]  # what is constant in it, between its values


def _of_python() -> Iterator[Template]:
    """All strings of the product but docstrings."""
    for path in (each for room in ("kit", "reports") for each in (figures.ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text())
        said = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        for each in ast.walk(tree):
            if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in said:
                yield (_plain(each.value),)
            elif isinstance(each, ast.JoinedStr):
                yield tuple(_plain(part.value) for part in each.values if isinstance(part, ast.Constant))


def _of_pages() -> Iterator[Template]:
    for path in (figures.ROOT / "reports").rglob("*.j2"):
        for part in re.split(r"\{[{%].*?[%}]\}|<[^>]+>", path.read_text()):
            yield (_plain(part),)


def _plain(text: object) -> str:
    return re.sub(r"\s+", " ", str(text)).rstrip(".")


@functools.cache
def _printed() -> frozenset[Template]:
    """Only where a test asks: each worker imports this file, and to parse the product takes seconds."""
    return frozenset(
        each
        for each in {*_of_python(), *_of_pages()}
        if sum(map(len, each)) >= (_LEAST_LETTERS if len(each) > 1 else _LEAST_CHARACTERS)
    )


def _share_printed(quote: str) -> float:
    seen = bytearray(len(quote))
    for template in _printed():
        if quote in template[0]:
            return 1.0
        begin, at = quote.find(template[0]), 0
        for part in template:
            at = quote.find(part, at) + len(part) if at >= 0 and part in quote[at:] else -1
        if at > begin >= 0:
            seen[begin:at] = b"\1" * (at - begin)
    return sum(seen) / len(quote)


def _quotes() -> list[tuple[str, str]]:
    found = []
    for path in figures.documents():
        if "decisions" in path.parts:
            continue
        for quote in _QUOTE.findall(path.read_text()):
            words = quote.split()
            if len(words) >= _WORDS and sum(word[0].isupper() for word in words) < len(words) / 2:
                found.append((path.name, " ".join(words).rstrip(".")))
    return found


@pytest.mark.parametrize(("page", "quote"), _quotes())
def test_a_quoted_sentence_is_printed(page: str, quote: str) -> None:
    assert _share_printed(quote) >= _LEAST_PRINTED, f"{page}: no text of the program is like *{quote}*"


def test_a_sentence_that_is_not_printed_is_found() -> None:
    assert _share_printed("the drive is faster than the moon at night") < _LEAST_PRINTED


@pytest.mark.parametrize("path", figures.documents(), ids=lambda path: path.name)
def test_an_example_says_its_command_and_its_date(path: Path) -> None:
    for example in re.findall(r"\*\*Example\*\*(.*)", path.read_text()):
        assert re.match(r" \((`hsp [^`]+`.*|the commands above), 20\d\d-\d\d-\d\d\)", example), example[:80]
