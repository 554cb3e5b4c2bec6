"""Reader of TOML files into frozen models; a ConfigError gives file, line, key and value of every mistake.

The values go to pydantic as JSON, because strict JSON validation has TOML's view of types: an array may
become a tuple, a string an enum member, but strings, numbers and booleans are not converted. So models
use validators of mode "after": one of mode "before" on a table makes its arrays Python lists, which a
strict tuple refuses.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from kit.config import named_files
from kit.config.toml_lines import MAX_DEPTH, KeyLines, KeyPath
from kit.core.errors import ConfigError
from kit.core.own_file import is_of_kernel
from kit.core.text import counted

MAX_BYTES = 1 << 20
_HINT = "correct these lines; docs/formats of the kit has every key and unit"
# The one key that takes a date of TOML: the last day of a known failure.
_DAY_KEY = ("known", "until")
MAX_PROBLEMS = 100  # listed one by one; a file with more is probably the wrong file

Problem = tuple[int, str]  # line, text


@dataclass(frozen=True)
class OfKey:
    """What is wrong with a key."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


Text = str | OfKey  # what is wrong
Place = tuple[Path, int]  # file, line
Setting = str | int | bool  # of an option, property or parameter
M = TypeVar("M", bound=BaseModel)

# Of keys that came later: without them a plan is stored as before there were such keys, with the same digest.
STORED_IF_SET = Field(exclude_if=lambda value: value is None)
STORED_IF_ANY = Field(exclude_if=lambda value: not value)


def stored_unless(default: object) -> Any:
    """As STORED_IF_SET, of a key with that default."""
    return Field(exclude_if=lambda value: value == default)


class KeyProblem(ValueError):
    """A validator's refusal of one key of its table, or of one within it (a path)."""

    def __init__(self, key: str | KeyPath, text: str) -> None:
        super().__init__(text)
        self.key: KeyPath = (key,) if isinstance(key, str) else key


# Keys, as of KeyProblem, and texts.
Problems = Iterator[tuple[str | KeyPath, str]]


class Table(BaseModel):
    """Base of every TOML table: frozen, strict types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def _problems(self) -> Problems:
        """Problems of keys that are right by themselves. Only the first is reported."""
        yield from ()

    @model_validator(mode="after")
    def _refuse_first(self) -> Self:
        for key, text in self._problems():
            raise KeyProblem(key, text)
        return self


def name_problems(table: str, names: Sequence[str]) -> Problems:
    """Two of the tables [[`table`]] with one name."""
    for number, name in enumerate(names):
        if name in names[:number]:
            yield (table, number, "name"), f"two {table}s are called '{name}': give each its own name"


class Refusal(ConfigError):
    """Mistakes in files, one a line. `texts`: without their places."""

    def __init__(self, problems: Sequence[tuple[Place, Text]]) -> None:
        super().__init__(
            "\n".join(printable(f"{path}:{line}: {text}") for (path, line), text in problems), _HINT
        )
        self.texts = [text for _, text in problems]


def load(path: Path, model: type[M], by: Path | None = None) -> M:
    """Read the file at `path` and validate it as `model` (a Table). `by`: the file that names it.

    Raises ConfigError with one line `file:line: key: problem` for each problem, in line order.
    """
    document, lines = read_document(path, by)
    return validate(document, model, lambda key: (path, lines.line_of(key)))


def read_document(path: Path, by: Path | None = None) -> tuple[dict[str, Any], KeyLines]:
    """The content of the file at `path` before it is validated, and its lines. Raises ConfigError."""
    text = read_text(path, by)
    lines = KeyLines(text)
    if lines.too_deep:
        raise refusal(path, [(lines.too_deep, f"nested more than {MAX_DEPTH} deep")])
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError itself: a number too long for int()
        raise refusal(path, [_syntax_problem(str(error), text, lines)]) from None
    if problems := list(_unusable(document, lines)):
        raise refusal(path, problems)
    _days_as_text(document)
    return document, lines


def validate(
    document: dict[str, Any],
    model: type[M],
    place_of: Callable[[KeyPath], Place],
    as_written: Callable[[KeyPath], KeyPath] = lambda key: key,
) -> M:
    """`document` as `model` (a Table). Raises ConfigError.

    `place_of` gives file and line of a key, `as_written` how the file numbers it.
    """
    try:
        return model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        problems = _model_problems(error.errors(include_url=False), document, model)
        raise placed_refusal(
            [(place_of(key), OfKey(dotted(as_written(key)), text) if key else text) for key, text in problems]
        ) from None


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
    """`text` with control characters and newlines as escapes, for a message that shows file content."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


# --- The file --------------------------------------------------------------------------------------------


