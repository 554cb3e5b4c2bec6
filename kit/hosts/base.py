"""What the kit asks of a machine, whichever machine it is.

A host runs a command to its end, starts one that goes on, and moves small files.
Every call has an argv list (never a shell string) and a deadline in seconds of the
caller's own clock: a lab guest's clock may run faster or slower than that.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from kit.core.errors import HostError

DEFAULT_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Result:
    """A command that ended. `stdout` and `stderr` are text, undecodable bytes replaced."""

    host: str
    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str

    def describe(self) -> str:
        """The command as it can be pasted, its exit code, and the end of what it said."""
        said = (self.stderr.strip() or self.stdout.strip())[-2000:]
        return f"on {self.host}: `{shlex.join(self.argv)}` ended with {self.returncode}: {said}"


class CommandFailed(HostError):
    """A command ended with a status that was not asked for."""

    def __init__(self, result: Result, hint: str = "") -> None:
        super().__init__(result.describe(), hint)
        self.result = result


class DeadlineExceeded(HostError):
    """A command did not end in time; it was told to end."""

    def __init__(self, host: str, argv: Sequence[str], deadline_s: float) -> None:
        super().__init__(
            f"on {host}: `{shlex.join(argv)}` did not end within {deadline_s:g} s and was stopped",
            "a machine that is much busier or slower than usual, or a command that hangs",
        )


class HostLost(HostError):
    """The host cannot be reached any more; what a running command did is not known."""


class Process(Protocol):
    """A command that was started and goes on."""

    argv: tuple[str, ...]

    def running(self) -> bool:
        """Whether the command has not ended yet."""
        ...

    def wait(self, deadline_s: float) -> Result:
        """Wait for its end. Raises DeadlineExceeded (the command is then killed)."""
        ...

    def stop(self, deadline_s: float, signal: str = "INT") -> Result:
        """Ask it to end with a signal (INT, TERM, KILL), then wait as `wait` does."""
        ...


class Host(Protocol):
    """A machine that commands run on."""

    name: str

    def run(
        self,
        argv: Sequence[str],
        *,
        deadline_s: float = DEFAULT_DEADLINE_S,
        stdin: bytes = b"",
        check: bool = True,
    ) -> Result:
        """Run to the end. Raises CommandFailed (if `check`), DeadlineExceeded, HostLost."""
        ...

    def start(self, argv: Sequence[str]) -> Process:
        """Start a command that goes on. Its output is kept until it has ended."""
        ...

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        """Write a file (mode 0600) whole."""
        ...

    def get(self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> bytes:
        """Read a file whole."""
        ...

    def close(self) -> None:
        """Let go of the host. Safe to call twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Forward(Protocol):
    """A socket that was forwarded."""

    def close(self) -> None:
        """Take it away. Safe to call twice, and after the host is lost."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class Forwarding(Protocol):
    """A host that Unix sockets can be forwarded to and from."""

    def forward_unix_to_remote(self, local_path: str, remote_path: str) -> Forward:
        """A new socket here, for this user alone; its connections go to `remote_path` there.

        Whether anybody listens there is found out with each connection. Raises HostError, HostLost.
        """
        ...

    def forward_remote_unix(self, remote_path: str, local_path: str) -> Forward:
        """A new socket there; its connections go to `local_path` here. Raises HostError, HostLost."""
        ...


class Reached(Host, Forwarding, Protocol):
    """A host as this process reaches it, not through another one's eyes."""

    def output(
        self, argv: Sequence[str], *, deadline_s: float = DEFAULT_DEADLINE_S
    ) -> tuple[int | None, bytes, bytes]:
        """Status, stdout and stderr, as bytes, of a command that only reads.

        Raises DeadlineExceeded, HostLost.
        """
        ...


class Closing:
    """Base of hosts and forwarded sockets: `close` at the end of a `with` block."""

    def close(self) -> None:
        """Overridden by what holds something."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def checked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Refuse what cannot be one argument list: empty, not text, or with a NUL byte."""
    if isinstance(argv, str) or not argv:
        raise ValueError("a command is a list of arguments")
    for argument in argv:
        if not isinstance(argument, str) or "\0" in argument:
            raise ValueError(f"not a command argument: {argument!r}")
    return tuple(argv)


def decode(raw: bytes | None) -> str:
    """Text of a command's output."""
    return (raw or b"").decode("utf-8", errors="replace")
