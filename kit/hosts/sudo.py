"""A host on which the user is not root and may run some programs with sudo.

Only the programs of PRIVILEGED are run with `sudo -n` (which never asks for a password);
docs/hosts.md has the sudoers files and explains what they grant. A command that begins with
`env` is run as the user, whatever program follows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from kit.core.errors import HostError
from kit.hosts.base import (
    DEFAULT_DEADLINE_S,
    OUTPUT_LIMIT_BYTES,
    CommandResult,
    DirectHost,
    Process,
    checked_argv,
    decode,
)
from kit.hosts.local import LocalHost
from kit.hosts.wrapped import WrappedHost

KILLER = ("sudo", "-n", "--")
# English messages, and `--` so that sudo does not read options of the command.
_SUDO = ("env", "LC_ALL=C.UTF-8", *KILLER)

SERVER_PROGRAMS = frozenset(
    "blkdiscard blkid blockdev bpftrace cat chmod dd dmsetup exportfs find fio flock grep hdparm install "
    "kill lsblk mdadm mkdir mknod modprobe mount nvme python3 rm rmdir sdparm sg_format sh smartctl tee test "
    "umount wipefs zdb zfs zpool".split()
)
"""Programs that run as root on a server; /etc/sudoers.d/hsp there lists the same."""
CLIENT_PROGRAMS = frozenset("cat chmod dd find fio install kill mkdir mount rm rmdir tee umount".split())
"""Programs that run as root on a client."""
PRIVILEGED = SERVER_PROGRAMS | CLIENT_PROGRAMS

_ASK_DEADLINE_S = 120.0
_NOT_FOUND = re.compile(r"^sudo: .*: command not found$", re.MULTILINE)
# Prints the programs that are installed and not allowed.
_ALLOWED = """
PATH=$PATH:/usr/sbin:/sbin
for name; do
    ! command -v -- "$name" >/dev/null || sudo -n -l -- "$name" >/dev/null 2>&1 || echo "$name"
done
"""
_EXISTS = 'command -v -- "$1" >/dev/null'
# Warnings of sudo, which runs the command nevertheless.
_WARNINGS = re.compile(r"^sudo: (unable to resolve host|setrlimit)[^\n]*\n?", re.MULTILINE)
_NOT_INSTALLED = re.compile(r"^env: .*sudo.*: No such file", re.MULTILINE)


class SudoRefused(HostError):
    """sudo did not run a command: it is not allowed for the user, or needs a password."""


def elevated(argv: Sequence[str]) -> tuple[str, ...]:
    """The argv to run for an ordinary user: with sudo if the program needs root."""
    command = checked_argv(argv)
    program = command[0].rpartition("/")[2]
    return (*_SUDO, *command) if program in PRIVILEGED else command


def local_host() -> LocalHost | SudoHost:
    """This machine; commands that need root run with sudo if the user is not root."""
    return LocalHost() if os.getuid() == 0 else SudoHost(LocalHost(killer=KILLER))


class SudoProcess:
    """A background command; its results have the argv without sudo."""

    def __init__(self, host: SudoHost, argv: tuple[str, ...], inner: Process) -> None:
        self.argv = argv
        self._host = host
        self._inner = inner

    def running(self) -> bool:
        return self._inner.running()

    def wait(self, deadline_s: float) -> CommandResult:
        return self._host.command_result(self.argv, self._inner.wait(deadline_s))

    def stop(self, deadline_s: float, signal: str = "INT") -> CommandResult:
        return self._host.command_result(self.argv, self._inner.stop(deadline_s, signal))


class SudoHost(WrappedHost):
    """Wraps a host whose user is not root.

    Signals reach root's commands through the `killer` of the wrapped host.
    """

    inner: DirectHost

    def __init__(self, host: DirectHost) -> None:
        super().__init__(host)

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        """As Host's. Also raises SudoRefused."""
        return self.command_result(argv, super()._run(elevated(argv), deadline_s, stdin, limit_bytes))

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> SudoProcess:
        return SudoProcess(self, tuple(argv), super().start(elevated(argv), output, stdin))

    def command_result(self, argv: tuple[str, ...], raw: CommandResult) -> CommandResult:
        """The result of `argv` itself. Raises SudoRefused if sudo did not start it."""
        code, stderr = raw.returncode, raw.stderr
        if raw.argv != argv:
            code = self._own_exit_code(argv, code, stderr) if code in (1, 127) else code
            stderr = _WARNINGS.sub("", stderr)
        return CommandResult(self.name, argv, code, raw.stdout, stderr, cut_bytes=raw.cut_bytes)

    def _own_exit_code(self, argv: tuple[str, ...], code: int, stderr: str) -> int:
        """The command's own exit code; 127 if the program does not exist. Raises SudoRefused."""
        if code == 127 and _NOT_INSTALLED.search(stderr):
            raise SudoRefused(
                f"on {self.name}: sudo is not installed, and {argv[0]} needs root",
                "install sudo there, or log in as root",
            )
        if code == 1 and _NOT_FOUND.search(stderr):
            return 127
        # A failure of sudo itself is 1, too. `sudo -l` only reports whether the command is allowed.
        if code == 1 and stderr.strip():
            allowed, *_ = self.inner.output((*_SUDO[:-1], "-l", "--", *argv))
            if allowed != 0:
                # `sudo -l` also fails if the program does not exist.
                if self.inner.run(("sh", "-c", _EXISTS, "sh", argv[0]), check=False).returncode != 0:
                    return 127
                raise SudoRefused(
                    f"on {self.name}: sudo did not run `{argv[0]}`: {stderr.strip()}",
                    "allow it without a password: a line in /etc/sudoers.d/hsp there, see docs/hosts.md",
                )
        return code

    def refused(self, programs: Iterable[str]) -> tuple[str, ...]:
        """Those of the programs that are installed there and that sudo does not run. Raises HostError."""
        listed = self.inner.run(("sh", "-c", _ALLOWED, "sh", *sorted(programs)), deadline_s=_ASK_DEADLINE_S)
        return tuple(listed.stdout.split())

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        """As Host.put; root owns the file."""
        self.run(
            ("install", "-m", "0600", "-T", "--", "/dev/stdin", path), stdin=content, deadline_s=deadline_s
        )

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        """As Host.get, for any file."""
        argv = ("cat", "--", path)
        code, content, stderr = self.inner.output(
            elevated(argv), deadline_s=deadline_s, limit_bytes=limit_bytes
        )
        if code == 0:
            return content
        self._own_exit_code(argv, code, decode(stderr))
        raise HostError(f"on {self.name}: cannot read {path}: {decode(stderr).strip()}")
