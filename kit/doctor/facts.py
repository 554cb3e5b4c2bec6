"""Request to a host and its answer: facts, which may be missing, garbled or hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

HELPER_DEADLINE_S = 30.0
NFS_PORT = 2049
_INTEGER = re.compile(r"-?[0-9]{1,18}")
MISSING = "missing in the host's answer"


class Unknown(Exception):
    """A fact that is not available; the message says why."""


@dataclass(frozen=True)
class Request:
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
class Command:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    def words(self) -> str:
        """Start of its output, for a message."""
        return (self.err.strip() or self.out.strip() or "no output")[:200]


@dataclass(frozen=True)
class Facts:
    """Answer of remote/read_facts.py, unchecked. Accessors raise Unknown for a missing or malformed fact.

    `elsewhere`: texts of root's files that were read separately because the helper was not root.
    """

    raw: Mapping[str, Any]
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def part(self, name: str) -> dict[str, Any]:
        """One part of the answer, an object."""
        value = self.raw.get(name)
        if not isinstance(value, dict):
            raise Unknown(MISSING)
        if isinstance(value.get("error"), str):
            raise Unknown(value["error"])
        return value

    def optional(self, path: str) -> str | None:
        """Text of a file, stripped; None if the file does not exist."""
        if path in self.elsewhere:
            return self.elsewhere[path].strip()
        files = self.part("files")
        if path not in files:
            return None
        value = files[path]
        if isinstance(value, str):
            return value.strip()
        error = value.get("error") if isinstance(value, dict) else None
        raise Unknown(f"{path}: {error if isinstance(error, str) else MISSING}")

    def text(self, path: str) -> str:
        """Text of a file, stripped."""
        text = self.optional(path)
        if text is None:
            raise Unknown(f"there is no {path}")
        return text

    def integer(self, path: str) -> int:
        """The integer in a file."""
        return to_integer(self.text(path), path)

    def paths(self, pattern: str) -> list[str]:
        """Paths of files that match the regular expression."""
        files = {*self.part("files"), *self.elsewhere}
        return sorted(path for path in files if isinstance(path, str) and re.fullmatch(pattern, path))

    def command(self, name: str) -> Command:
        """The result of a command."""
        result = self.part(f"command {name}")
        code, out, err = (result.get(key) for key in ("code", "out", "err"))
        if isinstance(code, bool) or not isinstance(code, int):
            raise Unknown(MISSING)
        if not (isinstance(out, str) and isinstance(err, str)):
            raise Unknown(MISSING)
        return Command(code, out, err)

    def output(self, name: str) -> str:
        """Output of a successful command."""
        command = self.command(name)
        if command.code:
            raise Unknown(f"`{name}` failed: {command.words()}")
        return command.out

    def program(self, name: str) -> tuple[str | None, str | None]:
        """Path of a program in PATH, and its path in system directories that may not be in PATH."""
        value = self.part("programs").get(name)
        if not isinstance(value, dict):
            raise Unknown(MISSING)
        path, elsewhere = value.get("path"), value.get("elsewhere")
        for text in (path, elsewhere):
            if not (text is None or (isinstance(text, str) and text.startswith("/"))):
                raise Unknown(MISSING)
        return path, elsewhere

    def names(self, part: str) -> frozenset[str]:
        """A part of the answer that is a list of names."""
        value = self.raw.get(part)
        if isinstance(value, dict):
            self.part(part)
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise Unknown(MISSING)
        return frozenset(value)

    def present(self, path: str) -> bool:
        """Whether a requested path exists."""
        return path in self.names("present")

    def number(self, *keys: str) -> float:
        """The finite number at the path `keys` in the answer."""
        parent: Any = self.raw
        for key in keys[:-1]:
            parent = parent.get(key) if isinstance(parent, dict) else None
        if isinstance(parent, dict) and isinstance(parent.get("error"), str):
            raise Unknown(parent["error"])
        value = parent.get(keys[-1]) if isinstance(parent, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e18:
            raise Unknown(MISSING)
        return value


def parse_answer(text: str) -> dict[str, Any]:
    """Parse the helper's line. Raises Unknown if it is not a JSON object."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        raise Unknown(f"its answer is not JSON; it starts with: {text.strip()[:100]!r}") from None
    if not isinstance(answer, dict):
        raise Unknown("its answer is not a JSON object")
    return answer


def to_integer(text: str, name: str) -> int:
    """Parse an integer; `name` is for the message. Raises Unknown."""
    if not _INTEGER.fullmatch(text):
        raise Unknown(f"{name} is not a number: {text[:60]!r}")
    return int(text)
