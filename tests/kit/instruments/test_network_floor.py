"""kit.instruments.network_floor: the program on a real socket, and what is not measured."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.base import HostLost
from kit.hosts.local import LocalHost
from kit.instruments.base import MeasuredPhase
from kit.instruments.network_floor import NetworkFloor, summed
from kit.nfs.null_calls import CALLS, PROGRAM, command, unlike_null
from kit.store.parts.split import ClientNetwork
from tests.fakes import Answer, Command, ScriptedHost

LOCAL = LocalHost("client")
OPTIONS = "rw,vers=4.2,hard,proto=tcp,nconnect=2,timeo=600,sec=sys,addr=127.0.0.1,port={port}"
MEASURED = MeasuredPhase({"read": 512}, 1, 0, 1, {}, 0, Clock("virtual", 4))


def done(call: bytes) -> bytes:
    """The answer of a server to a record with a call of NULL of version 4."""
    mark, number, *rest = struct.unpack(">11I", call)
    assert mark == 1 << 31 | 40 and rest == [0, 2, 100003, 4, 0, 0, 0, 0, 0]
    return struct.pack(">7I", 1 << 31 | 24, number, 1, 0, 0, 0, 0)


def refused(call: bytes) -> bytes:
    """It does not speak this version (PROG_MISMATCH)."""
    return struct.pack(">9I", 1 << 31 | 32, *struct.unpack(">I", call[4:8]), 1, 0, 0, 0, 2, 3, 3)


def serve_calls(peer: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    """In two pieces, as a network may."""
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while call := peer.recv(44, socket.MSG_WAITALL):
        found = answer(call)
        peer.sendall(found[:9])
        peer.sendall(found[9:])


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[bytes], bytes]], int]]:
    """Starts a server for one connection after the other; gives its port."""
    listeners: list[socket.socket] = []

    def started(answer: Callable[[bytes], bytes]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        serve_calls(peer, answer)

        threading.Thread(target=run, daemon=True).start()
        return int(listener.getsockname()[1])

    yield started
    for listener in listeners:
        listener.close()


class Client(ScriptedHost):
    """Has a mount with `options`; other programs run on this machine."""

    def __init__(self, options: str) -> None:
        super().__init__(name="client")
        self.options = options

    def answer(self, command: Command) -> Answer:
        if command.argv == ("cat", "/proc/mounts"):
            return f"s:/x /mnt/t nfs4 {self.options} 0 0\n"
        if command.argv[0] == "cat":
            return "device s:/x mounted on /mnt/t with fstype nfs4 statvers=1.1\n" + "\txprt:\ttcp 7 1\n" * 2
        found = LOCAL.run(command.argv, stdin=command.stdin, check=False)
        return found.returncode, found.stdout, found.stderr


def measured(client: ScriptedHost, stem: Path) -> ClientNetwork:
    floor = NetworkFloor([client], "/mnt/t", MEASURED.clock, stem)
    floor.begin()
    floor.end()
    (found,) = floor.report(MEASURED).entry["network"]
    assert isinstance(found, ClientNetwork)
    return found


def test_each_call_is_timed_and_kept(serve: Callable[..., int], tmp_path: Path) -> None:
    found = LOCAL.run(command("127.0.0.1", str(serve(done)), "4.2"), stdin=PROGRAM.read_bytes())
    value = json.loads(found.stdout)
    assert len(value["calls"]) == CALLS and len(value["own"]) == 100
    assert 0 < min(value["own"]) <= sorted(value["own"])[50] < sorted(value["calls"])[CALLS // 2]


def test_what_is_stored_is_in_the_time_of_the_experiment(serve: Callable[..., int], tmp_path: Path) -> None:
    found = measured(Client(OPTIONS.format(port=serve(done))), tmp_path / "read")
    raw = json.loads((tmp_path / "read-null.json").read_text())["client"]
    assert (found.transport, found.connections) == ("tcp", 2)
    assert found.before and found.before.calls == CALLS and found.before.p99_ns
    assert found.after and found.after.calls == len(raw["after"]["calls"]) and not found.why
    assert found.before.least_ns == MEASURED.clock.from_host_ns(min(raw["before"]["calls"]))


def test_a_version_that_the_server_does_not_speak_is_said(serve: Callable[..., int], tmp_path: Path) -> None:
    found = measured(Client(OPTIONS.format(port=serve(refused))), tmp_path / "read")
    assert found.before is None and found.measured == ()
    assert "NULL could not be called from client: NULL calls to 127.0.0.1 port" in found.why


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    assert "Connection refused" in measured(Client(OPTIONS.format(port=port)), tmp_path / "read").why


@pytest.mark.parametrize(
    "answer",
    ["", "[]", "{}", '{"calls": [], "own": [1]}', '{"calls": [-1], "own": [1]}', '{"calls": ["x"]}',
     '{"calls": [1e999], "own": [1]}', json.dumps({"calls": [1] * 9999, "own": [1]}), "[" * 9999],
)  # fmt: skip
def test_an_answer_that_is_none_of_the_program_is_no_measurement(answer: str, tmp_path: Path) -> None:
    class Odd(Client):
        def answer(self, command: Command) -> Answer:
            return answer if command.argv[0] == "env" else super().answer(command)

    found = measured(Odd(OPTIONS.format(port=2049)), tmp_path / "read")
    assert found.why.startswith("NULL could not be called from client: ") and not found.measured


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("rw,vers=3,proto=rdma,port=20049,addr=10.0.0.1", "goes over RDMA"),
        ("rw,vers=3,proto=rdma6,addr=fd97::1", "goes over RDMA"),
        ("rw,vers=3,proto=udp,addr=10.0.0.1", "goes over udp"),
        ("rw,vers=4.2,proto=tcp,sec=krb5p,addr=10.0.0.1", "sec=krb5p"),
        ("rw,vers=4.2,proto=tcp,sec=sys", "does not show the address"),
        ("rw,vers=4.2,proto=tcp6,sec=sys,addr=fd97::1", ""),
    ],
)
def test_other_ways_than_those_of_null_are_not_measured(options: str, why: str, tmp_path: Path) -> None:
    assert why in unlike_null(options) and bool(why) == bool(unlike_null(options))
    if why:
        client = Client(options)
        assert why in measured(client, tmp_path / "read").why and not client.called("env")


def test_a_lost_client_ends_the_phase_and_another_error_does_not(tmp_path: Path) -> None:
    for error, lost in ((HostLost("gone"), True), (HostError("odd"), False)):
        floor = NetworkFloor([ScriptedHost(default=error, name="client")], "/mnt/t", MEASURED.clock, tmp_path)
        if lost:
            with pytest.raises(HostLost):
                floor.begin()
        else:
            floor.begin()


def test_too_few_calls_have_no_p99() -> None:
    few, enough = (summed(range(4, 4 + 4 * count, 4), [8], MEASURED.clock) for count in (367, 400))
    assert few.p99_ns is None and enough.p99_ns == 397
    assert (enough.least_ns, enough.own_ns, enough.calls) == (1, 2, 400)
