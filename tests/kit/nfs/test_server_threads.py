"""The listeners of nfsd, read and made again: the program for the server, on files in the kernel's place."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kit.core.errors import HostError
from kit.nfs import server_threads
from tests.fakes import ScriptedHost

_HEAD = "  sl  local_address rem_address   st\n"


def hexed(address: str, port: int) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    words = [int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4)]
    return f"{''.join(f'{word:08X}' for word in words)}:{port:04X}"


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(server_threads.HELPER), *words]
    env = {"HSP_NFSD": str(folder), "HSP_PROC_NET": str(folder)}
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)


def tables(folder: Path, portlist: str) -> None:
    (folder / "portlist").write_text(portlist)
    (folder / "tcp").write_text(
        f"{_HEAD} 0: {hexed('10.1.2.3', 2049)} 00000000:0000 0A\n"
        # A client's connection, and another server.
        f" 1: {hexed('10.1.2.3', 2049)} {hexed('10.1.2.4', 700)} 01\n"
        f" 2: {hexed('0.0.0.0', 22)} 00000000:0000 0A\n"
    )
    (folder / "tcp6").write_text(f"{_HEAD} 0: {hexed('fd00::1', 2049)} {'0' * 32}:0000 0A\n")


def test_each_listener_is_read_with_its_address(tmp_path: Path) -> None:
    tables(tmp_path, "rdma 20049\ntcp 2049\ntcp 2049\n")
    done = call(tmp_path, "look")
    assert done.stdout.splitlines() == ["rdma - 20049", "tcp 10.1.2.3 2049", "tcp fd00::1 2049"], done.stderr


def test_one_that_could_not_be_made_again_is_named(tmp_path: Path) -> None:
    tables(tmp_path, "tcp 2049\ntcp 2049\nudp 2049\n")
    done = call(tmp_path, "look")
    assert done.returncode and "udp" in done.stderr
    host = ScriptedHost({"python3": (1, "", done.stderr)})
    with pytest.raises(HostError, match="what the NFS server listens on cannot be read: nfsd has"):
        server_threads.listeners(host)


def test_what_is_there_is_not_added_twice_and_threads_come_last(tmp_path: Path) -> None:
    (tmp_path / "portlist").write_text("rdma 20049\n")
    (tmp_path / "threads").write_text("0\n")
    done = call(tmp_path, "start", "8", "rdma - 20049")
    assert not done.returncode and (tmp_path / "threads").read_text() == "8\n", done.stderr
    # Here nobody takes the socket: nfsd has another listener than before.
    (tmp_path / "portlist").write_text("tcp 1\n")
    assert "nfsd has the listeners" in call(tmp_path, "start", "8", "tcp 127.0.0.1 0").stderr


def test_a_server_that_is_not_as_before_is_an_error() -> None:
    host = ScriptedHost({"python3": "", "cat": "0\n"})
    with pytest.raises(HostError, match="started with 8 threads and has 0"):
        server_threads.start(host, "8", ["tcp :: 2049"])
