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
    Closing,
    CommandFailed,
    DeadlineExceeded,
    Result,
    checked_argv,
    decode,
)

_KILL_GRACE_S = 5.0


class LocalProcess:
    """A child process in its own session, so that its whole process group can be ended."""

    def __init__(
        self,
        host: str,
        argv: tuple[str, ...],
        env: Mapping[str, str] | None,
        output: IO[bytes] | None = None,
        cwd: Path | None = None,
        killer: tuple[str, ...] = (),
    ) -> None:
        self.argv = argv
        self._host = host
        self._killer = killer
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=output or subprocess.PIPE,
            stderr=subprocess.STDOUT if output else subprocess.PIPE,
            start_new_session=True,
            cwd=cwd,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
        )

    def running(self) -> bool:
        return self._child.poll() is None

    def wait(self, deadline_s: float, stdin: bytes = b"") -> Result:
        out, err = self.collect(deadline_s, stdin)
        return Result(self._host, self.argv, self._child.returncode, decode(out), decode(err))

    @property
    def returncode(self) -> int | None:
        return self._child.returncode

    def collect(self, deadline_s: float, stdin: bytes = b"") -> tuple[bytes, bytes]:
        """Wait as `wait` does; returns the output as bytes."""
        try:
            out, err = self._child.communicate(stdin, timeout=deadline_s)
        except subprocess.TimeoutExpired:
            self.end_group()
            raise DeadlineExceeded(self._host, self.argv, deadline_s) from None
        except BaseException:
            self.end_group()
            raise
        return out or b"", err or b""

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
            self._signal_as_root(number)

    def _signal_as_root(self, number: signals.Signals) -> None:
        if not self._killer:
            return
        name = number.name.removeprefix("SIG")
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*self._killer, "kill", "-s", name, "--", f"-{self._child.pid}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_KILL_GRACE_S,
            )


class LocalForward(Closing):
    """A forwarded socket on the same machine: a symbolic link."""

    def __init__(self, link: Path, target: str) -> None:
        try:
            link.symlink_to(target)
        except OSError as error:
            raise HostError(f"cannot create {link}: {error.strerror}", "choose another path") from error
        self._name = link

    def close(self) -> None:
        self._name.unlink(missing_ok=True)


class LocalHost(Closing):
    """Runs commands as child processes.

    `killer`: prefix of `kill` for commands that belong to another user (kit.hosts.sudo).
    """

    def __init__(self, name: str = "local", killer: tuple[str, ...] = ()) -> None:
        self.name = name
        self._killer = killer

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float = DEFAULT_DEADLINE_S,
        stdin: bytes = b"",
        check: bool = True,
        env: Mapping[str, str] | None = None,
        output: IO[bytes] | None = None,
        cwd: Path | None = None,
    ) -> Result:
        """As Host.run; `env` is added to the environment, `output` receives stdout and stderr."""
        command = checked_argv(argv)
        try:
            process = self._open(command, env, output, cwd)
        except CommandFailed as error:
            if check:
                raise
            return error.result
        result = process.wait(deadline_s, stdin)
        if check and result.returncode != 0:
            raise CommandFailed(result)
        return result

    def start(self, argv: Sequence[str]) -> LocalProcess:
        return self._open(checked_argv(argv))

    def _open(
        self,
        command: tuple[str, ...],
        env: Mapping[str, str] | None = None,
        output: IO[bytes] | None = None,
        cwd: Path | None = None,
    ) -> LocalProcess:
        try:
            return LocalProcess(self.name, command, env, output, cwd, self._killer)
        except OSError as error:
            result = Result(self.name, command, 127, "", f"{command[0]}: {error.strerror}")
            raise CommandFailed(result, f"is {command[0]} installed?") from error

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
    ) -> tuple[int | None, bytes, bytes]:
        """As DirectHost.output; 127 if the program does not exist."""
        try:
            process = self._open(checked_argv(argv))
        except CommandFailed as error:
            return 127, b"", error.result.stderr.encode()
        out, err = process.collect(deadline_s)
        return process.returncode, out, err

    def forward_unix_to_remote(self, local_path: str, remote_path: str) -> LocalForward:
        """As Forwarding's. Both ends are on this machine, so it is a symbolic link."""
        return LocalForward(Path(local_path), remote_path)

    def forward_remote_unix(self, remote_path: str, local_path: str) -> LocalForward:
        """As Forwarding's."""
        return LocalForward(Path(remote_path), local_path)
