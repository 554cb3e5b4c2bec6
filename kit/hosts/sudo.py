"""A host as an ordinary user sees it who may run some programs as root with sudo.

Only the programs of PRIVILEGED go through `sudo -n` (which asks nothing and waits for
nothing); docs/hosts.md has the sudoers files and says what they grant. A command that begins
with `env` is run as the user, whatever program follows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from kit.core.errors import HostError
from kit.hosts.base import (
    DEFAULT_DEADLINE_S,
    Closing,
    CommandFailed,
    Forward,
    Process,
    Reached,
    Result,
    checked_argv,
    decode,
)
from kit.hosts.local import LocalHost

KILLER = ("sudo", "-n", "--")
# English messages, and `--` so that nothing of a command is taken for sudo's own.
_SUDO = ("env", "LC_ALL=C.UTF-8", *KILLER)

SERVER_PROGRAMS = (
    "blkdiscard",
    "blkid",
    "blockdev",
    "bpftrace",
    "cat",
    "chmod",
    "dmsetup",
    "exportfs",
    "find",
    "fio",
    "flock",
    "grep",
    "hdparm",
    "install",
    "kill",
    "lsblk",
    "mkdir",
    "modprobe",
    "mount",
    "nvme",
    "python3",
    "rm",
    "rmdir",
    "sg_format",
    "sh",
    "smartctl",
    "tee",
    "test",
    "umount",
    "wipefs",
    "zdb",
    "zfs",
    "zpool",
)
"""What is run as root on a server; /etc/sudoers.d/hsp there lists the same."""

CLIENT_PROGRAMS = (
    "cat",
    "chmod",
    "find",
    "fio",
    "install",
    "kill",
    "mkdir",
    "mount",
    "rm",
    "rmdir",
    "tee",
    "umount",
)
"""What is run as root on a client."""

PRIVILEGED = frozenset(SERVER_PROGRAMS) | frozenset(CLIENT_PROGRAMS)

_NOT_FOUND = re.compile(r"^sudo: .*: command not found$", re.MULTILINE)
_IS_THERE = 'command -v -- "$1" >/dev/null'
# sudo says these and runs the command all the same: no word of the command's.
_GRUMBLE = re.compile(r"^sudo: (unable to resolve host|setrlimit)[^\n]*\n?", re.MULTILINE)
_NOT_INSTALLED = re.compile(r"^env: .*sudo.*: No such file", re.MULTILINE)


class SudoRefused(HostError):
    """sudo did not run a command: it is not on the user's list, or a password is wanted."""


def elevated(argv: Sequence[str]) -> tuple[str, ...]:
    """`argv` as it is run for an ordinary user: through sudo if its program needs that."""
    command = checked_argv(argv)
    program = command[0].rpartition("/")[2]
    return (*_SUDO, *command) if program in PRIVILEGED else command


def here() -> LocalHost | SudoHost:
    """This machine: as it is for root, through sudo for anybody else."""
    return LocalHost() if os.getuid() == 0 else SudoHost(LocalHost(killer=KILLER))


class SudoProcess:
    """A command that goes on, under the name it was asked for."""

    def __init__(self, host: SudoHost, argv: tuple[str, ...], inner: Process) -> None:
        self.argv = argv
        self._host = host
        self._inner = inner

    def running(self) -> bool:
        return self._inner.running()

    def wait(self, deadline_s: float) -> Result:
        return self._host.seen(self.argv, self._inner.wait(deadline_s))

    def stop(self, deadline_s: float, signal: str = "INT") -> Result:
        return self._host.seen(self.argv, self._inner.stop(deadline_s, signal))


class SudoHost(Closing):
    """Wraps a host whose user is not root. Signals and supervision reach root's commands through
    the wrapped host's own supervision (its `killer`)."""

    def __init__(self, host: Reached) -> None:
        self.name = host.name
        self.inner = host

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float = DEFAULT_DEADLINE_S,
        stdin: bytes = b"",
        check: bool = True,
    ) -> Result:
        """As Host.run. Raises SudoRefused too."""
        raw = self.inner.run(elevated(argv), deadline_s=deadline_s, stdin=stdin, check=False)
        result = self.seen(tuple(argv), raw)
        if check and result.returncode != 0:
            raise CommandFailed(result)
        return result

    def start(self, argv: Sequence[str]) -> SudoProcess:
        return SudoProcess(self, tuple(argv), self.inner.start(elevated(argv)))

    def seen(self, argv: tuple[str, ...], raw: Result) -> Result:
        """The result as that of `argv` itself. Raises SudoRefused if sudo never started it."""
        code, said = raw.returncode, raw.stderr
        if raw.argv != argv:
            code = self._verdict(argv, code, said) if code in (1, 127) else code
            said = _GRUMBLE.sub("", said)
        return Result(self.name, argv, code, raw.stdout, said)

    def _verdict(self, argv: tuple[str, ...], code: int, said: str) -> int:
        """127 for a program that is not there; raises SudoRefused; else the command's own status."""
        if code == 127 and _NOT_INSTALLED.search(said):
            raise SudoRefused(
                f"on {self.name}: sudo is not installed, and {argv[0]} needs root",
                "install sudo there, or log in as root",
            )
        if code == 1 and _NOT_FOUND.search(said):
            return 127
        # sudo's own failures are 1 as well, so ask it; that runs nothing.
        if code == 1 and said.strip():
            allowed, _, why = self.inner.output((*_SUDO[:-1], "-l", "--", *argv))
            if allowed != 0:
                # A program that is not there is on nobody's list.
                if self.inner.run(("sh", "-c", _IS_THERE, "sh", argv[0]), check=False).returncode != 0:
                    return 127
                raise SudoRefused(
                    f"on {self.name}: sudo did not run `{argv[0]}`: {said.strip() or decode(why).strip()}",
                    "allow it without a password: a line in /etc/sudoers.d/hsp there, see docs/hosts.md",
                )
        return code

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        """As Host.put; the file is root's."""
        self.run(
            ("install", "-m", "0600", "-T", "--", "/dev/stdin", path), stdin=content, deadline_s=deadline_s
        )

    def get(self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> bytes:
        """As Host.get, of any file."""
        argv = ("cat", "--", path)
        code, out, err = self.inner.output(elevated(argv), deadline_s=deadline_s)
        if code == 0:
            return out
        self._verdict(argv, code or 1, decode(err))
        raise HostError(f"on {self.name}: cannot read {path}: {decode(err).strip()}")

    def forward_unix_to_remote(self, local_path: str, remote_path: str) -> Forward:
        """As SshHost's: sshd connects as the user, who must be allowed to use that socket."""
        return self.inner.forward_unix_to_remote(local_path, remote_path)

    def forward_remote_unix(self, remote_path: str, local_path: str) -> Forward:
        """As SshHost's: the socket is the user's."""
        return self.inner.forward_remote_unix(remote_path, local_path)

    def close(self) -> None:
        self.inner.close()
