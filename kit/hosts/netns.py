"""Commands in a network namespace of a host: a client of its own on a shared kernel.

Only the network namespace is entered, not a new mount namespace as with `ip netns exec`:
a mount made by one command must exist for the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kit.hosts.base import CommandResult, Host, Process
from kit.hosts.recorded import WrappedHost


class NetnsHost(WrappedHost):
    """Wraps a host; every command runs inside /run/netns/`netns`. The wrapped host stays open on close."""

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
