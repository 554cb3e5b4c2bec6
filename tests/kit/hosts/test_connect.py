"""kit.hosts.connect with a real OpenSSH server: logins and host keys."""

from __future__ import annotations

import contextlib
import getpass
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
from kit.hosts.base import CommandFailed, HostLost
from kit.hosts.connect import HostUnreachable, LoginRefused, connect
from kit.hosts.known_hosts import HostKeyRefused
from kit.hosts.ssh import SshHost

from .conftest import Sshd, abort, free_port, gone, keygen, run_sshd, running, until, written

pytestmark = pytest.mark.slow

FAR = parse_address("ssh://far")


@pytest.fixture
def known(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


@pytest.fixture
def config(sshd: Sshd, tmp_path: Path) -> Path:
    return sshd.config(tmp_path)


@pytest.fixture
def host(config: Path) -> Iterator[SshHost]:
    with connect(FAR, config_path=config) as opened:
        # Tests of what an ordinary user sees are in test_sudo.py.
        yield opened if isinstance(opened, SshHost) else opened.inner  # type: ignore[misc]


def fingerprint(public: Path) -> str:
    listed = subprocess.run(["ssh-keygen", "-lf", str(public)], capture_output=True, text=True)
    return listed.stdout.split()[1]


def refused(config: Path, match: str, alias: str = "far") -> HostKeyRefused:
    """The error of a host whose key is not accepted."""
    with pytest.raises(HostKeyRefused, match=match) as caught:
        connect(parse_address(f"ssh://{alias}"), config_path=config)
    return caught.value


def accepted(config: Path, alias: str = "far") -> None:
    with connect(parse_address(f"ssh://{alias}"), config_path=config) as host:
        assert host.run(["echo", "in"]).stdout == "in\n"


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
    known.write_text(sshd.known_line())
    with pytest.raises(LoginRefused):
        connect(address, config_path=written(tmp_path / "own", f"UserKnownHostsFile {known}\n"))


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
    sshd: Sshd, tmp_path: Path, known: Path, capfd: pytest.CaptureFixture[str], more: str
) -> None:
    logins = sshd.log.count("Accepted")
    error = refused(sshd.config(tmp_path, "", more=more), rf"\[127.0.0.1\]:{sshd.port} is unknown")
    assert fingerprint(sshd.host_key) in error.message and str(known) in error.message
    login = f"`ssh -F {tmp_path}/config -p {sshd.port} {getpass.getuser()}@far`"
    assert login in error.hint and f"ssh-keyscan -p {sshd.port}" in error.hint
    assert error.exit_code == 5
    assert known.read_text() == ""
    assert sshd.log.count("Accepted") == logins
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kinds", "shown"),
    [(("rsa", "ecdsa", "ed25519"), "ed25519"), (("rsa", "ecdsa"), "ecdsa"), (("rsa",), "rsa")],
)
@pytest.mark.parametrize("line", ["", "[127.0.0.1]:{port} {other}\n"])
def test_the_key_that_ssh_would_show_is_shown_with_the_file_that_has_it(
    tmp_path: Path, kinds: tuple[str, ...], shown: str, line: str
) -> None:
    """Of all keys of a server, in whatever order it has them; for an unknown key and for a changed one."""
    keys = {kind: keygen(tmp_path / f"key_{kind}", kind=kind) for kind in kinds}
    other = " ".join(keygen(tmp_path / "other", kind=shown).with_suffix(".pub").read_text().split()[:2])
    (tmp_path / "sshd").mkdir()
    with run_sshd(
        tmp_path / "sshd", options={"HostKey": "\nHostKey ".join(map(str, keys.values()))}
    ) as server:
        error = refused(server.config(tmp_path, line.format(port=server.port, other=other)), "SSH host key")
    assert fingerprint(keys[shown]) in error.message
    assert f"/etc/ssh/ssh_host_{shown}_key.pub" in error.hint and f"{getpass.getuser()}@far`" in error.hint


