"""The interface of hosts.

A host runs a command to its end, starts a command in the background, and copies small files.
Commands are argv lists, never shell strings. Deadlines are in seconds of this machine's clock;
the clock of a lab guest may run faster or slower.
"""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from kit.core.errors import HostError, KitError

DEFAULT_DEADLINE_S = 120.0
OUTPUT_LIMIT_BYTES = 16 << 20
"""Of a command's stdout, and of a file."""
_STDERR_LIMIT_BYTES = 1 << 20
LARGE_LIMIT_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8
"""For what may be large, such as fio's logs: a part of this machine's memory."""
_END_BYTES = 64 << 10


@dataclass(frozen=True)
class CommandResult:
    """A command that has ended. `stdout` and `stderr` are text; undecodable bytes are replaced.

    `hint`: what to do if it could not be started. `cut_bytes`: how much of stdout was not kept.
    """

    host: str
    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    hint: str = ""
    cut_bytes: int = 0

    def describe(self) -> str:
        """The command (to paste into a shell), its exit code, and the end of its output."""
        output_end = (self.stderr.strip() or self.stdout.strip())[-2000:]
        return f"on {self.host}: `{shlex.join(self.argv)}` ended with {self.returncode}: {output_end}"


class CommandFailed(HostError):
    """A command ended with a non-zero exit code."""

    def __init__(self, result: CommandResult) -> None:
        super().__init__(result.describe(), result.hint)
        self.result = result


class DeadlineExceeded(HostError):
    """A command did not end in time and was stopped."""

    def __init__(self, host: str, argv: Sequence[str], deadline_s: float) -> None:
        super().__init__(
            f"on {host}: `{shlex.join(argv)}` did not end within {deadline_s:g} s and was stopped",
            "the machine is much busier or slower than usual, or the command hangs",
        )


class OutputTooLarge(HostError):
    """A command or a file gave more than is kept; nothing of it is used. The command has ended."""

    def __init__(self, host: str, source: str, limit_bytes: int) -> None:
        super().__init__(
            f"on {host}: {source} gave more than {limit_bytes} bytes, which are too many to be kept",
            "a part of them would be misread; look on the host why they are so many",
        )


class Kept:
    """Output up to a limit: its begin, and its last bytes; what lies between is only counted."""

    def __init__(self, limit_bytes: int) -> None:
        self.cut_bytes = 0
        self._begin, self._end, self._limit_bytes = bytearray(), b"", limit_bytes

    def add(self, chunk: bytes) -> None:
        room_bytes = self._limit_bytes - len(self._begin)
        self._begin += chunk[:room_bytes]
        if len(chunk) > room_bytes:
            before = self._end + chunk[room_bytes:]
            self._end = before[-_END_BYTES:]
            self.cut_bytes += len(before) - len(self._end)

    def content(self) -> bytes:
        mark = b"\n[... %d bytes cut ...]\n" % self.cut_bytes if self.cut_bytes else b""
        return bytes(self._begin) + mark + self._end

    def close(self) -> None:
        """No more output comes; safe to call twice."""


class SavedOutput(Kept):
    """Output that goes to a new file as it comes. `failure`: the first error; what comes after it is lost."""

    def __init__(self, path: Path) -> None:
        super().__init__(0)
        self.failure: OSError | None = None
        self._file = path.open("xb", buffering=0)

    def add(self, chunk: bytes) -> None:
        left = memoryview(chunk)
        try:
            while left and not self.failure:
                left = left[self._file.write(left) :]
        except OSError as error:
            self.failure = error

    def content(self) -> bytes:
        return b""

    def close(self) -> None:
        self._file.close()


def kept_outputs(limit_bytes: int = OUTPUT_LIMIT_BYTES) -> tuple[Kept, Kept]:
    """For stdout and stderr of a command."""
    return Kept(limit_bytes), Kept(min(limit_bytes, _STDERR_LIMIT_BYTES))


class HostLost(HostError):
    """The connection to the host is lost; the state of a running command is unknown."""


class Process(Protocol):
    """A command that runs in the background."""

    argv: tuple[str, ...]

    def running(self) -> bool:
        """Whether the command still runs."""

    def wait(self, deadline_s: float) -> CommandResult:
        """Wait for the end. Raises DeadlineExceeded (the command is then killed), HostLost."""

    def stop(self, deadline_s: float, signal: str = "INT") -> CommandResult:
        """Send a signal (INT, TERM, KILL), then wait as `wait` does."""