def read_text(path: Path, by: Path | None = None) -> str:
    """Read the configuration file at `path`; returns its text with Unix line ends.

    `by`: the file that names it, beside it; None: a person names it, on the command line.
    Raises ConfigError: missing, not a file, unreadable, larger than 1 MiB, a BOM, not UTF-8, not own.
    """
    name = printable(str(path))
    try:
        data = named_files.content(path, by, MAX_BYTES) if by else _named_by_person(path)
    except FileNotFoundError:
        directory = "" if path.is_absolute() else f"; it is relative to {printable(str(Path.cwd()))}"
        raise ConfigError(f"{name}: no such file", f"check the name{directory}") from None
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(
            f"{name}: cannot be read: {reason}", "check the permissions of the file and its directory"
        ) from None
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"{name}: larger than 1 MiB; this is not a configuration file", "give the name of a TOML file"
        )
    if data.startswith(b"\xef\xbb\xbf"):
        raise refusal(path, [(1, "starts with a byte order mark (BOM); save it as UTF-8 without BOM")])
    try:
        return data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal(path, [(line, f"not UTF-8: byte 0x{data[error.start]:02x}")]) from None


def _named_by_person(path: Path) -> bytes:
    """Up to a byte too much. Raises OSError, ValueError, ConfigError."""
    status = path.stat()
    # A FIFO would block, a device might have no end.
    if not stat.S_ISREG(status.st_mode) or is_of_kernel(status):
        kind = "a directory" if path.is_dir() else "not a file"
        raise ConfigError(f"{printable(str(path))}: {kind}", "give the name of a TOML file")
    # What it was a moment ago may be a FIFO now.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(MAX_BYTES + 1)


def refusal(path: Path, problems: list[Problem]) -> Refusal:
    """One error for all `problems` of the file at `path`, one per line, in line order."""
    return placed_refusal([((path, line), text) for line, text in problems])


def placed_refusal(problems: Sequence[tuple[Place, Text]]) -> Refusal:
    """One error for all `problems`, one per line, by file (in the order given) and line."""
    files = list(dict.fromkeys(path for (path, _), _ in problems))
    ordered = sorted(problems, key=lambda problem: (files.index(problem[0][0]), problem[0][1]))
    shown = ordered[:MAX_PROBLEMS]
    if len(ordered) > MAX_PROBLEMS:
        shown.append((ordered[MAX_PROBLEMS][0], f"and {len(ordered) - MAX_PROBLEMS} more"))
    return Refusal(shown)


def _syntax_problem(message: str, text: str, lines: KeyLines) -> Problem:
    place = re.search(r" \(at line ([0-9]+), column [0-9]+\)$", message)
    line = int(place[1]) if place else text.count("\n") + 1
    if digits := re.search(r"[0-9][0-9_]{4000}", text) if "integer string conversion" in message else None:
        return text.count("\n", 0, digits.start()) + 1, "integer beyond 64 bits"
    if message.startswith("Cannot "):  # tomllib reports the end of the value, but not the key
        for path, first, again in lines.repeated:
            if again <= line:
                return again, f"{dotted(path)}: given twice, first in line {first}"
    message = re.sub(r" \(at [^()]*\)$", "", message)
    return line, f"not valid TOML: {message[:1].lower()}{message[1:200]}"


def _unusable(document: dict[str, Any], lines: KeyLines) -> Iterator[Problem]:
    """Find values that TOML allows but the kit does not: dates, inf, nan, integers beyond 64 bits."""
    todo: list[tuple[KeyPath, Any]] = [((), document)]
    while todo:
        path, value = todo.pop()
        if len(path) > 3 * MAX_DEPTH:  # header, key and value together
            yield lines.line_of(path), f"{dotted(path[:3])}...: nested too deep"
        elif isinstance(value, dict):
            todo.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            todo.extend(((*path, index), item) for index, item in enumerate(value))
        elif isinstance(value, (date, time)):
            if tuple(part for part in path if isinstance(part, str)) != _DAY_KEY:
                text = "expected no date or time; in quotes it is a string"
                yield lines.line_of(path), f"{dotted(path)}: {text}"
            elif type(value) is not date:
                text = f"expected a day alone, such as 2027-01-31, found {value.isoformat()}"
                yield lines.line_of(path), f"{dotted(path)}: {text}"
        elif isinstance(value, float) and not math.isfinite(value):
            yield lines.line_of(path), f"{dotted(path)}: expected a finite number, found {value}"
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            yield lines.line_of(path), f"{dotted(path)}: integer beyond 64 bits"


def _days_as_text(document: dict[str, Any]) -> None:
    """A day may be written as one, or in quotes; from here on it is a text."""
    table, key = _DAY_KEY
    entries = document.get(table)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get(key), date):
            entry[key] = entry[key].isoformat()


