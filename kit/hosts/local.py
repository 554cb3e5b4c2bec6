"""The machine on which the kit runs."""

from __future__ import annotations

import contextlib
import os
import signal as signals
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from kit.core.errors import HostError
from kit.hosts.base import (
    DEFAULT_DEADLINE_S,
    CommandFailed,
    DeadlineExceeded,
    DirectHost,
    Forward,
    Result,
    checked_argv,
    decode,
)

_KILL_GRACE_S = 5.0


class LocalProcess:
    """A child process in its own session, so that its whole process group can be ended."""

    def __init__(self, host: LocalHost, argv: tuple[str, ...]) -> None:
        self.argv = argv
        self._host = host
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=host.output_file or subprocess.PIPE,
            stderr=subprocess.STDOUT if host.output_file else subprocess.PIPE,
            start_new_session=True,
            cwd=host.cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", **host.env},
        )

    def running(self) -> bool:
        return self._child.poll() is None

    def wait(self, deadline_s: float, stdin: bytes = b"") -> Result:
        code, out, err = self.collect(deadline_s, stdin)
        return Result(self._host.name, self.argv, code, decode(out), decode(err))

    def collect(self, deadline_s: float, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Wait as `wait` does; returns the exit code, and stdout and stderr as bytes."""
        try:
            out, err = self._child.communicate(stdin, timeout=deadline_s)
        except subprocess.TimeoutExpired:
            self.end_group()
            raise DeadlineExceeded(self._host.name, self.argv, deadline_s) from None
        except BaseException:
            self.end_group()
            raise
        return self._child.returncode, out or b"", err or b""

    def stop(self, deadline_s: float, signal: str = "INT") -> Result:
        self._signal(signals.Signals[f"SIG{signal}"])
        return self.wait(deadline_s)

    def end_group(self) -> None:
        """Send TERM, then KILL, to the process group of the child."""
        self._signal(signals.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.communicate(timeout=_KILL_GRACE_S)
        # Other processes of the group may still run after the leader has ended.
        self._signal(signals.SIGKILL)
        # Another session may hold the other ends: communicate() closes the pipes only when all is read.
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # stdin was not written to its end
                    pipe.close()
        # A process that waits in the kernel for an NFS server cannot be killed: do not wait for it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_KILL_GRACE_S)

    def _signal(self, number: signals.Signals) -> None:
        try:
            os.killpg(self._child.pid, number)
        except ProcessLookupError:
            return
        except PermissionError:
            # The remaining processes of the group belong to root.
            if not self._host.killer:
                return
            name = number.name.removeprefix("SIG")
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [*self._host.killer, "kill", "-s", name, "--", f"-{self._child.pid}"],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_KILL_GRACE_S,
                )


class LocalHost(DirectHost):
    """Runs commands as child processes.

    `killer`: prefix of `kill` for commands that belong to another user (kit.hosts.sudo). `env` is added to
    the environment of commands, `output_file` receives their stdout and stderr, `cwd` is their directory.
    """

    def __init__(
        self,
        name: str = "local",
        killer: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        output_file: IO[bytes] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.name = name
        self.killer = killer
        self.env = env or {}
        self.output_file = output_file
        self.cwd = cwd

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes) -> Result:
        try:
            process = self.start(argv)
        except CommandFailed as error:
            return error.result
        return process.wait(deadline_s, stdin)

    def start(self, argv: Sequence[str]) -> LocalProcess:
        command = checked_argv(argv)
        try:
            return LocalProcess(self, command)
        except OSError as error:
            message, hint = f"{command[0]}: {error.strerror}", f"is {command[0]} installed?"
            raise CommandFailed(Result(self.name, command, 127, "", message, hint)) from error

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        target = Path(path)
        target.touch(mode=0o600)
        target.chmod(0o600)
        target.write_bytes(content)

    def get(self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> bytes:
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise HostError(f"on {self.name}: cannot read {path}: {error.strerror}") from error

    def output(
        self, argv: Sequence[str], *, deadline_s: float = DEFAULT_DEADLINE_S
    ) -> tuple[int, bytes, bytes]:
        """As DirectHost.output; 127 if the program does not exist."""
        try:
            return self.start(argv).collect(deadline_s)
        except CommandFailed as error:
            return 127, b"", error.result.stderr.encode()

    def forward_unix_to_remote(self, local_path: str, remote_path: str) -> Forward:
        """As Forwarding's. Both ends are on this machine, so it is a symbolic link."""
        link = Path(local_path)
        try:
            link.symlink_to(remote_path)
        except OSError as error:
            raise HostError(f"cannot create {link}: {error.strerror}", "choose another path") from error
        return Forward(lambda: link.unlink(missing_ok=True))

    def forward_remote_unix(self, remote_path: str, local_path: str) -> Forward:
        """As Forwarding's."""
        return self.forward_unix_to_remote(remote_path, local_path)
