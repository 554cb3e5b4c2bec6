"""TCP on this machine's loopback to the sshds of a lab guest, which are behind serial lines.

A line carries one connection at a time. A connection gets a line that is free and whose sshd answers: one
whose last session was cut off may still have its words in the line, and then another is tried. The bytes
are not looked into but for the greeting.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

GREETING = b"SSH-"
_CHUNK = 1 << 16
_GREETING_S = 90.0
# An sshd that was woken answers sooner, if the guest is not busy; one that sleeps on is left for another
# line, and that one is given more time.
_ANSWERS_S = (4.0, 8.0)
_ANSWER_S = 15.0
_MOMENT_S = 0.01
_AGAIN_S = 0.5


class Relay:
    """Listens on 127.0.0.1:`port` from when it is made until `close`."""

    def __init__(self, state: Path, lines: range) -> None:
        self._state = state
        self._free = list(lines)
        self._lock = threading.Condition()
        self._open: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._closed = False
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def drop(self) -> int:
        """Cut every connection, as a broken network would; returns how many there were."""
        with self._lock:
            pairs = list(self._open.values())
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        return len(pairs)

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Nothing gets through, and no connection ends: as a host that hangs."""
        self._flows.clear()
        try:
            yield
        finally:
            self._flows.set()

    def close(self) -> None:
        self._closed = True
        self._flows.set()
        self._listener.close()
        self.drop()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), name="relay", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = time.monotonic() + _GREETING_S
        said, patience = b"", iter(_ANSWERS_S)
        with client:
            while time.monotonic() < end and not self._closed:
                number = self._take(end)
                if number is None:
                    return
                line = socket.socket(socket.AF_UNIX)
                try:
                    with line:
                        line.connect(os.fspath(self._state / f"ssh{number}.sock"))
                        until = min(end, time.monotonic() + next(patience, _ANSWER_S))
                        said, greeting = _greet(client, line, said, until)
                        if greeting:
                            with self._lock:
                                self._open[number] = (client, line)
                            client.sendall(greeting)
                            _pump(client, line, self._flows)
                            return
                        if greeting is None:
                            return
                except OSError:
                    pass
                finally:
                    with self._lock:
                        self._open.pop(number, None)
                        # To the end: the sshd behind it has the longest time to let go.
                        self._free.append(number)
                        self._lock.notify()
                time.sleep(_AGAIN_S)

    def _take(self, end: float) -> int | None:
        with self._lock:
            if not self._lock.wait_for(lambda: self._free, max(0.0, end - time.monotonic())):
                return None
            return self._free.pop(0)


def _greet(client: socket.socket, line: socket.socket, said: bytes, end: float) -> tuple[bytes, bytes | None]:
    """What the client has said until now, and the answer.

    The answer is empty if that is no greeting of an sshd, None if the client has gone.
    """
    if said:
        line.sendall(said)
    with selectors.DefaultSelector() as waiting:
        waiting.register(client, selectors.EVENT_READ)
        waiting.register(line, selectors.EVENT_READ)
        while time.monotonic() < end:
            for key, _ in waiting.select(0.2):
                chunk = key.fileobj.recv(_CHUNK)  # type: ignore[union-attr]
                if key.fileobj is line:
                    return said, chunk if chunk.startswith(GREETING) else b""
                if not chunk:
                    return said, None
                said += chunk
                line.sendall(chunk)
    return said, b""


def _pump(client: socket.socket, line: socket.socket, flows: threading.Event) -> None:
    """Both ways until either end is closed."""
    back = threading.Thread(target=_copy, args=(line, client, flows), name="relay", daemon=True)
    back.start()
    _copy(client, line, flows, in_two=True)
    back.join()


def _copy(source: socket.socket, target: socket.socket, flows: threading.Event, in_two: bool = False) -> None:
    """`in_two`: the last byte of what came goes a moment later.

    A guest's sshd sleeps through a wake-up now and then (docs/decisions/0006); the next byte wakes it.
    """
    with contextlib.suppress(OSError):
        while chunk := source.recv(_CHUNK):
            flows.wait()
            if in_two and len(chunk) > 1:
                target.sendall(chunk[:-1])
                time.sleep(_MOMENT_S)
                chunk = chunk[-1:]
            target.sendall(chunk)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