# --- Errors of the model ---------------------------------------------------------------------------------

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
    details: list[ErrorDetails], document: dict[str, Any], model: type[BaseModel]
) -> list[tuple[KeyPath, str]]:
    expected: dict[KeyPath, list[str]] = {}  # per path: each member of a union expects a different kind
    values: dict[KeyPath, Any] = {}
    problems: list[tuple[KeyPath, str]] = []
    located = [_locate(detail, document) for detail in details]
    for detail, (path, value) in zip(details, located, strict=True):
        # pydantic also reports an array with invalid elements as too short.
        if detail["type"] == "too_short" and any(
            len(inner) > len(path) and inner[: len(path)] == path for inner, _ in located
        ):
            continue
        kind = detail["msg"].removeprefix("expected ") if detail["type"] == "unit_needed" else ""
        if kind := kind or _EXPECTED.get(detail["type"], ""):
            expected.setdefault(path, []).append(kind)
            values[path] = value
        else:
            error = detail.get("ctx", {}).get("error")
            own = (*path, *error.key) if isinstance(error, KeyProblem) else path
            problems.append((own, _problem_text(detail, path, value, model)))
    for path, kinds in expected.items():
        problems.append(
            (path, f"expected {' or '.join(dict.fromkeys(kinds))}, found {describe(values[path])}")
        )
    return list(dict.fromkeys(problems))


def _problem_text(detail: ErrorDetails, path: KeyPath, value: Any, model: type[BaseModel]) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return "required, but missing"
    if kind == "extra_forbidden":
        return f"unknown key, {nearest(str(path[-1]), _valid_keys(model, path[:-1]), 'valid keys')}"
    if kind == "value_error":
        return str(context.get("error", detail["msg"]))
    if kind in ("literal_error", "enum"):
        choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        if isinstance(value, str) and choices:
            return f"unknown value {shorten(value)}, {nearest(value, choices, 'valid values')}"
    if kind in ("too_short", "too_long") and isinstance(value, (list, dict)):
        limit = context["min_length"] if kind == "too_short" else context["max_length"]
        least_or_most = "at least" if kind == "too_short" else "at most"
        return f"must have {least_or_most} {counted(limit, 'element')}, found {len(value)}"
    message = re.sub(r"^(?:Input|String|Value) should ", "must ", detail["msg"])
    return f"{message[:1].lower()}{message[1:]}, found {describe(value)}"


def _locate(detail: ErrorDetails, document: dict[str, Any]) -> tuple[KeyPath, Any]:
    """Key path and value of a pydantic location, without its names of union members and validators."""
    path: KeyPath = ()
    value: Any = document
    for part in detail["loc"]:
        is_key = isinstance(value, dict) and part in value
        if is_key or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            path, value = (*path, part), value[part]
    if detail["type"] == "missing":
        path = (*path, detail["loc"][-1])
    return path, value


def _valid_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys of the table at `path`. An index, or a key of a dict, does not change the model."""
    tables = [model]
    for part in map(str, path):
        fields = [table.model_fields[part] for table in tables if part in table.model_fields]
        if fields:
            tables = [inner for field in fields for inner in _tables(field.annotation)]
    return list(dict.fromkeys(name for table in tables for name in table.model_fields))


def _tables(annotation: Any) -> list[type[BaseModel]]:
    """The models inside an annotation, such as those of the elements of an array."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [table for argument in get_args(annotation) for table in _tables(argument)]


def nearest(text: str, valid: list[str], noun: str, cutoff: float = 0.6) -> str:
    """Suggest the member of `valid` most similar to `text`, else list all of them as `noun`."""
    return suggested(text, valid, cutoff) or f"{noun}: {', '.join(valid) or 'none'}"


def suggested(text: str, valid: list[str], cutoff: float = 0.6) -> str:
    """The question whether the member of `valid` most similar to `text` was meant; "" without one."""
    lower = {each.lower(): each for each in reversed(valid)}
    close = difflib.get_close_matches(text[:100].lower(), lower, n=1, cutoff=cutoff)
    return f"did you mean {lower[close[0]]!r}?" if close else ""


def shorten(text: str) -> str:
    """`text` in double quotes, at most 60 characters of it, control characters escaped."""
    return f'"{printable(text if len(text) <= 60 else text[:57] + "...")}"'


def describe(value: object) -> str:
    """A TOML value in words: `the integer 130`, `a table`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"the {'integer' if isinstance(value, int) else 'number'} {value}"
    if isinstance(value, str):
        return f"the string {shorten(value)}"
    return "an array" if isinstance(value, list) else "a table" if isinstance(value, dict) else "nothing"
