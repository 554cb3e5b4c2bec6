"""Commands in a network namespace of a host: a client of its own on a shared kernel.

Only the network namespace is entered, not a new mount namespace as with `ip netns exec`:
a mount made by one command must exist for the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kit.hosts.base import DEFAULT_DEADLINE_S, OUTPUT_LIMIT_BYTES, Host, Process, Result


class NetnsHost(Host):
    """Wraps a host; every command runs inside /run/netns/`netns`. The wrapped host stays open on close."""

    def __init__(self, host: Host, netns: str) -> None:
        self.name = f"{host.name}/{netns}"
        self._host = host
        self._prefix = ("nsenter", f"--net=/run/netns/{netns}", "--")

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> Result:
        return self._host.run(
            (*self._prefix, *argv), deadline_s=deadline_s, stdin=stdin, check=False, limit_bytes=limit_bytes
        )

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        return self._host.start((*self._prefix, *argv), output, stdin)

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        self._host.put(content, path, deadline_s=deadline_s)

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        return self._host.get(path, deadline_s=deadline_s, limit_bytes=limit_bytes)
