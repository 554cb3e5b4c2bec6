"""kit.hosts.connect with a real OpenSSH server: logins and host keys."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.config.address import HostAddress, parse_address
from kit.core.errors import HostError
from kit.hosts import connect as connecting
from kit.hosts.base import CommandFailed, DeadlineExceeded, HostLost
from kit.hosts.connect import HostKeyRefused, HostUnreachable, LoginRefused, connect
from kit.hosts.ssh import SshHost

from .conftest import Sshd, abort, free_port, gone, keygen, run_sshd, running, until

FAR = parse_address("ssh://far")


@pytest.fixture
def known(sshd: Sshd, tmp_path: Path) -> Path:
    return sshd.known_hosts(tmp_path / "known_hosts")


@pytest.fixture
def config(sshd: Sshd, tmp_path: Path, known: Path) -> Path:
    return sshd.config(tmp_path / "config", known)


@pytest.fixture
def host(config: Path) -> Iterator[SshHost]:
    with connect(FAR, config_path=config) as opened:
        # Tests of what an ordinary user sees are in test_sudo.py.
        yield opened if isinstance(opened, SshHost) else opened.inner  # type: ignore[misc]


def fingerprint(public: Path) -> str:
    return subprocess.run(["ssh-keygen", "-lf", str(public)], capture_output=True, text=True).stdout.split()[
        1
    ]


def test_commands(host: SshHost, tmp_path: Path) -> None:
    assert host.name == "far"
    assert host.run(["cat"], stdin=b"a b\n" * 50_000).stdout == "a b\n" * 50_000
    assert host.run(["cat"]).stdout == ""
    assert host.run(["sh", "-c", "echo e >&2; exit 200"], check=False).returncode == 200
    assert host.run(["sh", "-c", "kill -9 $$"], check=False).returncode == -9
    with pytest.raises(CommandFailed) as caught:
        host.run(["no-such-program"])
    assert caught.value.result.returncode == 127
    host.put(b"\xff\0x", str(tmp_path / "file"))
    assert host.get(str(tmp_path / "file")) == b"\xff\0x"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    with pytest.raises(HostError, match="cannot read"):
        host.get(str(tmp_path / "none"))


def test_a_command_finds_its_way_to_sbin_and_speaks_no_other_language(host: SshHost) -> None:
    answer = host.run(["sh", "-c", 'echo "$PATH $LC_ALL"']).stdout
    assert ":/usr/sbin:/sbin" in answer and answer.endswith("C.UTF-8\n")


def test_the_default_files_are_those_of_the_user(sshd: Sshd, known: Path, tmp_path: Path) -> None:
    # No configuration is named: nothing of this server can be known to the user's own.
    address = HostAddress("ssh", "127.0.0.1", sshd.user, sshd.port)
    with pytest.raises(HostLost, match=r"is unknown.*/\.ssh/known_hosts"):
        connect(address)
    # With the key known it goes on to the login, which the user's own keys do not open.
    config = tmp_path / "own"
    config.write_text(f"UserKnownHostsFile {known}\n")
    with pytest.raises(LoginRefused):
        connect(address, config_path=config)


# ---- host keys ----


@pytest.mark.parametrize(
    "more",
    [
        "",
        "  StrictHostKeyChecking no\n",
        "  StrictHostKeyChecking accept-new\n  NoHostAuthenticationForLocalhost yes\n",
        "  CheckHostIP no\n  VerifyHostKeyDNS yes\n  UpdateHostKeys yes\n",
    ],
)
def test_an_unknown_key_is_refused_whatever_the_configuration_says(
    sshd: Sshd, tmp_path: Path, more: str
) -> None:
    known = sshd.known_hosts(tmp_path / "known_hosts", "")
    logins = sshd.log.count("Accepted")
    with pytest.raises(HostKeyRefused) as caught:
        connect(FAR, config_path=sshd.config(tmp_path / "config", known, more=more))
    assert fingerprint(sshd.host_key) in caught.value.message
    assert f"[127.0.0.1]:{sshd.port} is unknown" in caught.value.message
    assert str(known) in caught.value.message
    assert "ssh far" in caught.value.hint and f"ssh-keyscan -p {sshd.port}" in caught.value.hint
    assert caught.value.exit_code == 5
    assert known.read_text() == ""
    assert sshd.log.count("Accepted") == logins


@pytest.mark.parametrize("file", ["none", "/dev/null", "/no/such/file"])
def test_without_known_hosts_file_every_key_is_unknown(sshd: Sshd, tmp_path: Path, file: str) -> None:
    with pytest.raises(HostKeyRefused, match="is unknown"):
        connect(FAR, config_path=sshd.config(tmp_path / "config", Path(file)))


def test_a_changed_key_is_refused_and_its_line_named(sshd: Sshd, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other")
    known = sshd.known_hosts(tmp_path / "known_hosts", "# first line\n" + sshd.known_line(key=other))
    with pytest.raises(HostKeyRefused, match="has CHANGED") as caught:
        connect(FAR, config_path=sshd.config(tmp_path / "config", known))
    assert fingerprint(sshd.host_key) in caught.value.message
    assert f"{known}:2 ({fingerprint(other)})" in caught.value.message
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {known}" in caught.value.hint


def test_a_key_of_another_kind_is_a_changed_one(sshd: Sshd, tmp_path: Path) -> None:
    other = keygen(tmp_path / "other", kind="ecdsa")
    known = sshd.known_hosts(tmp_path / "known_hosts", sshd.known_line(key=other))
    with pytest.raises(HostKeyRefused, match="has CHANGED") as caught:
        connect(FAR, config_path=sshd.config(tmp_path / "config", known))
    assert f"ssh-ed25519 {fingerprint(sshd.host_key)}" in caught.value.message


def test_a_revoked_key_is_refused(sshd: Sshd, tmp_path: Path) -> None:
    text = sshd.known_line() + sshd.known_line("@revoked *")
    known = sshd.known_hosts(tmp_path / "known_hosts", text)
    with pytest.raises(HostKeyRefused, match=f"revoked by {known}:2"):
        connect(FAR, config_path=sshd.config(tmp_path / "config", known))


def test_the_second_file_and_hashed_names_are_read(sshd: Sshd, tmp_path: Path, known: Path) -> None:
    subprocess.run(["ssh-keygen", "-H", "-f", str(known)], check=True, capture_output=True)
    config = sshd.config(tmp_path / "config", Path(f"/no/such/file {known}"))
    with connect(FAR, config_path=config) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"


def test_a_host_key_signed_by_a_known_authority(tmp_path: Path) -> None:
    authority = keygen(tmp_path / "ca")
    keys = tmp_path / "keys"
    keys.mkdir()
    certificate = keys / "host_ed25519-cert.pub"
    with run_sshd(
        keys,
        options={"HostCertificate": str(certificate)},
        prepared=lambda: subprocess.run(
            [
                "ssh-keygen",
                "-q",
                "-s",
                str(authority),
                "-I",
                "x",
                "-h",
                "-n",
                "nas",
                str(keys / "host_ed25519.pub"),
            ],
            check=True,
        ),
    ) as server:
        line = server.known_line("@cert-authority nas", authority)
        known = server.known_hosts(tmp_path / "known_hosts", line)
        named = server.config(tmp_path / "named", known, more="  HostKeyAlias nas\n")
        with connect(FAR, config_path=named) as host:
            assert host.run(["echo", "in"]).stdout == "in\n"
        # The certificate is for another name.
        known.write_text(server.known_line("@cert-authority other", authority))
        other = server.config(tmp_path / "other", known, more="  HostKeyAlias other\n")
        with pytest.raises(HostKeyRefused):
            connect(FAR, config_path=other)


# ---- jumps ----


@pytest.fixture
def jumping(sshd: Sshd, second_sshd: Sshd, tmp_path: Path) -> Path:
    known = tmp_path / "known_hosts"
    known.write_text(sshd.known_line() + second_sshd.known_line())
    config = sshd.config(tmp_path / "config", known, alias="gate")
    return second_sshd.config(config, known, more="  ProxyJump gate\n")


def test_through_a_jump_host(second_sshd: Sshd, sshd: Sshd, jumping: Path) -> None:
    with connect(FAR, config_path=jumping) as host:
        peer, _, _, port = host.run(["sh", "-c", "echo $SSH_CONNECTION"]).stdout.split()
        assert int(port) == second_sshd.port
    end = time.monotonic() + 30
    while f"Close session: user {sshd.user}" not in second_sshd.log and time.monotonic() < end:
        time.sleep(0.05)
    assert peer == "127.0.0.1"


@pytest.mark.parametrize("unknown", ["gate", "far"])
def test_each_hop_must_show_its_own_key(
    sshd: Sshd, second_sshd: Sshd, jumping: Path, tmp_path: Path, unknown: str
) -> None:
    servers = {"gate": sshd, "far": second_sshd}
    # The other's key under this one's name: a jump host that answers in the target's place.
    lines = {name: server.known_line() for name, server in servers.items()}
    other = servers["far" if unknown == "gate" else "gate"]
    lines[unknown] = servers[unknown].known_line(key=other.host_key)
    (tmp_path / "known_hosts").write_text("".join(lines.values()))
    accepted = second_sshd.log.count("Accepted")
    with pytest.raises(HostKeyRefused, match="CHANGED") as caught:
        connect(FAR, config_path=jumping)
    assert fingerprint(servers[unknown].host_key) in caught.value.message
    assert ("gate (ProxyJump)" in caught.value.message) is (unknown == "gate")
    assert second_sshd.log.count("Accepted") == accepted


def test_a_jump_host_that_cannot_reach_the_target(sshd: Sshd, tmp_path: Path, known: Path) -> None:
    config = sshd.config(tmp_path / "config", known, alias="gate")
    with config.open("a") as file:
        file.write(f"Host far\n  HostName 127.0.0.1\n  Port {free_port()}\n  ProxyJump gate\n")
    with pytest.raises(HostUnreachable, match="the jump host could not reach"):
        connect(FAR, config_path=config)


def test_a_proxy_command(sshd: Sshd, tmp_path: Path, known: Path) -> None:
    proxy = tmp_path / "proxy"
    # It also talks on stderr, which is not part of the connection.
    proxy.write_text(
        "import socket,sys,threading,os\nprint('hello', file=sys.stderr, flush=True)\n"
        "s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
        "def up():\n  while d:=os.read(0,65536): s.sendall(d)\n  s.shutdown(1)\n"
        "threading.Thread(target=up,daemon=True).start()\n"
        "while d:=s.recv(65536): os.write(1,d)\n"
    )
    more = f"  ProxyCommand python3 {proxy} %h %p\n"
    with connect(FAR, config_path=sshd.config(tmp_path / "config", known, more=more)) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"


# ---- logging in ----


def test_a_key_that_is_not_authorized_is_refused(sshd: Sshd, tmp_path: Path, known: Path) -> None:
    stranger = keygen(tmp_path / "stranger")
    config = tmp_path / "config"
    config.write_text(f"Host far\n  IdentityFile {stranger}\n  IdentitiesOnly yes\n")
    sshd.config(config, known)
    text = config.read_text().replace(f"  IdentityFile {sshd.user_key}\n", "")
    config.write_text(text)
    with pytest.raises(LoginRefused, match=f"did not let {sshd.user} in: tried {stranger}") as caught:
        connect(FAR, config_path=config)
    assert "never a password" in caught.value.hint


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    while not path.exists():
        time.sleep(0.02)
    yield path
    process.terminate()
    process.wait(10)


@pytest.fixture
def locked(sshd: Sshd, tmp_path: Path) -> Path:
    """The user's key, protected by a passphrase; returns the configuration that names it."""
    key = tmp_path / "locked"
    key.write_bytes(sshd.user_key.read_bytes())
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(key)], check=True)
    known = sshd.known_hosts(tmp_path / "known_hosts")
    config = sshd.config(tmp_path / "config", known)
    config.write_text(
        config.read_text()
        .replace(f"IdentityFile {sshd.user_key}", f"IdentityFile {key}")
        .replace("IdentityAgent none", f"IdentityAgent {tmp_path / 'agent'}")
    )
    return config


