"""A TOML file as a frozen model, or a ConfigError that names file, line, key and value of every mistake.

The values go to pydantic as JSON, because strict JSON validation has TOML's view of types: an array may
become a tuple, a string an enum member, but strings, numbers and booleans stay what they are. So models
use validators of mode "after": one of mode "before" on a table makes its arrays Python lists, which a
strict tuple refuses.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import stat
import tomllib
from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kit.errors import ConfigError

MAX_BYTES = 1 << 20
MAX_DEPTH = 16  # of tables and arrays: far beyond any real file, far below every recursion limit
MAX_PROBLEMS = 100  # told one by one; a file with more is not the file that was meant

KeyPath = tuple[str | int, ...]  # ("device", 1, "latency") is device[1].latency
Problem = tuple[int, str]  # line, text
M = TypeVar("M", bound=BaseModel)


def load(path: Path, model: type[M]) -> M:
    """The file at `path`, validated as `model` (which is frozen, strict and forbids unknown keys).

    Raises ConfigError with one line `file:line: key: problem` for each problem, in line order.
    """
    text = read_text(path)
    lines = KeyLines(text)
    if lines.too_deep:
        raise refusal(path, [(lines.too_deep, f"nested more than {MAX_DEPTH} deep")])
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError itself: a number too long for int()
        raise refusal(path, [_syntax_problem(str(error), text, lines)]) from None
    if problems := list(_unusable(document, lines)):
        raise refusal(path, problems)
    try:
        return model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise refusal(path, _model_problems(details, document, model, lines)) from None


def dotted(path: KeyPath) -> str:
    """`path` as TOML writes it, with [index] for elements of arrays: `device[1].latency`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            is_bare = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if is_bare else json.dumps(part, ensure_ascii=False))
    return text


def printable(text: str) -> str:
    """`text` with every character a terminal might act on written as its escape; newlines too."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


# --- The file --------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """The text of the configuration file at `path`, with Unix line ends.

    Raises ConfigError: missing, not a file, unreadable, larger than 1 MiB, a BOM, not UTF-8.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a FIFO would block, a device never end
            raise ConfigError(f"{printable(str(path))}: {'a directory' if path.is_dir() else 'not a file'}")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{printable(str(path))}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{printable(str(path))}: cannot be read: {reason}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{printable(str(path))}: larger than 1 MiB; this is no configuration file")
    if data.startswith(b"\xef\xbb\xbf"):
        raise refusal(path, [(1, "starts with a byte order mark (BOM); save it as UTF-8 without BOM")])
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal(path, [(line, f"not UTF-8: byte 0x{data[error.start]:02x}")]) from None


def refusal(path: Path, problems: list[Problem]) -> ConfigError:
    """One error for all `problems` of the file at `path`, a line each, in line order."""
    ordered = sorted(problems, key=lambda problem: problem[0])
    told = [printable(f"{path}:{line}: {text}") for line, text in ordered[:MAX_PROBLEMS]]
    if len(ordered) > MAX_PROBLEMS:
        told.append(printable(f"{path}:{ordered[MAX_PROBLEMS][0]}: and {len(ordered) - MAX_PROBLEMS} more"))
    return ConfigError("\n".join(told))


def _syntax_problem(message: str, text: str, lines: KeyLines) -> Problem:
    place = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", message)
    line = int(place[1]) if place else text.count("\n") + 1
    if digits := re.search(r"[0-9][0-9_]{4000}", text) if "integer string conversion" in message else None:
        return text.count("\n", 0, digits.start()) + 1, "integer beyond 64 bits"
    if message.startswith("Cannot "):  # tomllib reports where the value ends, and not which key it was
        for path, first, again in lines.repeated:
            if again <= line:
                return again, f"{dotted(path)}: given twice, first in line {first}"
    message = re.sub(r" \(at [^()]*\)$", "", message)
    return line, f"not valid TOML: {message[:1].lower()}{message[1:200]}"


def _unusable(document: dict[str, Any], lines: KeyLines) -> Iterator[Problem]:
    """Values that TOML allows and no file of the kit needs: dates, inf, nan, integers beyond 64 bits."""
    todo: list[tuple[KeyPath, Any]] = [((), document)]
    while todo:
        path, value = todo.pop()
        if len(path) > 3 * MAX_DEPTH:  # of header, key and value together
            yield lines.line_of(path), f"{dotted(path[:3])}...: nested too deep"
        elif isinstance(value, dict):
            todo.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            todo.extend(((*path, index), item) for index, item in enumerate(value))
        elif isinstance(value, (date, time)):
            yield lines.line_of(path), f"{dotted(path)}: expected no date or time; in quotes it is a string"
        elif isinstance(value, float) and not math.isfinite(value):
            yield lines.line_of(path), f"{dotted(path)}: expected a finite number, found {value}"
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield lines.line_of(path), f"{dotted(path)}: integer beyond 64 bits"


# --- What the model says ---------------------------------------------------------------------------------

_EXPECTED = {
    **dict.fromkeys(("string_type", "string_sub_type"), "a string"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type"), "an array"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type", "dataclass_type"), "a table"),
    "none_required": "no value",
}


def _model_problems(
    details: list[ErrorDetails], document: dict[str, Any], model: type[BaseModel], lines: KeyLines
) -> list[Problem]:
    expected: dict[KeyPath, list[str]] = {}  # the members of a union each expect something else at one place
    found: dict[KeyPath, Any] = {}
    problems: list[Problem] = []
    for detail in details:
        path, value = _locate(detail, document)
        if want := _EXPECTED.get(detail["type"]) or _after("expected ", detail["msg"]):
            expected.setdefault(path, []).append(want)
            found[path] = value
        else:
            text = f"{dotted(path)}: {_say(detail, path, value, document, model)}"
            problems.append((lines.line_of(path), text.removeprefix(": ")))
    for path, wants in expected.items():
        text = f"{dotted(path)}: expected {' or '.join(dict.fromkeys(wants))}, found {describe(found[path])}"
        problems.append((lines.line_of(path), text.removeprefix(": ")))
    return list(dict.fromkeys(problems))