@pytest.mark.parametrize("file", ["none", "/dev/null", "/no/such/file"])
def test_without_known_hosts_file_every_key_is_unknown(sshd: Sshd, tmp_path: Path, file: str) -> None:
    refused(sshd.config(tmp_path, files=file), "is unknown")


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_changed_key_is_refused_and_its_line_named(
    sshd: Sshd, tmp_path: Path, known: Path, kind: str
) -> None:
    other = keygen(tmp_path / "other", kind=kind)
    error = refused(sshd.config(tmp_path, "# first line\n" + sshd.known_line(key=other)), "has CHANGED")
    assert f"ssh-ed25519 {fingerprint(sshd.host_key)}" in error.message
    assert f"{known}:2 ({fingerprint(other)})" in error.message
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {known}" in error.hint


def test_a_revoked_key_is_refused(sshd: Sshd, tmp_path: Path, known: Path) -> None:
    lines = sshd.known_line() + sshd.known_line("@revoked *")
    refused(sshd.config(tmp_path, lines), f"revoked by {known}:2")


def test_the_second_file_and_hashed_names_are_read(sshd: Sshd, tmp_path: Path, known: Path) -> None:
    known.write_text(sshd.known_line())
    subprocess.run(["ssh-keygen", "-H", "-f", str(known)], check=True, capture_output=True)
    accepted(sshd.config(tmp_path, files=f"/no/such/file {known}"))


def test_a_host_key_signed_by_a_known_authority(tmp_path: Path) -> None:
    authority = keygen(tmp_path / "ca")
    keys = tmp_path / "keys"
    keys.mkdir()
    sign = f"ssh-keygen -q -s {authority} -I x -h -n nas {keys}/host_ed25519.pub".split()
    with run_sshd(
        keys,
        options={"HostCertificate": f"{keys}/host_ed25519-cert.pub"},
        prepared=lambda: subprocess.run(sign, check=True),
    ) as server:
        line = server.known_line("@cert-authority nas", authority)
        accepted(server.config(tmp_path, line, alias="nas", more="  HostKeyAlias nas\n"), "nas")
        # The certificate is for another name.
        line = server.known_line("@cert-authority other", authority)
        refused(server.config(tmp_path, line, alias="x", more="  HostKeyAlias other\n"), "of other is", "x")


# ---- jumps ----


@pytest.fixture
def jumping(sshd: Sshd, second_sshd: Sshd, tmp_path: Path) -> Path:
    known = sshd.known_line() + second_sshd.known_line()
    sshd.config(tmp_path, known, alias="gate")
    return second_sshd.config(tmp_path, known, more="  ProxyJump gate\n")


def test_through_a_jump_host(second_sshd: Sshd, sshd: Sshd, jumping: Path) -> None:
    with connect(FAR, config_path=jumping) as host:
        peer, _, _, port = host.run(["sh", "-c", "echo $SSH_CONNECTION"]).stdout.split()
        assert int(port) == second_sshd.port
    assert until(lambda: f"Close session: user {sshd.user}" in second_sshd.log)
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
    logins = second_sshd.log.count("Accepted")
    error = refused(jumping, "CHANGED")
    assert fingerprint(servers[unknown].host_key) in error.message
    assert ("gate (ProxyJump)" in error.message) is (unknown == "gate")
    assert second_sshd.log.count("Accepted") == logins


def test_a_jump_host_that_cannot_reach_the_target(sshd: Sshd, tmp_path: Path) -> None:
    config = sshd.config(tmp_path, alias="gate")
    with config.open("a") as file:
        file.write(f"Host far\n  HostName 127.0.0.1\n  Port {free_port()}\n  ProxyJump gate\n")
    with pytest.raises(HostUnreachable, match="the jump host could not reach"):
        connect(FAR, config_path=config)


def test_a_proxy_command(sshd: Sshd, tmp_path: Path) -> None:
    proxy = tmp_path / "proxy"
    # It also talks on stderr, which is not part of the connection.
    proxy.write_text(
        "import socket,sys,threading,os\nprint('hello', file=sys.stderr, flush=True)\n"
        "s=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
        "def up():\n  while d:=os.read(0,65536): s.sendall(d)\n  s.shutdown(1)\n"
        "threading.Thread(target=up,daemon=True).start()\n"
        "while d:=s.recv(65536): os.write(1,d)\n"
    )
    accepted(sshd.config(tmp_path, more=f"  ProxyCommand python3 {proxy} %h %p\n"))


