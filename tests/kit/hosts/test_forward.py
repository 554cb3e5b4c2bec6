"""Sockets forwarded over a real SSH connection, in both directions."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.config.address import parse_address
from kit.core.errors import HostError
from kit.hosts.base import HostLost
from kit.hosts.ssh import SshHost
from kit.hosts.ssh_connect import connect
from kit.hosts.sudo import SudoHost

from .conftest import Sshd, abort, until


@pytest.fixture
def host(sshd: Sshd, tmp_path: Path) -> Iterator[SshHost | SudoHost]:
    config = sshd.config(tmp_path / "config", sshd.known_hosts(tmp_path / "known_hosts"))
    with connect(parse_address("ssh://far"), config_path=config) as opened:
        yield opened


@pytest.fixture
def place() -> Iterator[Path]:
    """A private directory with a short name: a socket's path has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="hsp", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def echo(place: Path) -> Iterator[Path]:
    """A socket where everything comes back, and an end of input is an end of output."""
    path = place / "echo"

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = server.accept()[0]
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            while said := connection.recv(65536):
                connection.sendall(said)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))
        server.listen()
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield path
        server.shutdown(socket.SHUT_RDWR)


def asked(path: Path, text: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(os.fspath(path))
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_from_here_to_there(host: SshHost, echo: Path, place: Path) -> None:
    here = place / "here"
    with host.forward_unix_to_remote(os.fspath(here), os.fspath(echo)):
        assert asked(here, b"one") == b"one"
        assert asked(here, b"x" * 300_000) == b"x" * 300_000
    assert not here.exists()
    # The same path once more, and closed with the host.
    forward = host.forward_unix_to_remote(os.fspath(here), os.fspath(echo))
    assert asked(here, b"two") == b"two"
    host.close()
    assert not here.exists()
    forward.close()


def test_from_there_to_here(host: SshHost, echo: Path, place: Path) -> None:
    there = place / "there"
    for text in (b"one", b"two"):
        with host.forward_remote_unix(os.fspath(there), os.fspath(echo)):
            assert stat.S_IMODE(there.stat().st_mode) == 0o600
            assert asked(there, text) == text
        assert until(lambda: not there.exists())


def test_nobody_listens_at_the_far_end(host: SshHost, place: Path) -> None:
    here = place / "here"
    with host.forward_unix_to_remote(os.fspath(here), os.fspath(place / "none")):
        with contextlib.suppress(OSError):
            assert asked(here, b"x") == b""


def test_a_socket_here_is_for_nobody_else(host: SshHost, echo: Path, place: Path) -> None:
    place.chmod(0o755)
    with pytest.raises(HostError, match="open to others"):
        host.forward_unix_to_remote(os.fspath(place / "here"), os.fspath(echo))
    with pytest.raises(HostError, match="No such file"):
        host.forward_unix_to_remote(os.fspath(place / "none" / "here"), os.fspath(echo))


def test_a_path_that_is_taken_stays_as_it_is(host: SshHost, echo: Path, place: Path) -> None:
    with pytest.raises(HostError, match="is there already"):
        host.forward_unix_to_remote(os.fspath(echo), os.fspath(echo))
    with pytest.raises(HostError, match="cannot forward"):
        host.forward_remote_unix(os.fspath(echo), os.fspath(echo))
    assert asked(echo, b"x") == b"x"


def test_a_directory_that_is_not_there(host: SshHost, echo: Path, place: Path) -> None:
    with pytest.raises(HostError, match="cannot forward") as caught:
        host.forward_remote_unix(os.fspath(place / "none" / "there"), os.fspath(echo))
    assert "AllowStreamLocalForwarding" in caught.value.hint


def test_after_the_connection(host: SshHost, echo: Path, place: Path) -> None:
    here = place / "here"
    forward = host.forward_unix_to_remote(os.fspath(here), os.fspath(echo))
    abort(host.inner if isinstance(host, SudoHost) else host)  # type: ignore[arg-type]
    assert until(lambda: not host_answers(host))
    with pytest.raises(HostLost):
        host.forward_remote_unix(os.fspath(place / "there"), os.fspath(echo))
    forward.close()
    assert not here.exists()


def host_answers(host: SshHost) -> bool:
    with contextlib.suppress(HostLost):
        host.run(["true"])
        return True
    return False
