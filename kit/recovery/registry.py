"""The unfinished runs that this machine's kit made: a file each, outside the results.

A run directory can come from anywhere, and what it asks to undo is done as root. So `hsp clean` acts by
itself only on a run that is listed here with the same directory. The token is on each of its hosts too.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from kit.core.errors import ConfigError, HostError
from kit.core.files import write_atomically
from kit.core.own_file import read_own

_MAX_BYTES = 1 << 16
_TOKEN_BYTES = 16


@dataclass(frozen=True)
class Entry:
    """`path`: the run directory; `token`: random, in hexadecimal digits."""

    run: str
    path: str
    token: str


def digest(token: str) -> str:
    """What the journal has of the token: it proves which token it is without giving it away."""
    return hashlib.sha256(token.encode()).hexdigest()


def enter(run: str, path: Path) -> Entry:
    """List a run, before it changes anything. Raises HostError."""
    entry = Entry(run, os.fspath(path.resolve()), secrets.token_hex(_TOKEN_BYTES))
    file = _file(run)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"{file.parent}: {error.strerror}",
            "`hsp clean` needs the list of unfinished runs there; XDG_STATE_HOME chooses another place",
        ) from error
    write_atomically(file, json.dumps(asdict(entry)).encode(), mode=0o600)
    return entry


def find(run: str) -> Entry | None:
    """The entry of an unfinished run; None if this machine's kit did not make it."""
    try:
        entry = json.loads(read_own(_file(run), _MAX_BYTES))
        return Entry(**{key: str(value) for key, value in entry.items()})
    except (OSError, ValueError, TypeError, AttributeError, ConfigError):
        return None


def leave(run: str) -> None:
    """The run is finished: nothing of it is left on a host."""
    _file(run).unlink(missing_ok=True)


def _file(run: str) -> Path:
    return Path(platformdirs.user_state_dir("hsp")) / "runs" / f"{run}.json"
