"""kit.hosts.ssh against a real SSH server of this process (asyncssh), over a socket pair."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncssh
import pytest

from kit.hosts import ssh
from kit.hosts.base import CommandFailed, DeadlineExceeded, HostLost
from kit.hosts.ssh import SshHost, call


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """This server ends nothing when it is told to."""
    monkeypatch.setattr(ssh, "_KILL_GRACE_S", 0.1)
    monkeypatch.setattr(ssh, "_CLOSE_GRACE_S", 0.5)


HOST_KEY = asyncssh.generate_private_key("ssh-ed25519")
USER_KEY = asyncssh.generate_private_key("ssh-ed25519")


class Sleepy:
    """A server whose commands end (`wake`) or channels open (`open`) only after a debug message has come."""

    def __init__(self) -> None:
        self.nudged = asyncio.Event()
        self.messages: list[str] = []

    def server(self) -> asyncssh.SSHServer:
        outer = self

        class Server(asyncssh.SSHServer):
            def debug_msg_received(self, msg: str, lang: str, always_display: bool) -> None:
                outer.messages.append(msg)
                outer.nudged.set()

        return Server()

    async def command(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        words = (process.command or "").split()
        if words[0] == "wake":
            await self.nudged.wait()
        if words[0] == "hang":
            await asyncio.sleep(3600)
        process.stdout.write(await process.stdin.read())
        process.exit(int(words[1]) if len(words) > 1 else 0)


@contextlib.contextmanager
def served(nudge_s: float | None) -> Iterator[tuple[SshHost, Sleepy, Any]]:
    far, near = socket.socketpair()
    sleepy = Sleepy()
    accepted: list[Any] = []

    async def accept() -> None:
        accepted.append(
            await asyncssh.run_server(
                far,
                server_factory=sleepy.server,
                server_host_keys=[HOST_KEY],
                authorized_client_keys=asyncssh.import_authorized_keys(USER_KEY.export_public_key().decode()),
                process_factory=sleepy.command,
                encoding=None,
            )
        )

    async def connect() -> asyncssh.SSHClientConnection:
        serving = asyncio.ensure_future(accept())
        connection = await asyncssh.connect(
            "host",
            sock=near,
            username="root",
            client_keys=[USER_KEY],
            known_hosts=([HOST_KEY.convert_to_public()], [], []),
            config=None,
            agent_path=None,
        )
        await serving
        return connection

    with SshHost("far", connect, 30.0, nudge_s=nudge_s) as host:
        yield host, sleepy, accepted[0]


def test_a_command_its_input_output_and_status() -> None:
    with served(None) as (host, _, _):
        assert host.run(["say"], stdin=b"a\xff").stdout == "a�"
        with pytest.raises(CommandFailed) as caught:
            host.run(["say", "7"])
        assert caught.value.result.returncode == 7


def test_a_far_end_that_missed_a_wake_up_is_nudged() -> None:
    with served(0.2) as (host, sleepy, _):
        assert host.run(["wake"], deadline_s=20).returncode == 0
        assert set(sleepy.messages) == {"still there?"}


def test_without_nudges_nothing_but_the_command_is_sent() -> None:
    with served(None) as (host, sleepy, _):
        with pytest.raises(DeadlineExceeded):
            host.run(["wake"], deadline_s=0.5)
        assert sleepy.messages == []


def test_a_command_that_goes_on_is_left_alone() -> None:
    with served(0.05) as (host, sleepy, _):
        process = host.start(["hang"])
        before = len(sleepy.messages)
        time.sleep(0.5)
        assert process.running()
        assert len(sleepy.messages) == before
        with pytest.raises(DeadlineExceeded):
            process.wait(0.3)
        assert len(sleepy.messages) == before


def test_a_deadline_holds_with_nudges() -> None:
    with served(0.1) as (host, sleepy, _):
        with pytest.raises(DeadlineExceeded):
            host.run(["hang"], deadline_s=0.6)
        assert 3 <= len(sleepy.messages) <= 6


def test_a_connection_that_breaks_is_a_lost_host() -> None:
    with served(0.1) as (host, _, connection):

        async def cut() -> None:
            connection.abort()

        threading.Timer(0.3, lambda: call(cut())).start()
        with pytest.raises(HostLost, match="broke during `hang`"):
            host.run(["hang"], deadline_s=20)
        with pytest.raises(HostLost):
            host.run(["say"], deadline_s=20)


@pytest.mark.parametrize("method", ["run", "start", "output"])
def test_a_connection_that_breaks_as_a_channel_opens_is_a_lost_host(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = asyncssh.SSHClientChannel._open

    async def open_then_break(channel: Any, *arguments: Any) -> Any:
        packet = await real(channel, *arguments)
        channel.get_connection().abort()
        await asyncio.sleep(0)
        return packet

    with served(None) as (host, _, _):
        monkeypatch.setattr(asyncssh.SSHClientChannel, "_open", open_then_break)
        with pytest.raises(HostLost, match="broke during `say`"):
            getattr(host, method)(["say"])


def test_threads_that_come_first_at_once_share_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hsp doctor` logs in to all hosts at once: a connection of another loop cannot be waited for."""
    made = ssh.asyncio.new_event_loop

    def slowly() -> asyncio.AbstractEventLoop:
        time.sleep(0.05)
        return made()

    monkeypatch.setattr(ssh.asyncio, "new_event_loop", slowly)
    ssh._the_loop.cache_clear()
    try:
        with ThreadPoolExecutor(8) as pool:
            loops = {id(loop) for loop in pool.map(lambda _: ssh._loop(), range(8))}
    finally:
        ssh._the_loop.cache_clear()
    assert len(loops) == 1