# ---- logging in ----


def test_a_key_that_is_not_authorized_is_refused(sshd: Sshd, tmp_path: Path, config: Path) -> None:
    stranger = keygen(tmp_path / "stranger")
    text = config.read_text().replace(str(sshd.user_key), f"{stranger}\n  IdentitiesOnly yes")
    config.write_text(text)
    with pytest.raises(LoginRefused, match=f"did not let {sshd.user} in: tried {stranger}") as caught:
        connect(FAR, config_path=config)
    assert "never a password" in caught.value.hint


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL)
    # Its socket is there before it listens. 2: it cannot be reached; 1: it has no key.
    asking = {"env": {**os.environ, "SSH_AUTH_SOCK": str(path)}, "capture_output": True, "check": False}
    end = time.monotonic() + 30
    while subprocess.run(["ssh-add", "-l"], **asking).returncode == 2:  # type: ignore[call-overload]
        assert time.monotonic() < end
        time.sleep(0.02)
    yield path
    process.terminate()
    process.wait(60)


@pytest.fixture
def locked(sshd: Sshd, tmp_path: Path, config: Path) -> Path:
    """The user's key, protected by a passphrase; returns the configuration that names it."""
    key = tmp_path / "locked"
    key.write_bytes(sshd.user_key.read_bytes())
    key.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(key)], check=True)
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
    accepted(locked)
    # With IdentitiesOnly the agent's key must be one of those that are named.
    locked.write_text(locked.read_text() + "  IdentitiesOnly yes\n")
    (tmp_path / "locked.pub").write_text(keygen(tmp_path / "x").with_suffix(".pub").read_text())
    with pytest.raises(LoginRefused, match="the agent holds 1 key"):
        connect(FAR, config_path=locked)
    (tmp_path / "locked.pub").write_text(sshd.user_key.with_suffix(".pub").read_text())
    accepted(locked)


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
        for connection in kept:
            connection.close()


def unreachable(tmp_path: Path, at: str, match: str, deadline_s: float = 60) -> HostUnreachable:
    address, config = parse_address(f"ssh://{at}"), written(tmp_path / "c", "")
    with pytest.raises(HostUnreachable, match=match) as caught:
        connect(address, config_path=config, deadline_s=deadline_s)
    return caught.value


def test_an_unknown_host_name_is_an_error(tmp_path: Path) -> None:
    unreachable(tmp_path, "no-such-host.invalid", "no-such-host.invalid: the name .* cannot be resolved")


def test_a_closed_port_is_an_error(tmp_path: Path) -> None:
    error = unreachable(
        tmp_path, f"127.0.0.1:{free_port()}", r"no connection to 127\.0\.0\.1 port \d+: .*refused"
    )
    assert "sshd" in error.hint


@pytest.mark.parametrize(
    ("greeting", "match"), [(b"", "in time"), (b"HTTP/1.0 200 OK\r\n\r\n", "no SSH session")]
)
def test_a_server_that_is_silent_or_not_ssh(tmp_path: Path, greeting: bytes, match: str) -> None:
    with listening(greeting) as port:
        unreachable(tmp_path, f"127.0.0.1:{port}", match, 60 if greeting else 1)


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
    script = written(tmp_path / "shell", f"#!/bin/sh\n{shell}\n")
    script.chmod(0o755)
    with run_sshd(keys, options={"ForceCommand": str(script)}) as server:
        with pytest.raises(HostError, match="does not get its arguments unchanged"):
            connect(FAR, config_path=server.config(tmp_path))


# ---- the connection's end ----


def test_a_silent_connection_is_detected(config: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert connecting.KEEPALIVE_S * (connecting.KEEPALIVE_COUNT + 1) == 60
    monkeypatch.setattr(connecting, "KEEPALIVE_S", 0.5)
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


def test_a_lost_connection_leaves_the_command_state_unknown(host: SshHost, mark: str) -> None:
    lose = threading.Thread(target=lambda: until(lambda: running(mark)) and abort(host))
    lose.start()
    with pytest.raises(HostLost, match=f"broke during `sleep {mark}`") as caught:
        host.run(["sleep", mark])
    lose.join()
    assert "not known" in caught.value.hint