def _say(
    detail: ErrorDetails, path: KeyPath, value: Any, document: dict[str, Any], model: type[BaseModel]
) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return "required, but missing"
    if kind == "extra_forbidden":
        valid = _valid_keys(model, path[:-1], document)
        return f"unknown key, {nearest(str(path[-1]), valid, 'valid keys')}"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    if kind in ("literal_error", "enum"):
        choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        if isinstance(value, str) and choices:
            return f"unknown value {shorten(value)}, {nearest(value, choices, 'valid values')}"
    message = re.sub(r"^(?:Input|String|Value) should ", "must ", detail["msg"])
    return f"{message[:1].lower()}{message[1:]}, found {describe(value)}"


def _locate(detail: ErrorDetails, document: dict[str, Any]) -> tuple[KeyPath, Any]:
    """Key path and value of a pydantic location, which also names members of unions and validators."""
    path: KeyPath = ()
    value: Any = document
    for part in detail["loc"]:
        is_key = isinstance(value, dict) and part in value
        if is_key or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            path, value = (*path, part), value[part]
    if detail["type"] == "missing":
        path = (*path, detail["loc"][-1])
    return path, value


def _valid_keys(model: type[BaseModel], path: KeyPath, document: dict[str, Any]) -> list[str]:
    kinds: list[Any] = [model]
    value: Any = document
    for part in path:
        value = value[part]
        kinds = [member for kind in kinds for member in _members(_inside(kind, part), value)]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    fields = [field for kind in models for field in kind.model_fields.items()]
    return list(dict.fromkeys(field.alias or name for name, field in fields))


def _inside(kind: Any, part: str | int) -> Any:
    """The annotation of what `kind` holds under `part`; None when it holds nothing there."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return next((field.annotation for name, field in fields if part == (field.alias or name)), None)
    arguments = [argument for argument in get_args(kind) if argument is not Ellipsis]
    return arguments[-1] if arguments else None  # dict[str, X], list[X], tuple[X, ...]


def _members(kind: Any, value: Any) -> list[Any]:
    """The members of a union, without the models whose literal fields (a discriminator) deny `value`."""
    arguments = get_args(kind)
    if get_origin(kind) in (dict, list, tuple, set, frozenset) or not arguments:
        return [kind]
    if get_origin(kind) is Literal:
        return []
    if hasattr(kind, "__metadata__"):
        return _members(arguments[0], value)
    members = [inner for member in arguments for inner in _members(member, value)]
    return [member for member in members if not _denied(member, value)] or members


def _denied(kind: Any, value: Any) -> bool:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, dict)):
        return False
    return any(
        get_origin(field.annotation) is Literal
        and value.get(field.alias or name, field.default) not in get_args(field.annotation)
        for name, field in kind.model_fields.items()
    )


def nearest(found: str, valid: list[str], noun: str) -> str:
    """A question for the one of `valid` that looks most like `found`, else the list of all, named `noun`."""
    close = difflib.get_close_matches(found[:100], valid, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"{noun}: {', '.join(valid) or 'none'}"


def _after(prefix: str, message: str) -> str:
    return message.removeprefix(prefix) if message.startswith(prefix) else ""


def shorten(text: str) -> str:
    """`text` in double quotes, at most 60 characters of it, control characters escaped."""
    return f'"{printable(text if len(text) <= 60 else text[:57] + "...")}"'


def describe(value: object) -> str:
    """A TOML value in TOML's words: `the integer 130`, `a table`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"the {'integer' if isinstance(value, int) else 'number'} {value}"
    if isinstance(value, str):
        return f"the string {shorten(value)}"
    return "an array" if isinstance(value, list) else "a table" if isinstance(value, dict) else "nothing"


# --- Where the keys are ----------------------------------------------------------------------------------

_PART = r"[A-Za-z0-9_-]+|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+'"
_KEY = re.compile(rf"[ \t]*({_PART})[ \t]*")
_HEADER = re.compile(r"[ \t]*(\[{1,2})")
_TOKEN = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*+"{3,5}'  # may end with two quotes of its own
    r"|'''(?:[^']|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*+"'
    r"|'[^'\n]*+'"
    r"|#[^\n]*|[\[\]{}\n]|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)


class KeyLines:
    """The line (from 1) of every key and table header of a TOML text; best effort where it is not valid.

    `repeated` lists keys given twice as (path, first line, second line); `too_deep` is a line or 0.
    Keys in inline tables are not told apart: they count as the key that holds the table.
    """

    def __init__(self, text: str) -> None:
        self.repeated: list[tuple[KeyPath, int, int]] = []
        self.too_deep = 0
        self._lines: dict[KeyPath, int] = {}
        self._given: set[KeyPath] = set()  # by itself, not only as the parent of another
        self._elements: dict[KeyPath, int] = {}  # arrays of tables
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
            if self.too_deep or end <= at:  # no progress: not valid from here on
                return
            line += text.count("\n", at, end)
            at = end

    def _enter(self, path: KeyPath, names: list[str], line: int, *, is_element: bool = False) -> KeyPath:
        """Notes `names` under `path`; the full path, with the index of the current element of arrays."""
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
    """The parts of the dotted key at `at` and where it ends; no parts where there is no key."""
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
    """Where the next line starts after the value at `at`, which may span lines, and its depth of nesting.

    `at` itself where the text stops being TOML.
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
