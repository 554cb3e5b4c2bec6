"""A run's own directory on each of its hosts. While it is there, the host is not as it was before."""

from __future__ import annotations

import re

from kit.core.errors import HostError, SafetyRefusal
from kit.hosts.base import Host

ROOT = "/run/hsp"
_RUN = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")
# Not runs: locks, and what belongs to the lab itself.
_PATH = re.compile(rf"{ROOT}/{_RUN.pattern}")


def path_of(run_id: str) -> str:
    return f"{ROOT}/{run_id}"


def create_commands(run_id: str) -> list[list[str]]:
    """argv of making it, private to root."""
    return [
        ["install", "-d", "-m", "0711", ROOT],
        ["install", "-d", "-m", "0700", path_of(run_id)],
    ]


def remove(host: Host, path: str) -> None:
    """Nothing but a run's own directory. Raises SafetyRefusal for anything else, HostError."""
    if not _PATH.fullmatch(path):
        raise SafetyRefusal(f"{path!r} is no run's directory; it was left alone")
    host.run(remove_command(path))


def remove_command(path: str) -> list[str]:
    return ["rm", "-r", "-f", "--one-file-system", "--", path]


def left_by(host: Host) -> list[str]:
    """Ids of runs that have not been cleaned up on this host. Raises HostError."""
    answer = host.run(["find", ROOT, "-mindepth", "1", "-maxdepth", "1", "-printf", r"%f\n"], check=False)
    if answer.returncode and "No such file" not in answer.stderr:
        raise HostError(f"{ROOT} on {host.name} cannot be looked into: {answer.stderr.strip()[:200]}")
    return sorted(name for name in answer.stdout.split("\n") if _RUN.fullmatch(name))
