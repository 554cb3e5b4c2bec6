"""The interface of hosts.

A host runs a command to its end, starts a command in the background, and copies small files.
Commands are argv lists, never shell strings. Deadlines are in seconds of this machine's clock;
the clock of a lab guest may run faster or slower.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

from kit.core.errors import HostError

DEFAULT_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Result:
    """A command that has ended. `stdout` and `stderr` are text; undecodable bytes are replaced."""

    host: str
    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    def describe(self) -> str:
        """The command (to paste into a shell), its exit code, and the end of its output."""
        output_end = (self.stderr.strip() or self.stdout.strip())[-2000:]
        return f"on {self.host}: `{shlex.join(self.argv)}` ended with {self.returncode}: {output_end}"


class CommandFailed(HostError):
    """A command ended with a non-zero exit code."""

    def __init__(self, result: Result, hint: str = "") -> None:
        super().__init__(result.describe(), hint)
        self.result = result


class DeadlineExceeded(HostError):
    """A command did not end in time and was stopped."""

    def __init__(self, host: str, argv: Sequence[str], deadline_s: float) -> None:
        super().__init__(
            f"on {host}: `{shlex.join(argv)}` did not end within {deadline_s:g} s and was stopped",
            "the machine is much busier or slower than usual, or the command hangs",
        )


class HostLost(HostError):
    """The connection to the host is lost; the state of a running command is unknown."""


class Process(Protocol):
    """A command that runs in the background."""

    argv: tuple[str, ...]

    def running(self) -> bool:
        """Whether the command still runs."""
        ...

    def wait(self, deadline_s: float) -> Result:
        """Wait for the end. Raises DeadlineExceeded (the command is then killed), HostLost."""
        ...

    def stop(self, deadline_s: float, signal: str = "INT") -> Result:
        """Send a signal (INT, TERM, KILL), then wait as `wait` does."""
        ...


class Host(Protocol):
    """A machine on which commands run."""

    name: str

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float = DEFAULT_DEADLINE_S,
        stdin: bytes = b"",
        check: bool = True,
    ) -> Result:
        """Run a command to its end. Raises CommandFailed (if `check`), DeadlineExceeded, HostLost."""
        ...

    def start(self, argv: Sequence[str]) -> Process:
        """Start a command in the background. Its output is kept until it has ended."""
        ...

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        """Write a file, mode 0600."""
        ...

    def get(self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> bytes:
        """Read a file."""
        ...

    def close(self) -> None:
        """Close the connection. Safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Forward(Protocol):
    """A forwarded socket."""

    def close(self) -> None:
        """Remove it. Safe to call twice, and after the host is lost."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


@runtime_checkable
class Forwarding(Protocol):
    """A host that can forward Unix sockets."""

    def forward_unix_to_remote(self, local_path: str, remote_path: str) -> Forward:
        """Create a local socket, for this user only, that forwards to `remote_path` on the host.

        Without a listener there each connection fails. Raises HostError, HostLost.
        """
        ...

    def forward_remote_unix(self, remote_path: str, local_path: str) -> Forward:
        """Create a socket on the host that forwards to the local `local_path`. Raises HostError, HostLost."""
        ...


class DirectHost(Host, Forwarding, Protocol):
    """A directly connected host, not a wrapper of another one."""

    def output(
        self, argv: Sequence[str], *, deadline_s: float = DEFAULT_DEADLINE_S
    ) -> tuple[int | None, bytes, bytes]:
        """Exit code, stdout and stderr, as bytes, of a command that only reads.

        Raises DeadlineExceeded, HostLost.
        """
        ...


class Closing:
    """Base of hosts and forwarded sockets: `close` at the end of a `with` block."""

    def close(self) -> None:
        """Release resources; none by default."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def checked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The argv as a tuple. Raises ValueError if it is empty, not text, or has a NUL byte."""
    if isinstance(argv, str) or not argv:
        raise ValueError("a command is a list of arguments")
    for argument in argv:
        if not isinstance(argument, str) or "\0" in argument:
            raise ValueError(f"not a command argument: {argument!r}")
    return tuple(argv)


def decode(raw: bytes | None) -> str:
    """A command's output as text; undecodable bytes are replaced."""
    return (raw or b"").decode("utf-8", errors="replace")
