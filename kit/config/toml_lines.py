"""Line numbers of the keys of a TOML text, for error messages. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

MAX_DEPTH = 16  # of tables and arrays: deeper than any real file, far below every recursion limit

KeyPath = tuple[str | int, ...]  # ("device", 1, "latency") is device[1].latency
KeyProblems = Iterator[tuple[KeyPath, str]]  # keys, and what is wrong with them

_PART = r"[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+'"
_KEY = re.compile(rf"[ \t]*({_PART})[ \t]*")
_HEADER = re.compile(r"[ \t]*(\[{1,2})")
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}'  # its content may end with two quotes
    r"|'''(?:[^']|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'"
    r"|#[^\n]*|[\[\]{}\n]|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)


class KeyLines:
    """Line (from 1) of every key and table header of a TOML text; best effort if the text is invalid.

    `repeated` lists keys given twice as (path, first line, second line); `too_deep` is a line or 0.
    A key in an inline table has the line of the key that holds the table.
    """

    def __init__(self, text: str) -> None:
        self.repeated: list[tuple[KeyPath, int, int]] = []
        self.too_deep = 0
        self._lines: dict[KeyPath, int] = {}
        self._given: set[KeyPath] = set()  # set explicitly, not only as parent of another key
        self._elements: dict[KeyPath, int] = {}  # current index of arrays of tables
        self._scan(text)

    def line_of(self, path: KeyPath) -> int:
        """The line of `path`, else of the nearest key that encloses it; 1 for the whole file."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def _scan(self, text: str) -> None:
        table: KeyPath = ()
        at, line = 0, 1
        while at < len(text):
            header = _HEADER.match(text, at)
            names, after = _key(text, header.end() if header else at)
            if len(names) > MAX_DEPTH:
                self.too_deep = line
                return
            if header and names:
                table = self._enter((), names, line, is_element=len(header[1]) == 2)
            elif names:
                self._enter(table, names, line)
            if header:
                end = text.find("\n", after) + 1 or len(text)
            else:
                end, depth = _end_of_value(text, after)
                self.too_deep = line if depth > MAX_DEPTH else 0
            if self.too_deep or end <= at:  # no progress: invalid from here on
                return
            line += text.count("\n", at, end)
            at = end

    def _enter(self, path: KeyPath, names: list[str], line: int, *, is_element: bool = False) -> KeyPath:
        """Record `names` under `path`; returns the full path, with the current index of arrays."""
        for name in names[:-1]:
            path = (*path, name)
            self._lines.setdefault(path, line)
            if path in self._elements:
                path = (*path, self._elements[path])
        path = (*path, names[-1])
        if is_element:
            self._elements[path] = self._elements.get(path, -1) + 1
            self._lines.setdefault(path, line)
            path = (*path, self._elements[path])
        if path in self._given:
            self.repeated.append((path, self._lines[path], line))
        else:
            self._given.add(path)
            self._lines[path] = line
        return path


def _key(text: str, at: int) -> tuple[list[str], int]:
    """The parts of the dotted key at `at` and its end; no parts if there is no key."""
    names: list[str] = []
    while len(names) <= MAX_DEPTH and (part := _KEY.match(text, at)):
        names.append(_unquoted(part[1]))
        at = part.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return names, at


def _unquoted(part: str) -> str:
    if part[0] not in "\"'":
        return part
    try:
        return str(tomllib.loads(f"key = {part}")["key"])
    except ValueError:
        return part[1:-1]


def _end_of_value(text: str, at: int) -> tuple[int, int]:
    """Start of the line after the value at `at`, which may span lines, and the nesting depth of the value.

    Returns `at` itself if the text is not TOML there.
    """
    depth = deepest = 0
    position = at
    while token := _TOKEN.match(text, position):
        position = token.end()
        depth += (token[0] in ("[", "{")) - (token[0] in ("]", "}"))
        deepest = max(deepest, depth)
        if deepest > MAX_DEPTH or (token[0] == "\n" and depth <= 0):
            return position, deepest
    return (position if position == len(text) else at), deepest
