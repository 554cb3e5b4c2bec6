"""What is asked of a host, and the answer: facts that may be missing, garbled or hostile."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

HELPER_DEADLINE_S = 30.0
NFS_PORT = 2049
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_MISSING = "the host did not say"


class Unknown(Exception):
    """A fact that could not be had; the words say why."""


@dataclass(frozen=True)
class Request:
    """The argument of helper.py: `commands` are argv lists by name; `files` are glob patterns.

    So is `present`: paths that are only looked for, not read. `needs`: a command that is run only if
    that path is there.
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
    """A command that ended."""

    code: int
    out: str
    err: str

    def words(self) -> str:
        """The begin of what it said, for a person."""
        return (self.err.strip() or self.out.strip() or "it said nothing")[:200]


@dataclass(frozen=True)
class Facts:
    """An answer of helper.py, whatever it is. Accessors raise Unknown for what is not in it as it should be.

    `elsewhere` is what was read of root's files by another way, where the helper was not root.
    """

    raw: Mapping[str, Any]
    elsewhere: Mapping[str, str] = field(default_factory=dict)

    def part(self, name: str) -> dict[str, Any]:
        """One part of the answer, an object."""
        found = self.raw.get(name)
        if not isinstance(found, dict):
            raise Unknown(_MISSING)
        if isinstance(found.get("error"), str):
            raise Unknown(found["error"])
        return found

    def optional(self, path: str) -> str | None:
        """A file's text without the blanks around it; None if there is no such file."""
        if path in self.elsewhere:
            return self.elsewhere[path].strip()
        files = self.part("files")
        if path not in files:
            return None
        found = files[path]
        if isinstance(found, str):
            return found.strip()
        said = found.get("error") if isinstance(found, dict) else None
        raise Unknown(f"{path}: {said if isinstance(said, str) else _MISSING}")

    def text(self, path: str) -> str:
        found = self.optional(path)
        if found is None:
            raise Unknown(f"there is no {path}")
        return found

    def integer(self, path: str) -> int:
        return to_integer(self.text(path), path)

    def paths(self, pattern: str) -> list[str]:
        """Paths of files that match the regular expression."""
        wanted = re.compile(pattern)
        found = {*self.part("files"), *self.elsewhere}
        return sorted(path for path in found if isinstance(path, str) and wanted.fullmatch(path))

    def command(self, name: str) -> Command:
        found = self.part(f"command {name}")
        code, out, err = (found.get(key) for key in ("code", "out", "err"))
        if isinstance(code, bool) or not isinstance(code, int):
            raise Unknown(_MISSING)
        if not (isinstance(out, str) and isinstance(err, str)):
            raise Unknown(_MISSING)
        return Command(code, out, err)

    def output(self, name: str) -> str:
        """What a command said that ended well."""
        found = self.command(name)
        if found.code:
            raise Unknown(f"`{name}` failed: {found.words()}")
        return found.out

    def program(self, name: str) -> tuple[str | None, str | None]:
        """Where a command of that name comes from, and where it is although PATH does not look there."""
        found = self.part("programs").get(name)
        if not isinstance(found, dict):
            raise Unknown(_MISSING)
        path, elsewhere = found.get("path"), found.get("elsewhere")
        if not all(
            place is None or (isinstance(place, str) and place.startswith("/")) for place in (path, elsewhere)
        ):
            raise Unknown(_MISSING)
        return path, elsewhere

    def names(self, part: str) -> frozenset[str]:
        """A part that is a list of names."""
        found = self.raw.get(part)
        if isinstance(found, dict):
            self.part(part)
        if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
            raise Unknown(_MISSING)
        return frozenset(found)

    def present(self, path: str) -> bool:
        """Whether a path that was looked for is there."""
        return path in self.names("present")

    def number(self, *keys: str) -> float:
        """A finite number somewhere in the answer."""
        found: Any = self.raw
        for key in keys[:-1]:
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, dict) and isinstance(found.get("error"), str):
            raise Unknown(found["error"])
        value = found.get(keys[-1]) if isinstance(found, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e18:
            raise Unknown(_MISSING)
        return value


def parse_answer(text: str) -> dict[str, Any]:
    """The helper's line. Raises Unknown if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Unknown(f"its answer is not JSON; it begins with: {text.strip()[:100]!r}") from None
    if not isinstance(found, dict):
        raise Unknown("its answer is not what was asked for")
    return found


def to_integer(text: str, what: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise Unknown(f"{what} is not a number: {text[:60]!r}")
    return int(text)
