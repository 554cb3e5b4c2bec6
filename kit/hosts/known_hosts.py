"""The known_hosts files: which keys a host may show, and where each of them is written.

Lines are matched by asyncssh (hashed names, patterns, negation), one at a time: a line that
nobody can read is passed over as OpenSSH does, and one that matches is known by its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh


@dataclass(frozen=True)
class Entry:
    """A line for the host: where, and whose key. `marker` is empty, `cert-authority` or `revoked`."""

    path: Path
    line: int
    marker: str
    key: asyncssh.SSHKey

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.key.get_fingerprint()})"


@dataclass(frozen=True)
class Known:
    """What the files say about one host."""

    files: tuple[Path, ...]
    entries: tuple[Entry, ...]

    @property
    def trusted(self) -> tuple[asyncssh.SSHKey, ...]:
        return self._keys("")

    @property
    def authorities(self) -> tuple[asyncssh.SSHKey, ...]:
        return self._keys("cert-authority")

    @property
    def revoked(self) -> tuple[asyncssh.SSHKey, ...]:
        return self._keys("revoked")

    def _keys(self, marker: str) -> tuple[asyncssh.SSHKey, ...]:
        gone = {entry.key for entry in self.entries if entry.marker == "revoked"}
        return tuple(
            entry.key
            for entry in self.entries
            if entry.marker == marker and (marker == "revoked" or entry.key not in gone)
        )


def look_up(files: Sequence[Path], name: str, port: int) -> Known:
    """All lines for the host, in the order of the files. Files that cannot be read say nothing.

    As OpenSSH does it: by name (never by address), a port other than 22 as `[name]:port`, and
    only if no line has that, the plain name. A revoked key is revoked under either.
    """
    exact = name if port == 22 else f"[{name}]:{port}"
    found = list(_matching(files, exact))
    if port != 22:
        plain = list(_matching(files, name))
        has_own = any(entry.marker != "revoked" for entry in found)
        found += [entry for entry in plain if entry.marker == "revoked" or not has_own]
    # A pattern may match the name both with and without the port.
    return Known(tuple(files), tuple(dict.fromkeys(found)))


def _matching(files: Iterable[Path], pattern: str) -> Iterable[Entry]:
    for path in files:
        try:
            text = path.read_text(errors="surrogateescape")
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            yield from _entries(path, number, line.strip(), pattern)


def _entries(path: Path, number: int, line: str, pattern: str) -> Iterable[Entry]:
    if not line or line.startswith("#"):
        return
    words = line.split(None, 2)
    # Names are compared without regard to case; a hash is text of its own.
    at = 1 if line.startswith("@") else 0
    if at < len(words) and not words[at].startswith("|"):
        words[at] = words[at].lower()
    try:
        keys, authorities, revoked, *_ = asyncssh.import_known_hosts(" ".join(words)).match(pattern, "", None)
    except (ValueError, UnicodeError):
        return
    for marker, group in (("", keys), ("cert-authority", authorities), ("revoked", revoked)):
        for key in group:
            assert isinstance(key, asyncssh.SSHKey)
            yield Entry(path, number, marker, key)
