"""kit.hosts.ssh_config: the configuration as OpenSSH reads it."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import pytest

from kit.config.address import parse_address
from kit.core.errors import HostError
from kit.hosts.connect import route
from kit.hosts.ssh_config import parse_settings, read_settings

from .conftest import written

HOME = Path(pwd.getpwuid(os.getuid()).pw_dir)


def test_settings_of_an_alias(tmp_path: Path) -> None:
    file = written(
        tmp_path / "c",
        f"Include {tmp_path}/more\nHost far\n  HostName %h.example.org\n  Port 2222\n  User me\n"
        "  IdentityFile %d/keys/%n_%r\n  IdentitiesOnly yes\n  CertificateFile ~/c\n  AddressFamily inet\n"
        "  UserKnownHostsFile ~/k1 /k2\n  GlobalKnownHostsFile /k3\n",
    )
    written(tmp_path / "more", "Host far\n  BindAddress 127.0.0.9\n")
    observed = read_settings("far", config_path=file)
    assert (observed.hostname, observed.port, observed.user) == ("far.example.org", 2222, "me")
    assert observed.identity_files == (HOME / "keys/far_me",)
    assert observed.certificate_files == (HOME / "c",)
    assert observed.known_hosts == (HOME / "k1", Path("/k2"), Path("/k3"))
    assert (observed.known_name, observed.known_port) == ("far.example.org", 2222)
    assert (observed.identities_only, observed.family, observed.bind) == (True, socket.AF_INET, "127.0.0.9")


def test_the_address_overrides_the_configuration(tmp_path: Path) -> None:
    file = written(tmp_path / "c", "Host far\n  Port 2222\n  User me\n")
    observed = read_settings("far", "you", 22, file)
    assert (observed.user, observed.port) == ("you", 22)


def test_a_host_key_alias_has_no_port(tmp_path: Path) -> None:
    observed = read_settings(
        "far", port=2222, config_path=written(tmp_path / "c", "Host far\n  HostKeyAlias Nas\n")
    )
    assert (observed.known_name, observed.known_port, observed.port) == ("nas", 22, 2222)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", "/agent"),
        ("IdentityAgent none", ""),
        ("IdentityAgent /other", "/other"),
        ("IdentityAgent $OTHER", "/by/name"),
        ("IdentityAgent SSH_AUTH_SOCK", "/agent"),
    ],
)
def test_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: str) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    monkeypatch.setenv("OTHER", "/by/name")
    file = written(tmp_path / "c", f"Host far\n  {line}\n")
    assert read_settings("far", config_path=file).agent == expected


def test_no_known_hosts_file_is_an_empty_list_not_no_check(tmp_path: Path) -> None:
    file = written(tmp_path / "c", "Host far\n  UserKnownHostsFile none\n  GlobalKnownHostsFile none\n")
    assert read_settings("far", config_path=file).known_hosts == ()


def test_tokens_that_older_versions_do_not_expand() -> None:
    text = "user me\nhostname h\nport 22\nuserknownhostsfile ~/.ssh/k %d/l ${X}/m\nproxycommand nc %h %p %%\n"
    observed = parse_settings("n", text, {"X": "/x"})
    assert observed.known_hosts == (HOME / ".ssh/k", HOME / "l", Path("/x/m"))
    assert observed.command == "nc h 22 %"


def test_a_configuration_that_openssh_refuses(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="line 1: Bad configuration option: bogus"):
        read_settings("far", config_path=written(tmp_path / "c", "Bogus yes\n"))
    with pytest.raises(HostError, match="cannot be read"):
        read_settings("far", config_path=tmp_path / "none")


def test_without_ssh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="ssh is not installed"):
        read_settings("far")


def test_jumps_in_their_order(tmp_path: Path) -> None:
    file = written(
        tmp_path / "c",
        "Host far\n  ProxyJump me@a:2200,b\nHost a\n  ProxyJump first\nHost b\n  ProxyJump no\n",
    )
    hops = route(parse_address("ssh://far"), file)
    assert [hop.name for hop in hops] == ["first", "a", "b", "far"]
    assert (hops[1].user, hops[1].port) == ("me", 2200)


@pytest.mark.parametrize(
    ("jump", "name", "user", "port"),
    [
        ("10.0.0.1", "10.0.0.1", None, 22),
        ("me@10.0.0.1:2200", "10.0.0.1", "me", 2200),
        ("me@[fd00::1]:2200", "fd00::1", "me", 2200),
        ("ssh://me@10.0.0.1:2200", "10.0.0.1", "me", 2200),
        ("first,me@10.0.0.1:2200", "10.0.0.1", "me", 2200),
    ],
)
def test_a_jump_host_that_is_an_address(
    tmp_path: Path, jump: str, name: str, user: str | None, port: int
) -> None:
    file = written(tmp_path / "c", f"Host far\n  ProxyJump {jump}\n  CertificateFile /c/%j\n")
    *_, gate, far = route(parse_address("ssh://far"), file)
    assert (gate.hostname, gate.port) == (name, port)
    assert user in (None, gate.user)
    assert far.certificate_files == (Path("/c") / name,)


def test_a_jump_through_itself(tmp_path: Path) -> None:
    file = written(tmp_path / "c", "Host *\n  ProxyJump a,b,c\n")
    with pytest.raises(HostError, match=r"more than 8 jumps|loop"):
        route(parse_address("ssh://far"), file)
