"""A run's directory on each of its hosts. It exists until all changes on the host are undone."""

from __future__ import annotations

import re

from kit.core.errors import HostError, SafetyRefusal
from kit.core.seed import RUN_ID
from kit.hosts.base import Host

ROOT = "/run/hsp"


def path_of(run_id: str) -> str:
    return f"{ROOT}/{run_id}"


def create_commands(run_id: str) -> list[list[str]]:
    """argv to create it, for root only."""
    return [
        ["install", "-d", "-m", "0711", ROOT],
        ["install", "-d", "-m", "0700", path_of(run_id)],
    ]


def remove(host: Host, path: str) -> None:
    """Remove a run's directory. Raises SafetyRefusal for any other path, HostError."""
    if not re.fullmatch(f"{ROOT}/{RUN_ID}", path):
        raise SafetyRefusal(f"{path!r} is not a run's directory; it was left alone")
    host.run(remove_command(path))


def remove_command(path: str) -> list[str]:
    return ["rm", "-r", "-f", "--one-file-system", "--", path]


def left_by(host: Host) -> list[str]:
    """Ids of runs with a directory on this host. Raises HostError."""
    result = host.run(["find", ROOT, "-mindepth", "1", "-maxdepth", "1", "-printf", r"%f\n"], check=False)
    if result.returncode and "No such file" not in result.stderr:
        raise HostError(f"{ROOT} on {host.name} cannot be read: {result.stderr.strip()[:200]}")
    # Other names are locks, and files of the lab.
    return sorted(name for name in result.stdout.split("\n") if re.fullmatch(RUN_ID, name))