def test_a_key_with_a_passphrase_and_no_agent(locked: Path, tmp_path: Path) -> None:
    with pytest.raises(LoginRefused, match=f"{tmp_path / 'locked'} is protected by a passphrase") as caught:
        connect(FAR, config_path=locked)
    assert f"ssh-add {tmp_path / 'locked'}" in caught.value.hint
    assert "the agent at" in caught.value.message


def test_the_agent_has_the_key(sshd: Sshd, locked: Path, agent: Path, tmp_path: Path) -> None:
    add = ["ssh-add", "-q", str(sshd.user_key)]
    subprocess.run(add, check=True, env={**os.environ, "SSH_AUTH_SOCK": str(agent)})
    with connect(FAR, config_path=locked) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"
    # With IdentitiesOnly the agent's key must be one of those that are named.
    locked.write_text(locked.read_text() + "  IdentitiesOnly yes\n")
    (tmp_path / "locked.pub").write_text(keygen(tmp_path / "x").with_suffix(".pub").read_text())
    with pytest.raises(LoginRefused, match="the agent holds 1 key"):
        connect(FAR, config_path=locked)
    (tmp_path / "locked.pub").write_text(sshd.user_key.with_suffix(".pub").read_text())
    with connect(FAR, config_path=locked) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"


# ---- no connection ----


