"""The machine on which the kit runs.

A command does not outlive the kit, even if the kit is killed: one watcher (kit/remote/processes.py) holds the
other end of a pipe. When that closes before the kit has said that it is done, the watcher ends all processes
with the kit's mark in their environment and all that these have started, in whatever session.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import secrets
import select
import selectors
import signal as signals
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from kit.core.errors import HostError
from kit.core.files import write_atomically
from kit.hosts.base import (
    DEFAULT_DEADLINE_S,
    OUTPUT_LIMIT_BYTES,
    CommandFailed,
    CommandResult,
    DeadlineExceeded,
    DirectHost,
    Kept,
    OutputTooLarge,
    checked_argv,
    kept_outputs,
    result_of,
)

_KILL_GRACE_S = 5.0
_CHUNK_BYTES = 256 << 10
_WATCHER = Path(__file__).parents[1] / "remote" / "processes.py"
MARK = "HSP_COMMANDS"
"""Variable of the environment of each command. What is started without it may outlive the kit."""


class _Watcher:
    """Ends the commands of this process, if it is killed."""

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        # A fork of this process has the pipe, too, but not the commands.
        self._owner = os.getpid()

    def start(self) -> None:
        """Safe to call again. Raises OSError."""
        with self._lock:
            if self._process and self._process.poll() is None:
                return
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WATCHER.read_text(), "end", f"{MARK}={self.mark}"],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )

    def end(self) -> None:
        """The kit ends as it should, and has ended its commands itself."""
        if self._process and self._owner == os.getpid():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._process.communicate(b"done", timeout=_KILL_GRACE_S)


_watcher = _Watcher()
atexit.register(_watcher.end)


class LocalProcess:
    """A child process in its own session, so that its whole process group can be ended."""

    def __init__(
        self,
        host: LocalHost,
        argv: tuple[str, ...],
        output: Path | None = None,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> None:
        self.argv = argv
        self._host = host
        self._out, self._err = kept_outputs(limit_bytes)
        _watcher.start()
        with output.open("xb") if output else contextlib.nullcontext(host.output_file) as file:
            self._child = subprocess.Popen(
                argv,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=file or subprocess.PIPE,
                stderr=subprocess.STDOUT if host.output_file else subprocess.PIPE,
                start_new_session=True,
                cwd=host.cwd,
                env={**os.environ, "LC_ALL": "C.UTF-8", **host.env, MARK: _watcher.mark},
            )

    def send(self, stdin: bytes) -> None:
        """All of its input, which a pipe holds, and the end of it."""
        assert self._child.stdin
        with contextlib.suppress(BrokenPipeError), self._child.stdin as pipe:
            pipe.write(stdin)

    def running(self) -> bool:
        return self._child.poll() is None

    def wait(self, deadline_s: float, stdin: bytes = b"") -> CommandResult:
        code, out, err = self.collect(deadline_s, stdin)
        return result_of(self._host.name, self.argv, code, out, err)

    def collect(
        self, deadline_s: float, stdin: bytes = b"", *, whole: bool = False
    ) -> tuple[int, Kept, Kept]:
        """Wait as `wait` does; returns the exit code, stdout and stderr.

        With `whole` the command is stopped when its stdout is more than is kept.
        """
        try:
            self._exchange(stdin, time.monotonic() + deadline_s, whole)
        except subprocess.TimeoutExpired:
            self.end_group()
            raise DeadlineExceeded(self._host.name, self.argv, deadline_s) from None
        except BaseException:
            self.end_group()
            raise
        if whole and self._out.cut_bytes:
            self.end_group()
        return self._child.returncode, self._out, self._err

    def _exchange(self, stdin: bytes, end_s: float, whole: bool = False) -> None:
        """Write the input and read the outputs until all pipes are closed, then wait for the end.

        Raises TimeoutExpired. As Popen.communicate, which keeps all output.
        """
        child, unsent = self._child, memoryview(stdin)
        assert child.stdin
        with selectors.DefaultSelector() as selector:
            for pipe, kept in ((child.stdout, self._out), (child.stderr, self._err)):
                if pipe is not None and not pipe.closed:
                    selector.register(pipe, selectors.EVENT_READ, kept)
            if unsent and not child.stdin.closed:
                selector.register(child.stdin, selectors.EVENT_WRITE)
            else:
                child.stdin.close()
            while selector.get_map() and not (whole and self._out.cut_bytes):
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    raise subprocess.TimeoutExpired(self.argv, 0)
                for key, _ in selector.select(left_s):
                    if key.data is None:
                        unsent = unsent[_write_some(key.fd, unsent) :]
                        ended = not unsent
                    else:
                        chunk = os.read(key.fd, _CHUNK_BYTES)
                        key.data.add(chunk)
                        ended = not chunk
                    if ended:
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
        if not (whole and self._out.cut_bytes):
            child.wait(max(0.0, end_s - time.monotonic()))

    def stop(self, deadline_s: float, signal: str = "INT") -> CommandResult:
        self._signal(signals.Signals[f"SIG{signal}"])
        return self.wait(deadline_s)

    def end_group(self) -> None:
        """Send TERM, then KILL, to the process group of the child."""
        self._signal(signals.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._exchange(b"", time.monotonic() + _KILL_GRACE_S)
        # Other processes of the group may still run after the leader has ended.
        self._signal(signals.SIGKILL)
        # Another session may hold the other ends: the pipes were closed only if all is read.
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
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


def _write_some(fd: int, content: memoryview) -> int:
    """Write as much as surely fits; returns how much, or all if the reader closed the pipe."""
    try:
        return os.write(fd, content[: select.PIPE_BUF])
    except BrokenPipeError:
        return len(content)


@dataclass(eq=False)
class LocalHost(DirectHost):
    """Runs commands as child processes.

    `killer`: prefix of `kill` for commands that belong to another user (kit.hosts.sudo). `env` is added to
    the environment of commands, `output_file` receives their stdout and stderr, `cwd` is their directory.
    """

    name: str = "local"
    killer: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    output_file: IO[bytes] | None = None
    cwd: Path | None = None

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        try:
            process = self.start(argv, limit_bytes=limit_bytes)
        except CommandFailed as error:
            return error.result
        return process.wait(deadline_s, stdin)

    def start(
        self,
        argv: Sequence[str],
        output: Path | None = None,
        stdin: bytes = b"",
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> LocalProcess:
        command = checked_argv(argv)
        try:
            process = LocalProcess(self, command, output, limit_bytes)
        except OSError as error:
            message, hint = f"{command[0]}: {error.strerror}", f"is {command[0]} installed?"
            raise CommandFailed(CommandResult(self.name, command, 127, "", message, hint)) from error
        if stdin:
            process.send(stdin)
        return process

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        """As Host.put. Never through a link, and into a file that no other program has open."""
        write_atomically(Path(path), content, mode=0o600)

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        try:
            with open(path, "rb") as file:
                content = file.read(limit_bytes + 1)
        except OSError as error:
            raise HostError(f"on {self.name}: cannot read {path}: {error.strerror}") from error
        if len(content) > limit_bytes:
            raise OutputTooLarge(self.name, path, limit_bytes)
        return content

    def _output(self, argv: tuple[str, ...], deadline_s: float, limit_bytes: int) -> tuple[int, Kept, Kept]:
        try:
            return self.start(argv, limit_bytes=limit_bytes).collect(deadline_s, whole=True)
        except CommandFailed as error:
            out, err = kept_outputs(limit_bytes)
            err.add(error.result.stderr.encode())
            return error.result.returncode, out, err
