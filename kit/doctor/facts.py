"""Request to a host and its answer: facts, which may be missing, garbled or hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from kit.core.text import json_value

HELPER_DEADLINE_S = 30.0
NFS_PORT = 2049
MISSING = "missing in the host's answer"
Parsed = TypeVar("Parsed")


class Unknown(Exception):
    """A fact that is not available; the message says why."""


@dataclass(frozen=True)
class FactsRequest:
    """Argument of remote/read_facts.py. `commands`: argv by name; `files`: glob patterns of files to read.

    `present`: glob patterns of paths that are listed, not read. `needs`: commands that run only if a path
    exists.
    """

    files: tuple[str, ...]
    present: tuple[str, ...]
    programs: tuple[str, ...]
    commands: Mapping[str, Sequence[str]]
    needs: Mapping[str, str] = field(default_factory=dict)
    symbols: tuple[str, ...] = ()
    space: str = "/run"
    peer: str = ""
    port: int = NFS_PORT
    deadline_s: float = HELPER_DEADLINE_S

    def as_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass(frozen=True)
class CommandFact:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    def words(self) -> str:
        """Start of its output, for a message."""
        return (self.err.strip() or self.out.strip() or "no output")[:200]


@dataclass(frozen=True)
class HostFacts:
    """Answer of remote/read_facts.py, unchecked. Accessors raise Unknown for a missing or malformed fact.

    `elsewhere`: texts of root's files that were read separately because the helper was not root, and the
    names in a directory of root. `refused`: programs that sudo does not run for the user of the login.
    """

    raw: Mapping[str, Any]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    refused: tuple[str, ...] = ()

    def part(self, name: str) -> dict[str, Any]:
        """One part of the answer, an object."""
        return as_object(self.raw.get(name))

    def optional(self, path: str, pattern: str = "") -> str | None:
        """Text of a file, stripped; None if the file does not exist. `pattern`: what it must match."""
        if path not in self.elsewhere and path not in self.part("files"):
            return None
        value = self.elsewhere.get(path) or self.part("files").get(path)
        if not isinstance(value, str):
            error = value.get("error") if isinstance(value, dict) else None
            raise Unknown(f"{path}: {error if isinstance(error, str) else MISSING}")
        text = value.strip()
        if pattern and not re.fullmatch(pattern, text):
            raise Unknown(f"{path} is {text[:60]!r}" if text else f"{path} is empty")
        return text

    def text(self, path: str, pattern: str = "") -> str:
        """As `optional`, of a file that must exist."""
        text = self.optional(path, pattern)
        if text is None:
            raise Unknown(f"there is no {path}")
        return text

    def integer(self, path: str) -> int:
        """The integer in a file."""
        return int(self.text(path, "-?[0-9]{1,18}"))

    def paths(self, pattern: str) -> list[str]:
        """Paths of files that match the regular expression."""
        files = {*self.part("files"), *self.elsewhere}
        return sorted(path for path in files if isinstance(path, str) and re.fullmatch(pattern, path))

    def command(self, name: str) -> CommandFact:
        """The result of a command."""
        result = self.part(f"command {name}")
        code, out, err = (result.get(key) for key in ("code", "out", "err"))
        if isinstance(code, bool) or not isinstance(code, int):
            raise Unknown(MISSING)
        if not (isinstance(out, str) and isinstance(err, str)):
            raise Unknown(MISSING)
        return CommandFact(code, out, err)

    def output(self, name: str) -> str:
        """Output of a successful command."""
        command = self.command(name)
        if command.code:
            raise Unknown(f"`{name}` failed: {command.words()}")
        return command.out

    def program(self, name: str) -> tuple[str | None, str | None]:
        """Path of a program in PATH, and its path in system directories that may not be in PATH."""
        value = as_object(self.part("programs").get(name))
        path, elsewhere = value.get("path"), value.get("elsewhere")
        for text in (path, elsewhere):
            if not (text is None or (isinstance(text, str) and text.startswith("/"))):
                raise Unknown(MISSING)
        return path, elsewhere

    def names(self, part: str) -> frozenset[str]:
        """A part of the answer that is a list of names."""
        value = self.raw.get(part)
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            as_object(value)
            raise Unknown(MISSING)
        return frozenset(value)

    def present(self, path: str) -> bool:
        """Whether a requested path exists."""
        return path in self.names("present")

    def number(self, *keys: str) -> float:
        """The finite number at the path `keys` in the answer."""
        parent = self.raw
        for key in keys[:-1]:
            parent = as_object(parent.get(key))
        value = parent.get(keys[-1])
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e18:
            raise Unknown(MISSING)
        return value


def as_object(value: object) -> dict[str, Any]:
    """An object of the answer. Raises Unknown, with the host's error if the object has one."""
    if not isinstance(value, dict):
        raise Unknown(MISSING)
    if isinstance(value.get("error"), str):
        raise Unknown(value["error"])
    return value


def parse_json(text: str, source: str, kind: type[Parsed]) -> Parsed:
    """Parse an object (dict) or a list. Raises Unknown; `source` is for its message."""
    try:
        value = json_value(text)
    except ValueError:
        raise Unknown(f"{source} is not JSON; it starts with: {text.strip()[:100]!r}") from None
    if not isinstance(value, kind):
        raise Unknown(f"{source} is not a JSON {'object' if kind is dict else 'list'}")
    return value
