"""Disks with a volatile write cache for a QEMU guest: an NBD server that loses what it was not told to keep.

    volatile_disks.py STATE NAME=BYTES... [--lies NAME]

Listens on STATE/disks.sock, an export a disk. What is written is in the cache until FLUSH (or FUA), or until
it is `_DRAINED_S` old. A client that goes without a good-bye, as a QEMU that is killed does, is a loss of
power: each 512-byte sector in the cache is lost or kept by chance, and STATE/NAME.cuts counts one more. A
disk that lies (--lies, or while there is a file STATE/NAME.lies) says that FLUSH is done and keeps nothing
by it.

The protocol: doc/proto.md of NetworkBlockDevice/nbd, fixed newstyle, simple replies.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import struct
import threading
import time
from pathlib import Path

_SECTOR = 512
# A drive writes out by itself what waits for long.
_DRAINED_S = 2.0
_HAS_FLAGS, _FLUSH, _FUA, _TRIM = 1, 4, 8, 32
_READ, _WRITE, _DISCONNECT, _DO_FLUSH, _DO_TRIM = range(5)
_OPTION_MAGIC, _REPLY_MAGIC, _REQUEST, _ANSWER = b"IHAVEOPT", 0x3E889045565A9, 0x25609513, 0x67446698
_EXPORT_NAME, _ABORT, _GO = 1, 2, 7
_ACK, _INFO, _UNSUPPORTED = 1, 3, 0x80000001


class Disk:
    """`now`: what a reader sees; `kept`: what is there after a loss of power; `cached`: sector to time."""

    def __init__(self, state: Path, name: str, size_bytes: int, *, lies: bool) -> None:
        self.lock = threading.Lock()
        self._counted, self._lies = state / f"{name}.cuts", state / f"{name}.lies"
        if lies:
            self._lies.touch()
        self._now, self._kept = bytearray(size_bytes), bytearray(size_bytes)
        self._cached: dict[int, float] = {}
        self._chance = random.Random(name)
        self._counted.write_text("0")

    @property
    def size_bytes(self) -> int:
        return len(self._now)

    def read(self, offset: int, count: int) -> bytes:
        return bytes(self._now[offset : offset + count])

    def write(self, offset: int, content: bytes) -> None:
        self._now[offset : offset + len(content)] = content
        time_s = time.monotonic()
        for sector in range(offset // _SECTOR, -(-(offset + len(content)) // _SECTOR)):
            # Last in the order of their times.
            self._cached.pop(sector, None)
            self._cached[sector] = time_s
        while self._cached and next(iter(self._cached.values())) < time_s - _DRAINED_S:
            self._keep(next(iter(self._cached)))

    def flush(self) -> None:
        for sector in [] if self._lies.exists() else list(self._cached):
            self._keep(sector)

    def _keep(self, sector: int) -> None:
        at = slice(sector * _SECTOR, (sector + 1) * _SECTOR)
        self._kept[at] = self._now[at]
        del self._cached[sector]

    def lose_power(self) -> None:
        lost = 0
        for sector in list(self._cached):
            if self._chance.random() < 0.5:
                self._keep(sector)
                continue
            at = slice(sector * _SECTOR, (sector + 1) * _SECTOR)
            self._now[at] = self._kept[at]
            lost += 1
        self._cached.clear()
        self._counted.write_text(str(int(self._counted.read_text()) + 1))
        print(f"{time.strftime('%T')} {self._counted.stem}: lost its power with {lost} sectors", flush=True)


def _exactly(line: socket.socket, count: int) -> bytes:
    """Raises EOFError."""
    content = b""
    while len(content) < count:
        chunk = line.recv(count - len(content))
        if not chunk:
            raise EOFError
        content += chunk
    return content


def _agree(line: socket.socket, disks: dict[str, Disk]) -> Disk | None:
    """The handshake; the disk that is asked for."""
    line.sendall(b"NBDMAGIC" + _OPTION_MAGIC + struct.pack(">H", 3))
    _exactly(line, 4)
    flags = _HAS_FLAGS | _FLUSH | _FUA | _TRIM
    while True:
        _, option, length = struct.unpack(">8sII", _exactly(line, 16))
        data = _exactly(line, length)

        def reply(kind: int, content: bytes = b"", to: int = option) -> None:
            line.sendall(struct.pack(">QIII", _REPLY_MAGIC, to, kind, len(content)) + content)

        if option == _EXPORT_NAME:
            disk = disks[data.decode()]
            line.sendall(struct.pack(">QH", disk.size_bytes, flags))
            return disk
        if option == _GO:
            (named,) = struct.unpack(">I", data[:4])
            disk = disks[data[4 : 4 + named].decode()]
            reply(_INFO, struct.pack(">HQH", 0, disk.size_bytes, flags))
            reply(_ACK)
            return disk
        if option == _ABORT:
            reply(_ACK)
            return None
        reply(_UNSUPPORTED)


def _serve(line: socket.socket, disks: dict[str, Disk]) -> None:
    with line, contextlib.suppress(EOFError, ConnectionError, KeyError):
        disk = _agree(line, disks)
        if disk is None:
            return
        with disk.lock:
            try:
                _requests(line, disk)
            except (EOFError, ConnectionError):
                disk.lose_power()


def _requests(line: socket.socket, disk: Disk) -> None:
    """Until the client says good-bye. Raises EOFError, ConnectionError."""
    while True:
        _, flags, kind, handle, offset, count = struct.unpack(">IHHQQI", _exactly(line, 28))
        content = b""
        if kind == _DISCONNECT:
            disk.flush()
            return
        if kind == _READ:
            content = disk.read(offset, count)
        if kind == _WRITE:
            disk.write(offset, _exactly(line, count))
        if kind == _DO_TRIM:
            disk.write(offset, bytes(count))
        if kind == _DO_FLUSH or flags & 1:
            disk.flush()
        line.sendall(struct.pack(">IIQ", _ANSWER, 0, handle) + content)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("state", type=Path)
    parser.add_argument("disks", nargs="+")
    parser.add_argument("--lies", action="append", default=[])
    words = parser.parse_args()
    sizes = dict(word.split("=") for word in words.disks)
    disks = {name: Disk(words.state, name, int(n), lies=name in words.lies) for name, n in sizes.items()}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fspath(words.state / "disks.sock"))
        listener.listen(16)
        while True:
            line, _ = listener.accept()
            threading.Thread(target=_serve, args=(line, disks), daemon=True).start()


if __name__ == "__main__":
    main()
