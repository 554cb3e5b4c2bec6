"""The observed server as the observation may use it: it reads, and writes into its own directory.

Besides it sets one number of the kernel for a second, and sets it back (kit.observe.probe_cost).

Every command is held against a closed list. What is not in it is refused before it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from kit.core.errors import SafetyRefusal
from kit.hosts.base import DEFAULT_DEADLINE_S, CommandResult, Host, Process
from kit.hosts.wrapped import WrappedHost
from kit.observe import probe_cost, served
from kit.observe.local import FIND_CALLS
from kit.observe.removal_guard import GUARD
from kit.recovery import work_directory
from kit.trace import nfsd_tracer
from kit.zfs import scrub_status

_FILE = r"/(?:proc|sys)(?:/(?!\.\.?(?:/|$))[A-Za-z0-9_.: -]+)+|/etc/machine-id"
# Words of a command, each a whole match; the last one may be repeated where it ends with "...".
_READS: tuple[tuple[str, ...], ...] = (
    ("cat", f"{_FILE}", "..."),
    ("tail", "-v", "-n", r"\+1", f"{_FILE}", "..."),
    ("test", "-[der]", _FILE),
    ("grep", "--extended-regexp", r" \([a-z0-9_|]+\)\(\\s\|\$\)", "/proc/kallsyms"),
    ("readlink", "--canonicalize-existing", "/bin/sh"),
    ("uname", "-r"),
    ("bpftrace", "--version"),
    ("dpkg-query", "--show", "--showformat", r"\$\{Version\}", "[a-z0-9.+-]+"),
    ("zpool", "list", "-H", "-o", "name"),
    (*served.LIST, "[A-Za-z0-9][A-Za-z0-9_.: -]*"),
    ("zdb", "-l", "/.+"),
    served.SYNC,
    scrub_status.STATUS_JSON,
    ("sh", "-c", re.escape(scrub_status.STATUS_TEXT)),
    tuple(map(re.escape, FIND_CALLS)),
    # The process that the tracer waits for; what the kernel mounted for the tracer.
    ("kill", "-TERM", "[0-9]+"),
    ("umount", re.escape(nfsd_tracer.TRACING)),
)
# In its own directory.
_OWN = frozenset({"cat", "install", "mkdir", "rm", "tee"})
# What `install` may name besides: the directory above, which it makes, and an empty file.
_BESIDE = (work_directory.ROOT, "/dev/null")
_SCRIPTS = frozenset({
    GUARD, probe_cost.WINDOW, nfsd_tracer.RUN, nfsd_tracer.WAIT, nfsd_tracer.BEGIN, nfsd_tracer.FOLLOW,
    nfsd_tracer.END_FOLLOWED, nfsd_tracer.END_LEFT,
})  # fmt: skip


class LookingHost(WrappedHost):
    """Refuses what an observation does not do. `directory`: its own on the host."""

    def __init__(self, host: Host, directory: str) -> None:
        super().__init__(host)
        self._directory = directory

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        self._check(argv)
        return super()._run(argv, deadline_s, stdin, limit_bytes)

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        self._check(argv)
        return super().start(argv, output, stdin)

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        if not self._is_own(path):
            raise _refused(f"a file {path}")
        super().put(content, path, deadline_s=deadline_s)

    def _check(self, argv: Sequence[str]) -> None:
        if not (is_read(argv) or self._is_in_own(argv)):
            raise _refused(f"`{' '.join(argv)[:200]}`")

    def _is_in_own(self, argv: Sequence[str]) -> bool:
        """Whether each path of the command is in the directory of the observation."""
        if tuple(argv[:2]) == ("sh", "-c"):
            return len(argv) > 4 and argv[2] in _SCRIPTS and self._is_own(argv[4])
        # Options and modes of files; every other word is a path.
        paths = [word for word in argv[1:] if not re.fullmatch("-.*|[0-7]{4}", word)]
        beside = _BESIDE if argv[0] == "install" else ()
        own = (path in beside or self._is_own(path) for path in paths)
        return argv[0] in _OWN and bool(paths) and all(own)

    def _is_own(self, path: str) -> bool:
        inside = path == self._directory or path.startswith(f"{self._directory}/")
        return inside and ".." not in path.split("/")


def is_read(argv: Sequence[str]) -> bool:
    """Whether the command is one of the closed list of those that only read, or end the tracer."""
    return any(_matches(argv, words) for words in _READS)


def _matches(argv: Sequence[str], words: Sequence[str]) -> bool:
    if words[-1] == "...":
        *words, last = words[:-1]
        words = [*words, *[last] * max(1, len(argv) - len(words))]
    return len(argv) == len(words) and all(map(re.fullmatch, words, argv))


def _refused(what: str) -> SafetyRefusal:
    return SafetyRefusal(
        f"an observation changes nothing on the server, and {what} is not in the list of what it does",
        "report it: this is an error of the kit",
    )
