"""The known_hosts files: the accepted keys of a host, the lines they are in, and the refusal of any other.

asyncssh matches the lines (hashed names, patterns, negation), one at a time: so the number of a
matching line is known, and a malformed line is ignored, as OpenSSH does.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from kit.hosts.base import HostLost
from kit.hosts.ssh_config import SshSettings


class HostKeyRefused(HostLost):
    """The host key is unknown, changed or revoked; no command was sent."""


@dataclass(frozen=True)
class KnownKey:
    """A key for the host, and its line. `marker` is empty, `cert-authority` or `revoked`."""

    path: Path
    line: int
    marker: str
    key: asyncssh.SSHKey

    def __str__(self) -> str:
        return f"{self.path}:{self.line} ({self.key.get_fingerprint()})"


@dataclass(frozen=True)
class KnownKeys:
    """All entries for one host."""

    files: tuple[Path, ...]
    entries: tuple[KnownKey, ...]

    def keys(self, marker: str) -> list[asyncssh.SSHKey]:
        """The keys of the entries with that marker; a revoked key only with `revoked`."""
        revoked = {entry.key for entry in self.entries if entry.marker == "revoked"}
        return [
            entry.key
            for entry in self.entries
            if entry.marker == marker and (marker == "revoked" or entry.key not in revoked)
        ]


def look_up(files: Sequence[Path], name: str, port: int) -> KnownKeys:
    """All entries for the host, in the order of the files. Unreadable files are skipped.

    As in OpenSSH: the lookup is by name (never by address), with a port other than 22 as `[name]:port`;
    the plain name is used only if no line has that. A key revoked under either name is revoked.
    """
    exact = name if port == 22 else f"[{name}]:{port}"
    entries = list(_matching(files, exact))
    if port != 22:
        plain = list(_matching(files, name))
        has_own = any(entry.marker != "revoked" for entry in entries)
        entries += [entry for entry in plain if entry.marker == "revoked" or not has_own]
    # A pattern may match the name both with and without the port.
    return KnownKeys(tuple(files), tuple(dict.fromkeys(entries)))


def _matching(files: Iterable[Path], name: str) -> Iterable[KnownKey]:
    for path in files:
        with contextlib.suppress(OSError):
            for number, line in enumerate(path.read_text(errors="surrogateescape").splitlines(), 1):
                yield from _entries(path, number, line.strip(), name)


def _entries(path: Path, number: int, line: str, name: str) -> Iterable[KnownKey]:
    if not line or line.startswith("#"):
        return
    fields = line.split(None, 2)
    # Names are case-insensitive; hashed names are not changed.
    at = 1 if line.startswith("@") else 0
    if at < len(fields) and not fields[at].startswith("|"):
        fields[at] = fields[at].lower()
    try:
        known = asyncssh.import_known_hosts(" ".join(fields))
        keys, authorities, revoked, *_ = known.match(name, "", None)
    except (ValueError, UnicodeError):
        return
    for marker, group in (("", keys), ("cert-authority", authorities), ("revoked", revoked)):
        for key in group:
            assert isinstance(key, asyncssh.SSHKey)
            yield KnownKey(path, number, marker, key)


def host_key_refused(
    where: str, hop: SshSettings, known: KnownKeys, shown: asyncssh.SSHKey | None, reason: str
) -> HostKeyRefused:
    """The error for a host key: the key, the expected keys and their lines, and what to do."""
    name = hop.known_name if hop.known_port == 22 else f"[{hop.known_name}]:{hop.known_port}"
    files = ", ".join(map(str, known.files)) or "none is configured"
    key = f"{shown.algorithm.decode()} {shown.get_fingerprint()}" if shown else ""
    there, here = _commands(hop, shown)
    known_keys = [entry for entry in known.entries if entry.marker == ""]
    revoked = [entry for entry in known.entries if entry.marker == "revoked"]
    if revoked and (not key or any(entry.key == shown for entry in revoked)):
        return HostKeyRefused(
            f"{where}the SSH host key of {name} is revoked by {'; '.join(map(str, revoked))}",
            "another machine may have this key. Ask who revoked it before you continue",
        )
    if known_keys:
        return HostKeyRefused(
            f"{where}the SSH host key of {name} has CHANGED: it shows {key or reason}, but known is "
            + "; ".join(map(str, known_keys)),
            "another machine may be answering. Only if you know that the host was reinstalled: compare on "
            f"its own console with {there}, then `ssh-keygen -R '{name}' -f {known_keys[0].path}`, and once "
            f"{here}",
        )
    return HostKeyRefused(
        f"{where}the SSH host key of {name} is unknown: it shows {key or reason}; looked in {files}",
        f"compare with {there} on its own console; then {here} once and say yes to that fingerprint "
        f"(or add the line of `ssh-keyscan -p {hop.port} {hop.hostname}`)",
    )


def _commands(hop: SshSettings, shown: asyncssh.SSHKey | None) -> tuple[str, str]:
    """What shows the fingerprint on the host itself, and what logs in to it from here."""
    kind = shown.algorithm.decode().removeprefix("ssh-").partition("-")[0] if shown else "ed25519"
    config = ["-F", os.fspath(hop.config_path)] if hop.config_path else []
    port = ["-p", str(hop.port)] if hop.port != 22 else []
    return (
        f"`ssh-keygen -lf /etc/ssh/ssh_host_{kind}_key.pub`",
        f"`{shlex.join(['ssh', *config, *port, f'{hop.user}@{hop.name}'])}`",
    )