@contextmanager
def stopped_on_error(process: Process, deadline_s: float = 60.0) -> Iterator[None]:
    """An error or an interrupt in the block ends the process. The first error is the one to report."""
    try:
        yield
    except BaseException:
        with suppress(KitError):
            if process.running():
                process.stop(deadline_s)
        raise


class Closing:
    """Base of hosts, labs and locks: `close` at the end of a `with` block."""

    def close(self) -> None:
        """Release resources; none by default. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Host(Closing, ABC):
    """A machine on which commands run."""

    name: str

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float = DEFAULT_DEADLINE_S,
        stdin: bytes = b"",
        check: bool = True,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> CommandResult:
        """Run a command to its end. Of stderr, the middle may be cut.

        Raises CommandFailed (if `check`), DeadlineExceeded, HostLost; OutputTooLarge if stdout has more than
        `limit_bytes`.
        """
        result = self._run(checked_argv(argv), deadline_s, stdin, limit_bytes)
        if result.cut_bytes:
            raise OutputTooLarge(
                self.name, f"`{shlex.join(argv)}`, which ended with {result.returncode},", limit_bytes
            )
        if check and result.returncode != 0:
            raise CommandFailed(result)
        return result

    @abstractmethod
    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        """As `run`, whatever the exit code; too much output is cut."""

    @abstractmethod
    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        """Start a command in the background. The begin and the last bytes of its output are kept.

        `output`: a new file here, which gets its stdout as it comes. `stdin`: at most 64 KiB.
        """

    @abstractmethod
    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        """Write a file, mode 0600."""

    @abstractmethod
    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        """Read a file. Raises OutputTooLarge, HostError."""


@dataclass(frozen=True)
class Command:
    """A command as a value: what a plan lists is what a run executes.

    `input`: what it reads, in words: a program of kit/remote, a value, or what only the host knows.

    `stdin`: what it reads, where that is known before it is sent. `deadline_s`: as of Host.run.
    """

    argv: tuple[str, ...]
    input: str = ""
    stdin: bytes = field(default=b"", repr=False)
    deadline_s: float = DEFAULT_DEADLINE_S

    def run(self, host: Host, *, check: bool = True) -> CommandResult:
        """As Host.run."""
        return host.run(self.argv, deadline_s=self.deadline_s, stdin=self.stdin, check=check)


class DirectHost(Host):
    """A directly connected host, not a wrapper of another one."""

    def output(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float = DEFAULT_DEADLINE_S,
        limit_bytes: int = OUTPUT_LIMIT_BYTES,
    ) -> tuple[int, bytes, bytes]:
        """Exit code (127: no such program), stdout and stderr, as bytes, of a command that only reads.

        Raises DeadlineExceeded, HostLost; OutputTooLarge, and the command is stopped.
        """
        code, out, err = self._output(checked_argv(argv), deadline_s, limit_bytes)
        if out.cut_bytes:
            raise OutputTooLarge(self.name, f"`{shlex.join(argv)}`", limit_bytes)
        return code, out.content(), err.content()

    @abstractmethod
    def _output(self, argv: tuple[str, ...], deadline_s: float, limit_bytes: int) -> tuple[int, Kept, Kept]:
        """As `output`. The command is stopped when its stdout is more than is kept."""


def checked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The argv as a tuple. Raises ValueError if it is empty, not text, or has a NUL byte."""
    if isinstance(argv, str) or not argv:
        raise ValueError("a command is a list of arguments")
    for argument in argv:
        if not isinstance(argument, str) or "\0" in argument:
            raise ValueError(f"not a command argument: {argument!r}")
    return tuple(argv)


def result_of(host: str, argv: tuple[str, ...], code: int, out: Kept, err: Kept) -> CommandResult:
    """The result of a process that has ended, from what was kept of its output."""
    stdout, stderr = decode(out.content()), decode(err.content())
    return CommandResult(host, argv, code, stdout, stderr, cut_bytes=out.cut_bytes)


def decode(raw: bytes) -> str:
    """A command's output as text; undecodable bytes are replaced."""
    return raw.decode("utf-8", errors="replace")
