"""The NFSv3 client with a server that answers anything: an error, at once and with few bytes."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from kit.remote import nfs3_writes

_DONE = struct.pack(">IIIII", 1, 0, 0, 0, 0)


@contextlib.contextmanager
def answer_with(reply: Callable[[bytes], bytes]) -> Iterator[nfs3_writes.Line]:
    """A connection to a server that answers one call; `reply` has the call's number."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        line, _ = listener.accept()
        with listener, line:
            (mark,) = struct.unpack(">I", line.recv(4))
            line.sendall(reply(line.recv(mark & 0x7FFFFFFF)[:4]))

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    made = nfs3_writes.Line("127.0.0.1", listener.getsockname()[1])
    with made.socket:
        yield made
    serving.join()


def framed(content: bytes, last: bool = True) -> bytes:
    return struct.pack(">I", last << 31 | len(content)) + content


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (lambda _: b"", "closed the connection"),
        (lambda _: struct.pack(">I", 0xFFFFFFFF), "too long"),
        (lambda _: framed(b"x"), "ends too early"),
        (lambda _: framed(b"\0" * 24), "answered another call"),
        (lambda n: framed(n + struct.pack(">II", 1, 1)), "refuses AUTH_SYS"),
        (lambda n: framed(n + struct.pack(">IIIII", 1, 0, 0, 0, 2)), "no program 100003, version 3"),
        (lambda n: framed(n + struct.pack(">IIII", 1, 0, 0, 0xFFFFFFFF)), "where 65536 fit"),
        (lambda n: framed(n + _DONE + struct.pack(">I", 10008)), r"COMMIT: status \(10008\)"),
        (lambda n: framed(n + _DONE + struct.pack(">I", 70)), r"COMMIT: Stale file handle \(70\)"),
    ],
)
def test_answers_that_are_none(reply: Callable[[bytes], bytes], words: str) -> None:
    with answer_with(reply) as line, pytest.raises(OSError, match=words):
        line.done(nfs3_writes.NFS, nfs3_writes.COMMIT, b"", "COMMIT")


def test_an_answer_in_fragments() -> None:
    with answer_with(lambda n: framed(n, False) + framed(_DONE + b"\0\0\0\0")) as line:
        assert line.done(nfs3_writes.NFS, nfs3_writes.COMMIT, b"", "COMMIT").at == 28


def test_a_handle_that_is_too_long_and_names_of_any_length() -> None:
    with pytest.raises(OSError, match="70 bytes where 64 fit"):
        nfs3_writes.Answer(nfs3_writes.opaque(b"x" * 70)).bytes_(nfs3_writes.MOST_HANDLE)
    for size in range(9):
        packed = nfs3_writes.opaque(b"n" * size)
        assert len(packed) % 4 == 0 and nfs3_writes.Answer(packed).bytes_(8) == b"n" * size


def test_a_port_that_refuses_is_not_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert nfs3_writes.port({"host": "127.0.0.1", "port": port}) == "here"
    assert nfs3_writes.port({"host": "127.0.0.1", "port": port}) == "closed"
