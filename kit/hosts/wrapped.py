"""Hosts around another one: that record its commands, run them in a network namespace, or connect again."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kit.core.errors import HostError
from kit.core.files import AppendLog
from kit.hosts.base import DEFAULT_DEADLINE_S, OUTPUT_LIMIT_BYTES, CommandResult, Host, Process


class Recorder:
    """raw/commands.jsonl: one line per command or file transfer, in the order of their start.

    An error while a line is written does not stop a command; the first error is in `unwritten`.
    """

    def __init__(self, path: Path) -> None:
        self._file = AppendLog(path)
        self._lock = threading.Lock()
        self.unwritten: OSError | None = None

    def write(self, host: str, **entry: Any) -> None:
        line = json.dumps({"time": round(time.time(), 3), "host": host, **entry})
        with self._lock:
            try:
                self._file.append(line)
            except OSError as error:
                self.unwritten = self.unwritten or error

    def close(self) -> None:
        self._file.close()


class WrappedHost(Host):
    """Hands everything on to another host."""

    def __init__(self, host: Host) -> None:
        self.name = host.name
        self.inner = host

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        return self.inner.run(argv, deadline_s=deadline_s, stdin=stdin, check=False, limit_bytes=limit_bytes)

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        return self.inner.start(argv, output, stdin)

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        self.inner.put(content, path, deadline_s=deadline_s)

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        return self.inner.get(path, deadline_s=deadline_s, limit_bytes=limit_bytes)

    def close(self) -> None:
        self.inner.close()


class RecordedHost(WrappedHost):
    """Wraps a host and records its commands."""

    def __init__(self, host: Host, recorder: Recorder) -> None:
        super().__init__(host)
        self._recorder = recorder

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        self._recorder.write(self.name, argv=argv)
        return super()._run(argv, deadline_s, stdin, limit_bytes)

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        self._recorder.write(self.name, argv=list(argv), started=True)
        return super().start(argv, output, stdin)

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        self._recorder.write(self.name, put=path, bytes=len(content))
        super().put(content, path, deadline_s=deadline_s)

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        self._recorder.write(self.name, get=path)
        return super().get(path, deadline_s=deadline_s, limit_bytes=limit_bytes)


class NetnsHost(WrappedHost):
    """A client of its own on a shared kernel: every command runs inside /run/netns/`netns`.

    Only the network namespace is entered, not a new mount namespace as with `ip netns exec`: a mount made by
    one command must exist for the next. The wrapped host stays open on close.
    """

    def __init__(self, host: Host, netns: str) -> None:
        super().__init__(host)
        self.name = f"{host.name}/{netns}"
        self._prefix = ("nsenter", f"--net=/run/netns/{netns}", "--")

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        return super()._run((*self._prefix, *argv), deadline_s, stdin, limit_bytes)

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        return super().start((*self._prefix, *argv), output, stdin)

    def close(self) -> None:
        pass


class ReopenedHost(WrappedHost):
    """A host that may lose its power, and is connected to again."""

    def __init__(self, opening: Callable[[], Host]) -> None:
        super().__init__(opening())
        self._opening = opening

    def reopen(self, until_up: Callable[[Callable[[], Host]], Host]) -> None:
        """Connect again; `until_up` tries with what it is given. Raises HostError."""
        with contextlib.suppress(HostError):
            self.inner.close()
        self.inner = until_up(self._opening)
