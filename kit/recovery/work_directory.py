"""A run's directory on each of its hosts. It exists until all changes on the host are undone."""

from __future__ import annotations

import re
from typing import Literal

from kit.core.errors import HostError, SafetyRefusal
from kit.core.seed import RUN_ID
from kit.hosts.base import Command, Host
from kit.recovery import registry

ROOT = "/run/hsp"
_RUN = re.compile(RUN_ID)
_TOKEN = "token"
# The kind of its undo.
KIND = "work-directory"
# Other names below ROOT are locks, and files of the lab.
_PATH = re.compile(rf"{ROOT}/{_RUN.pattern}")


def path_of(run_id: str) -> str:
    return f"{ROOT}/{run_id}"


def create_commands(run_id: str, token: str = "") -> tuple[Command, ...]:
    """Create it, for root only, with the token that `hsp clean` compares."""
    file = f"{path_of(run_id)}/{_TOKEN}"
    return (
        Command(("install", "-d", "-m", "0711", ROOT)),
        Command(("install", "-d", "-m", "0700", path_of(run_id))),
        Command(("install", "-m", "0600", "/dev/null", file)),
        Command(("tee", file), "the run's token", token.encode()),
    )


def create(host: Host, run_id: str, token: str) -> None:
    """Execute `create_commands`. Raises HostError."""
    for command in create_commands(run_id, token):
        command.run(host)


def owner(host: Host, run_id: str, token_sha256: str) -> Literal["this run", "another", "none", "unknown"]:
    """Whose the directory is, by its token. "none": it is not there, or has nothing in it.

    "unknown": it has content but no token. Raises HostError.
    """
    token = host.run(["cat", f"{path_of(run_id)}/{_TOKEN}"], check=False).stdout.strip()
    if token:
        return "this run" if registry.digest(token) == token_sha256 else "another"
    # A run that was killed while it made the directory has not written the token.
    but_token = ["!", "(", "-name", _TOKEN, "-empty", ")"]
    return "unknown" if _found(host, path_of(run_id), *but_token, "-print", "-quit").strip() else "none"


def _found(host: Host, path: str, *words: str) -> str:
    """What find(1) prints of the content of a directory; "" where there is none. Raises HostError."""
    result = host.run(["find", path, "-mindepth", "1", *words], check=False)
    if result.returncode and "No such file" not in result.stderr:
        raise HostError(f"{path} on {host.name} cannot be read: {result.stderr.strip()[:200]}")
    return result.stdout


def remove(host: Host, path: str) -> None:
    """Remove a run's directory. Raises SafetyRefusal for any other path, HostError.

    ROOT stays: where another mount namespace has something mounted on it, rmdir would take that away.
    """
    if not _PATH.fullmatch(path):
        raise SafetyRefusal(f"{path!r} is not a run's directory; it was left alone")
    host.run(remove_command(path))


def remove_command(path: str) -> list[str]:
    return ["rm", "-r", "-f", "--one-file-system", "--", path]


def left_by(host: Host) -> list[str]:
    """Ids of runs with a directory on this host. Raises HostError."""
    names = _found(host, ROOT, "-maxdepth", "1", "-printf", r"%f\n").split("\n")
    return sorted(name for name in names if _RUN.fullmatch(name))
