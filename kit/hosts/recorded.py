"""Records all commands of a host in a file of the run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kit.core.files import AppendLog
from kit.hosts.base import DEFAULT_DEADLINE_S, OUTPUT_LIMIT_BYTES, Forwarding, Host, Process, Result


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


class RecordedHost(Host):
    """Wraps a host and records its commands. It forwards sockets if the wrapped host does."""

    def __init__(self, host: Host, recorder: Recorder) -> None:
        self.name = host.name
        self._host = host
        self._recorder = recorder
        if isinstance(host, Forwarding):
            self.forward_unix_to_remote = host.forward_unix_to_remote
            self.forward_remote_unix = host.forward_remote_unix

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> Result:
        self._recorder.write(self.name, argv=argv)
        return self._host.run(argv, deadline_s=deadline_s, stdin=stdin, check=False, limit_bytes=limit_bytes)

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> Process:
        self._recorder.write(self.name, argv=list(argv), started=True)
        return self._host.start(argv, output, stdin)

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        self._recorder.write(self.name, put=path, bytes=len(content))
        self._host.put(content, path, deadline_s=deadline_s)

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        self._recorder.write(self.name, get=path)
        return self._host.get(path, deadline_s=deadline_s, limit_bytes=limit_bytes)

    def close(self) -> None:
        self._host.close()
