"""The sudo lines of docs/hosts.md, and what an ordinary user with them can run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kit.hosts.sudo import KILLER, elevated
from kit.nfs import unlisted_exports

_DOCUMENT = Path(__file__).parents[1] / "docs" / "hosts.md"
# Only root may read it. What begins with `env` is in a directory of the user's own; anybody may read a link.
_OF_ROOT = re.compile(r"/run/hsp/[0-9]{8}T|/dev/(?!null|stdin|disk/)|/proc/fs/nfsd|/proc/kallsyms")
_MAKES_POOL_CHANGES = ("create", "destroy", "set", "mount", "remove", "offline", "online", "sync", "export")
_OWN_POOL = re.compile(r"hsp-[0-9a-f]{6}(/.*)?|RUN/pool")
_OF_OTHERS = re.compile(r"/etc/(?!machine-id)|systemctl|/usr/lib|/lib/systemd")


def documented(role: str) -> str:
    """The lines for a server or a client."""
    [lines] = re.findall(rf"```sudoers-{role}\n(.*?)```", _DOCUMENT.read_text(), re.DOTALL)
    return str(lines)


def paths(role: str) -> list[str]:
    """The programs of the lines, with their folders."""
    return re.findall(r"/(?:usr/)?s?bin/[a-z0-9_]+", documented(role))


def refused(role: str, argv: Sequence[str]) -> str:
    """Why an ordinary user with the lines cannot run it; "" if he can."""
    command = elevated(argv)
    if command == tuple(argv):
        words = [word for word in argv[1:] if argv[0] not in ("env", "readlink") and _OF_ROOT.search(word)]
        return f"{argv[0]} runs as the user, and {words[0]} is root's" if words else ""
    program = command[command.index(KILLER[-1]) + 1]
    names = [path if "/" in program else path.rpartition("/")[2] for path in paths(role)]
    return "" if program in names else f"{program} is not in the lines for a {role}"


def foreign(argv: Sequence[str]) -> str:
    """What of others a command would change: a pool, an export, a file of the system; "" if nothing."""
    if tuple(argv) == unlisted_exports.READ:
        return ""
    touched = [word for word in argv if _OF_OTHERS.search(word)]
    if argv[0] in ("zpool", "zfs") and argv[1] in _MAKES_POOL_CHANGES and argv[1:] != ["sync"]:
        touched += [] if any(_OWN_POOL.fullmatch(word) for word in argv[2:]) else [" ".join(argv[:3])]
    if argv[0] == "exportfs" and argv[1] not in ("-v", "-f"):
        touched += [] if "/run/hsp/" in argv[-1] else [argv[-1]]
    return touched[0] if touched else ""
