"""What this machine's kit made and a person agreed to on it: a file each, outside the results.

`runs/`: unfinished runs. `made/`: runs and series that it made, or was told to resume. `agreed/`: commands.

A run directory can come from anywhere, and what it asks to undo is done as root. So `hsp clean` acts by
itself only on a run that is listed here with the same directory. The token is on each of its hosts too.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kit.core.errors import ConfigError, HostError
from kit.core.files import state_dir, write_atomically
from kit.core.own_file import read_own

_MAX_BYTES = 1 << 16
_MOST_MADE = 10_000
_TOKEN_BYTES = 16


@dataclass(frozen=True)
class RegisteredRun:
    """`path`: the run directory; `token`: random, in hexadecimal digits.

    `commands`: digests, with spaces between, of what may be run to undo the user's own settings.
    """

    run: str
    path: str
    token: str
    commands: str = ""


def digest(token: str) -> str:
    """What the journal has of the token: it proves which token it is without giving it away."""
    return hashlib.sha256(token.encode()).hexdigest()


def enter(run: str, path: Path) -> RegisteredRun:
    """List a run, before it changes anything. Raises HostError."""
    entry = RegisteredRun(run, os.fspath(path.resolve()), secrets.token_hex(_TOKEN_BYTES))
    _write(_file(run), json.dumps(asdict(entry)))
    return entry


def find(run: str) -> RegisteredRun | None:
    """The entry of an unfinished run; None if this machine's kit did not make it."""
    try:
        entry = json.loads(read_own(_file(run), _MAX_BYTES))
        return RegisteredRun(**{key: str(value) for key, value in entry.items()})
    except (OSError, ValueError, TypeError, AttributeError, ConfigError):
        return None


def allow(run: str, commands: str) -> None:
    """List commands, by their digest, that undo something of the run. Raises HostError without an entry."""
    entry = find(run)
    if entry is None:
        raise HostError(f"{_file(run)} is gone: the list of unfinished runs has no {run}", "run it again")
    allowed = replace(entry, commands=f"{entry.commands} {commands}".strip())
    write_atomically(_file(run), json.dumps(asdict(allowed)).encode(), mode=0o600)


def is_allowed(run: str, commands: str) -> bool:
    """Whether this machine's kit has listed them for the run."""
    entry = find(run)
    return entry is not None and commands in entry.commands.split()


def leave(run: str) -> None:
    """The run is finished: nothing of it is left on a host."""
    _file(run).unlink(missing_ok=True)


def entries() -> Iterator[RegisteredRun]:
    """All unfinished runs."""
    for path in sorted((state_dir() / "runs").glob("*.json")):
        if entry := find(path.stem):
            yield entry


def remember(name: str, path: Path) -> None:
    """List a run or series of this machine, to be resumed without a question. Raises HostError."""
    _write(state_dir() / "made" / f"{name}.json", json.dumps(os.fspath(path.resolve())))
    # Names begin with their time.
    for old in sorted((state_dir() / "made").glob("*.json"))[:-_MOST_MADE]:
        old.unlink(missing_ok=True)


def is_remembered(name: str, path: Path) -> bool:
    """Whether it is the one that was listed, in that directory."""
    try:
        made = json.loads(read_own(state_dir() / "made" / f"{name}.json", _MAX_BYTES))
    except (OSError, ValueError, ConfigError):
        return False
    return bool(made == os.fspath(path.resolve()))


def agree(code: str) -> None:
    """Commands that a person has agreed to, by what stands for them. Raises HostError."""
    _write(state_dir() / "agreed" / code, "")


def is_agreed(code: str) -> bool:
    try:
        read_own(state_dir() / "agreed" / code, _MAX_BYTES)
    except (OSError, ConfigError):
        return False
    return True


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"{file.parent}: {error.strerror}",
            "`hsp` keeps there what it made and what was agreed to; XDG_STATE_HOME chooses another place",
        ) from error
    write_atomically(file, text.encode(), mode=0o600)


def _file(run: str) -> Path:
    return state_dir() / "runs" / f"{run}.json"
