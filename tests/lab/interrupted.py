"""The command line, killed or cut off from its hosts at a chosen line of its journal.

    python -m tests.lab.interrupted MODE N -- ARGUMENTS OF hsp

MODE is `kill` (SIGKILL, at once), `drop` (every SSH connection breaks, a moment later, when what the line
announced is under way) or `none`. N counts the lines that begin or end a step, from 1.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from kit.cli.main import main
from kit.hosts import ssh
from kit.journal import Journal

_MOMENT_S = 0.15


def install(mode: str, number: int) -> None:
    """Count the journal's lines, and strike."""
    write, open_host = Journal._write, ssh.SshHost.__init__
    count, hosts = 0, list[ssh.SshHost]()

    def counting_write(self: Journal, entry: dict[str, Any]) -> None:
        nonlocal count
        write(self, entry)
        count += entry.get("state") in ("begin", "done")
        if count == number and entry.get("state") in ("begin", "done"):
            if mode == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if mode == "drop":
                threading.Timer(_MOMENT_S, drop).start()

    def remembering_init(self: ssh.SshHost, *arguments: Any, **named: Any) -> None:
        open_host(self, *arguments, **named)
        hosts.append(self)

    def drop() -> None:
        for host in hosts:
            ssh._loop().call_soon_threadsafe(host.connection.abort)

    Journal._write = counting_write  # type: ignore[method-assign]
    ssh.SshHost.__init__ = remembering_init  # type: ignore[method-assign]


if __name__ == "__main__":
    mode, number, _, *arguments = sys.argv[1:]
    install(mode, int(number))
    sys.argv = ["hsp", *arguments]
    main()
