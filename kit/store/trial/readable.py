"""Whether a Parquet file can be read, found out in another process."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

from kit.core.errors import ConfigError
from kit.store.json_file import DAMAGED

_PROGRAM = Path(__file__).with_name("reader.py")


class _Reader:
    """The process, started at the first file and again after a file that ended it; it ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def fault_of(self, handle: int, most_rows: int) -> str:
        with self._lock:
            try:
                connection = self._started()
                socket.send_fds(connection, [b"%d" % most_rows], [handle])
                with connection.makefile("rb") as lines:
                    answer = lines.readline()
            except BaseException:
                self._end(kill=True)
                raise
            if answer.endswith(b"\n"):
                return answer[:-1].decode("utf-8", "replace")
            return f"what reads it is ended by signal {-self._end(kill=False)}"

    def _started(self) -> socket.socket:
        if self._connection is None:
            ours, theirs = socket.socketpair()
            with theirs:
                # Isolated: a module in the working directory is not imported.
                self._process = subprocess.Popen(
                    [sys.executable, "-I", str(_PROGRAM)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    # Ctrl-C is for this process, which then ends the other.
                    process_group=0,
                )
            self._connection = ours
        return self._connection

    def _end(self, *, kill: bool) -> int:
        connection, process = self._connection, self._process
        self._connection = self._process = None
        if connection is not None:
            connection.close()
        if process is None:
            return 0
        if kill:
            process.kill()
        return process.wait()


_reader = _Reader()


def check_readable(path: Path, handle: int, most_rows: int) -> None:
    """`handle`: of the open file `path`. Raises ConfigError if polars cannot read all of it.

    A file with more than `most_rows` is not read.
    """
    if fault := _reader.fault_of(handle, most_rows):
        raise ConfigError(f"{path}: not a readable Parquet file ({fault})", DAMAGED)
