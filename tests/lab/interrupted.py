"""The command line, killed or cut off from its hosts at a chosen line of its journal.

    python -m tests.lab.interrupted MODE WHERE -- ARGUMENTS OF hsp

MODE is `kill` or `kill-at` (SIGKILL, at once), `drop` (every SSH connection breaks, a moment later, when what
the line announced is under way), `fill` (the disk of the results gets full) or `none`. WHERE counts the
lines that begin or end a step, from 1; for `kill-at` and `fill` it is `STATE:STEP`, as in "done:phase read".
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from kit.cli.main import main
from kit.hosts import ssh
from kit.journal import Journal

_MOMENT_S = 0.15
BALLAST = "ballast"


def fill(path: Path) -> None:
    """Until nothing more goes onto the disk that `path` is on."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 20)):
            pass
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"0"):
            pass


def install(mode: str, where: str) -> None:
    """Count the journal's lines, and strike."""
    write, open_host = Journal._write, ssh.SshHost.__init__
    count, hosts = 0, list[ssh.SshHost]()

    def counting_write(self: Journal, entry: dict[str, Any]) -> None:
        nonlocal count
        write(self, entry)
        count += entry.get("state") in ("begin", "done")
        is_there = where in (str(count), f"{entry.get('state')}:{entry.get('step')}")
        if is_there and entry.get("state") in ("begin", "done"):
            if mode in ("kill", "kill-at"):
                os.kill(os.getpid(), signal.SIGKILL)
            if mode == "drop":
                threading.Timer(_MOMENT_S, drop).start()
            if mode == "fill":
                fill(self._path.parents[2] / BALLAST)
                # A file's last block still has room.
                with contextlib.suppress(OSError):
                    while True:
                        write(self, {"step": "fill", "state": "done"})

    def remembering_init(self: ssh.SshHost, *arguments: Any, **named: Any) -> None:
        open_host(self, *arguments, **named)
        hosts.append(self)

    def drop() -> None:
        for host in hosts:
            ssh._loop().call_soon_threadsafe(host.connection.abort)

    Journal._write = counting_write  # type: ignore[method-assign]
    ssh.SshHost.__init__ = remembering_init  # type: ignore[method-assign]


if __name__ == "__main__":
    mode, where, _, *arguments = sys.argv[1:]
    install(mode, where)
    sys.argv = ["hsp", *arguments]
    main()
