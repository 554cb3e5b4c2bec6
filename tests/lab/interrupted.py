"""The command line, killed or cut off from its hosts at a chosen line of its journal.

`install` does it in the process of a call (tests.lab.template). MODE is `kill` or `kill-at` (SIGKILL, at
once), `drop` (every SSH connection breaks, a moment later, when what the line announced is under way),
`drop-for-good` (and no other can be made), `fill` (the disk of the results gets full), `hang-up` (the
terminal that it runs on closes: SIGHUP, and no message can be written any more) or `none`. WHERE counts the
lines that begin or end a step, from 1; or it is `STATE:STEP`, as in "done:phase read", or the begin of that:
the first such line; or it is `load`, for a moment after the load of a phase has been started.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import termios
import threading
from pathlib import Path
from typing import Any

from kit.config.address import HostAddress
from kit.hosts import ssh
from kit.hosts.base import Host, HostLost
from kit.load.launch import PhaseLoad
from kit.recovery import clean
from kit.recovery.journal import Journal
from kit.run import teardown

_MOMENT_S = 0.15
# Some steps are a single command.
_SHORT_MOMENT_S = 0.05
_SHORT = ("undo: unexport ", "undo: set ", "undo: remove /")
# fio has been started by then, and takes longer.
_MOMENT_OF_LOAD_S = 0.5
LOAD = "load"
BALLAST = "ballast"


def fill(path: Path) -> None:
    """Until nothing more goes onto the disk that `path` is on."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 20)):
            pass
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(b"0"):
            pass


def _no_host(address: HostAddress, *_: object) -> Host:
    raise HostLost(f"{address}: no answer")


class Terminal:
    """The controlling terminal of this process; what is written to it goes where stderr went."""

    def __init__(self) -> None:
        os.setsid()
        self._near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSCTTY)
        self._stderr = os.dup(2)
        for number in (0, 2):
            os.dup2(far, number)
        os.close(far)
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._pass_on, daemon=True)
        self._reader.start()

    def _pass_on(self) -> None:
        while not self._closing.is_set():
            # While a read waits, closing would not hang up.
            if select.select([self._near], [], [], 0.05)[0]:
                os.write(self._stderr, os.read(self._near, 4096))
        os.close(self._near)

    def close(self) -> None:
        self._closing.set()
        self._reader.join()


class Striker:
    """What strikes, once or never: the process is ended, its connections are, or its disk gets full."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._hosts: list[ssh.SshHost] = []
        self._write = Journal._write
        self._terminal = Terminal() if mode == "hang-up" else None

    def know(self, host: ssh.SshHost) -> None:
        self._hosts.append(host)

    def at_line(self, journal: Journal, step: str) -> None:
        if self._mode.startswith("drop"):
            self._later(_SHORT_MOMENT_S if step.startswith(_SHORT) else _MOMENT_S)
        elif self._mode == "fill":
            fill(journal._path.parents[2] / BALLAST)
            # A file's last block still has room.
            with contextlib.suppress(OSError):
                while True:
                    self._write(journal, {"step": "fill", "state": "done"})
        elif self._mode != "none":
            self._strike()

    def under_load(self) -> None:
        self._later(_MOMENT_OF_LOAD_S)

    def _later(self, seconds: float) -> None:
        threading.Timer(seconds, self._strike).start()

    def _strike(self) -> None:
        if self._terminal:
            self._terminal.close()
            return
        if not self._mode.startswith("drop"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._mode == "drop-for-good":
            teardown.RECONNECT_S = 1.0
            clean.open_host = _no_host
        for host in self._hosts:
            ssh._loop().call_soon_threadsafe(host.connection.abort)


def install(mode: str, where: str) -> None:
    """Count the journal's lines, and strike."""
    write, open_host, start_load = Journal._write, ssh.SshHost.__init__, PhaseLoad.start
    striker, count, struck = Striker(mode), 0, False

    def counting_write(self: Journal, entry: dict[str, Any]) -> None:
        nonlocal count, struck
        write(self, entry)
        if entry.get("state") in ("begin", "done"):
            count += 1
            is_here = where == str(count) or f"{entry['state']}:{entry['step']}".startswith(where)
            if is_here and not struck:
                struck = True
                striker.at_line(self, entry["step"])

    def remembering_init(self: ssh.SshHost, *arguments: Any, **named: Any) -> None:
        open_host(self, *arguments, **named)
        striker.know(self)

    def striking_start(self: PhaseLoad) -> None:
        start_load(self)
        if where == LOAD:
            striker.under_load()

    Journal._write = counting_write  # type: ignore[method-assign]
    ssh.SshHost.__init__ = remembering_init  # type: ignore[method-assign]
    PhaseLoad.start = striking_start  # type: ignore[method-assign]