@contextlib.contextmanager
def listening(greeting: bytes = b"") -> Iterator[int]:
    """A port that sends `greeting` and closes, or sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(server.accept()[0])
                    if greeting:
                        kept[-1].sendall(greeting)
                        kept[-1].shutdown(socket.SHUT_WR)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for one in kept:
            one.close()


def empty(path: Path) -> Path:
    path.write_text("")
    return path


def test_an_unknown_host_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostUnreachable, match=r"ssh://no-such-host.invalid: the name .* cannot be resolved"):
        connect(parse_address("ssh://no-such-host.invalid"), config_path=empty(tmp_path / "c"))


def test_a_closed_port_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostUnreachable, match=r"no connection to 127\.0\.0\.1 port \d+: .*refused") as caught:
        connect(parse_address(f"ssh://127.0.0.1:{free_port()}"), config_path=empty(tmp_path / "c"))
    assert "sshd" in caught.value.hint


def test_a_server_that_sends_nothing(tmp_path: Path) -> None:
    with listening() as port, pytest.raises(HostUnreachable, match="in time"):
        connect(parse_address(f"ssh://127.0.0.1:{port}"), config_path=empty(tmp_path / "c"), deadline_s=1)


def test_a_server_that_is_not_ssh(tmp_path: Path) -> None:
    with (
        listening(b"HTTP/1.0 200 OK\r\n\r\n") as port,
        pytest.raises(HostUnreachable, match="no SSH session"),
    ):
        connect(parse_address(f"ssh://127.0.0.1:{port}"), config_path=empty(tmp_path / "c"))


def test_only_the_error_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str], sshd: Sshd) -> None:
    known = sshd.known_hosts(tmp_path / "known_hosts", "")
    with pytest.raises(HostKeyRefused):
        connect(FAR, config_path=sshd.config(tmp_path / "config", known))
    assert capfd.readouterr() == ("", "")


def test_only_ssh_is_reached_over_ssh() -> None:
    with pytest.raises(ValueError, match="local is not reached over SSH"):
        connect(parse_address("local"))


@pytest.mark.parametrize(
    "shell",
    [
        'echo "Welcome!"; eval "$SSH_ORIGINAL_COMMAND"',
        # As fish does: a backslash means something within single quotes.
        'eval "$(printf %s "$SSH_ORIGINAL_COMMAND" | sed \'s/\\\\\\\\/\\\\/g\')"',
        "exit 1",
    ],
)
def test_an_account_whose_shell_changes_arguments(tmp_path: Path, shell: str) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    script = tmp_path / "shell"
    script.write_text(f"#!/bin/sh\n{shell}\n")
    script.chmod(0o755)
    with run_sshd(keys, options={"ForceCommand": str(script)}) as server:
        config = server.config(tmp_path / "config", server.known_hosts(tmp_path / "known_hosts"))
        with pytest.raises(HostError, match="does not get its arguments unchanged"):
            connect(FAR, config_path=config)


# ---- the connection's end ----


def test_a_deadline_kills_a_command_that_ignores_signals(host: SshHost, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    with pytest.raises(DeadlineExceeded):
        host.run(
            ["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 0.2; done", "sh", mark], deadline_s=1.5
        )
    assert gone(mark)


def test_a_silent_connection_is_detected(config: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connecting.KEEPALIVE_S * (connecting.KEEPALIVE_COUNT + 1) == 60
    monkeypatch.setattr(connecting, "KEEPALIVE_S", 0.3)
    monkeypatch.setattr(connecting, "KEEPALIVE_COUNT", 1)
    with connect(FAR, config_path=config) as host:
        session = int(host.run(["sh", "-c", "echo $PPID"]).stdout)
        process = host.start(["sleep", mark])
        assert until(lambda: running(mark))
        os.kill(session, signal.SIGSTOP)
        try:
            with pytest.raises(HostLost, match="not responding to keepalive"):
                process.wait(60)
        finally:
            os.kill(session, signal.SIGCONT)
    assert gone(mark)


def test_a_lost_connection_leaves_the_command_state_unknown(host: SshHost) -> None:
    threading.Timer(0.5, abort, [host]).start()
    with pytest.raises(HostLost, match="broke during `sleep 60`") as caught:
        host.run(["sleep", "60"])
    assert "not known" in caught.value.hint
