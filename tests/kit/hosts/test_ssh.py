"""kit.hosts.ssh: commands and arguments, with asyncssh's server and with OpenSSH's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from kit.config.address import parse_address
from kit.core.errors import HostError
from kit.hosts import ssh
from kit.hosts.base import CommandFailed, DeadlineExceeded, DirectHost, HostLost
from kit.hosts.connect import connect
from kit.hosts.ssh import SshHost
from kit.hosts.sudo import SudoHost

from .conftest import Sshd, abort, until
from .hostile_arguments import check_hostile_arguments


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """This server does not end commands on request."""
    monkeypatch.setattr(ssh, "_KILL_GRACE_S", 0.1)
    monkeypatch.setattr(ssh, "_CLOSE_GRACE_S", 0.5)


HOST_KEY = asyncssh.generate_private_key("ssh-ed25519")
USER_KEY = asyncssh.generate_private_key("ssh-ed25519")


class Sleepy:
    """A server whose commands end (`wake`) or channels open (`open`) only after a debug message has come."""

    def __init__(self) -> None:
        self.nudged = asyncio.Event()
        self.messages: list[str] = []
        self.at_hang: Callable[[], object] = lambda: None

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
            self.at_hang()
            await asyncio.sleep(3600)
        process.stdout.write(await process.stdin.read())
        process.exit(int(words[1]) if len(words) > 1 else 0)


@contextlib.contextmanager
def served(nudge_s: float | None) -> Iterator[tuple[SshHost, Sleepy, Any]]:
    server_end, client_end = socket.socketpair()
    sleepy = Sleepy()
    accepted: list[Any] = []

    async def accept() -> None:
        accepted.append(
            await asyncssh.run_server(
                server_end,
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
            sock=client_end,
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


def test_a_command_has_its_input_output_and_exit_code() -> None:
    with served(None) as (host, _, _):
        assert host.run(["say"], stdin=b"a\xff").stdout == "a�"
        with pytest.raises(CommandFailed) as caught:
            host.run(["say", "7"])
        assert caught.value.result.returncode == 7


def test_a_remote_end_that_missed_a_wake_up_gets_a_nudge() -> None:
    with served(0.2) as (host, sleepy, _):
        assert host.run(["wake"], deadline_s=60).returncode == 0
        assert set(sleepy.messages) == {"still there?"}


def test_without_nudges_nothing_but_the_command_is_sent() -> None:
    with served(None) as (host, sleepy, _):
        with pytest.raises(DeadlineExceeded):
            host.run(["wake"], deadline_s=0.5)
        assert sleepy.messages == []


def test_no_nudges_during_a_background_command() -> None:
    with served(None) as (host, sleepy, _):
        process = host.start(["hang"])
        # Not before: a busy host may be nudged while it opens the channel.
        host._nudge_s = 0.05
        with pytest.raises(DeadlineExceeded):
            process.wait(0.3)
        assert sleepy.messages == []


def test_a_deadline_holds_with_nudges() -> None:
    with served(0.1) as (host, sleepy, _):
        with pytest.raises(DeadlineExceeded):
            host.run(["hang"], deadline_s=0.6)
        assert until(lambda: sleepy.messages)


def test_a_connection_that_breaks_is_a_lost_host() -> None:
    with served(0.1) as (host, sleepy, connection):
        sleepy.at_hang = connection.abort
        with pytest.raises(HostLost, match="broke during `hang`"):
            host.run(["hang"], deadline_s=60)
        with pytest.raises(HostLost):
            host.run(["say"], deadline_s=60)


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
    """`hsp host check` logs in to all hosts at once: a connection of another loop cannot be waited for."""
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


# --- Through a real sshd ---


@pytest.fixture
def real_host(sshd: Sshd, tmp_path: Path) -> Iterator[DirectHost]:
    with connect(parse_address("ssh://far"), config_path=sshd.config(tmp_path)) as opened:
        yield opened


@pytest.fixture
def user_host(real_host: DirectHost) -> SshHost:
    """As the user who logs in, without sudo."""
    return real_host.inner if isinstance(real_host, SudoHost) else real_host  # type: ignore[return-value]


@pytest.mark.parametrize("supervised", [True, False])
def test_hostile_arguments_arrive_as_they_are(user_host: SshHost, tmp_path: Path, supervised: bool) -> None:
    if not supervised:
        user_host.supervision = None
    check_hostile_arguments(user_host, tmp_path)


def test_a_hostile_program_name_is_a_missing_program(user_host: SshHost, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    for name in (
        f"touch {canary}",
        f"$(touch {canary})",
        f";touch {canary}",
        "-c",
        "",
        "a\nb",
        f"x=1 touch {canary}",
    ):
        assert user_host.run([name, str(canary)], check=False).returncode in (126, 127)
    assert not canary.exists()


@pytest.fixture
def place() -> Iterator[Path]:
    """A private directory with a short name: a socket's path has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="hsp", dir="/tmp") as name:
        yield Path(name)


def host_answers(host: DirectHost) -> bool:
    with contextlib.suppress(HostLost):
        host.run(["true"])
        return True
    return False


def test_output_goes_to_a_file_as_it_comes(real_host: DirectHost, tmp_path: Path) -> None:
    output = tmp_path / "output"
    process = real_host.start(["sh", "-c", "echo one; sleep 600"], output)
    assert until(lambda: output.read_bytes() == b"one\n")
    assert process.running()
    process.stop(60, "KILL")
    assert output.read_bytes() == b"one\n"
    with pytest.raises(HostError):
        real_host.start(["echo", "two"], output)


@pytest.mark.parametrize("begun", [True, False], ids=["while it runs", "before it begins"])
def test_the_file_of_a_command_whose_connection_broke_is_closed(
    real_host: DirectHost, tmp_path: Path, begun: bool
) -> None:
    connection = real_host.inner if isinstance(real_host, SudoHost) else real_host
    output = tmp_path / "output"
    if begun:
        process = real_host.start(["sh", "-c", "echo one; sleep 600"], output)
        assert until(lambda: output.read_bytes() == b"one\n")
    abort(connection)  # type: ignore[arg-type]
    assert until(lambda: not host_answers(real_host))
    with pytest.raises(HostLost):
        (process if begun else real_host.start(["echo", "one"], output)).wait(60)
    names = [os.readlink(file) for file in Path("/proc/self/fd").iterdir() if file.exists()]
    assert os.fspath(output) not in names
