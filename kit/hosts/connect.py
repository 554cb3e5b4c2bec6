"""Opens the host of an address: this machine, or SSH over TCP with the user's configuration and keys.

asyncssh reads no configuration itself: `ssh -G` does (kit.hosts.ssh_config), and kit.hosts.known_hosts
looks up host keys. Host keys are always checked, also with StrictHostKeyChecking no or
UserKnownHostsFile none. Login is with keys only: the kit never asks for or sends a password.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from kit.config.address import HostAddress, parse_address
from kit.core.errors import ConfigError, HostError
from kit.hosts.base import Host, HostLost, decode
from kit.hosts.known_hosts import HostKeyRefused, KnownKeys, host_key_refused, look_up
from kit.hosts.ssh import SshHost
from kit.hosts.ssh_config import SshSettings, read_settings, show_foreign
from kit.hosts.ssh_identities import Identities
from kit.hosts.sudo import KILLER, SudoHost, local_host
from kit.hosts.supervision import SILENCE_S, Supervision

CONNECT_DEADLINE_S = 60.0
# A dead connection is detected after a minute: three unanswered messages, 15 s apart.
KEEPALIVE_S = 15
KEEPALIVE_COUNT = 3
_MAX_HOPS = 8
# Between two tries to reach a host that is starting.
_AGAIN_S = 2.0
# An argument with all special characters; a login shell that is not a POSIX shell changes it.
_HOSTILE = "-a'b\\' \"$(echo c)\" `echo d` \\\\ ;|&<>*?[x]{y,z}~#! %s\n\t\\n\u00fc\\"
_PROBE = 'id -u && printf %s "$1"'
_PROBE_DEADLINE_S = 60.0

# Otherwise Python prints the library's warnings on stderr.
logging.getLogger("asyncssh").addHandler(logging.NullHandler())


class LoginRefused(HostLost):
    """The host accepted none of the user's keys."""


class HostUnreachable(HostLost):
    """No connection: unknown name, connection refused, or no answer."""


def open_host(
    address: HostAddress, ssh_config: str | None = None, deadline_s: float = CONNECT_DEADLINE_S
) -> Host:
    """Connect to a host. Raises HostLost if that fails, HostError."""
    if address.kind == "local":
        return local_host()
    if address.kind != "ssh":
        raise ConfigError(f"'{address}' is no machine to log in to", "name a testbed with hosts of your own")
    config = Path(ssh_config) if ssh_config else None
    if config:
        show_foreign(config)
    supervision = Supervision(silence_s=_silence_s())
    return connect(address, deadline_s=deadline_s, config_path=config, supervision=supervision)


def open_when_up(opening: Callable[[], Host], within_s: float) -> Host:
    """The host that `opening` connects to, tried again until it is up. Raises what the last try raises."""
    end = time.monotonic() + within_s
    while True:
        try:
            return opening()
        except (HostKeyRefused, LoginRefused):
            raise
        except HostLost:
            if time.monotonic() > end:
                raise
        time.sleep(_AGAIN_S)


def _silence_s() -> int:
    """Seconds without a message after which a host ends its commands. Raises ConfigError.

    HSP_SILENCE_S=0 (never) is for hosts whose clock may run far ahead, such as an emulator's.
    """
    text = os.environ.get("HSP_SILENCE_S", str(SILENCE_S))
    if not re.fullmatch("[0-9]{1,6}", text):
        raise ConfigError(
            f"HSP_SILENCE_S={text!r} in the environment is not a number of seconds",
            "give seconds, such as 60; 0 means never",
        )
    return int(text)


def connect(
    address: HostAddress,
    *,
    deadline_s: float = CONNECT_DEADLINE_S,
    config_path: Path | None = None,
    supervision: Supervision | None = None,
) -> SshHost | SudoHost:
    """Log in to an `ssh://` host. The caller closes it; its commands end with the connection.

    Returns an SshHost for root, else a SudoHost, which runs some programs with sudo.
    `config_path` is read in place of the user's and the system's configuration.

    Raises HostKeyRefused, LoginRefused, HostUnreachable (all HostLost); HostError if the
    configuration cannot be read, or the account's shell is not a POSIX shell.
    """
    if address.kind != "ssh" or address.host is None:
        raise ValueError(f"{address} is not reached over SSH")
    hops = route(address, config_path)
    supervision = supervision or Supervision()
    disconnect_reasons: list[str] = []
    host = SshHost(
        address.host if address.port is None else f"{address.host}:{address.port}",
        lambda: _through(hops, str(address), deadline_s, disconnect_reasons),
        # The connector itself has the deadline and a better message.
        deadline_s + 10,
        lambda: disconnect_reasons[0] if disconnect_reasons else "",
        supervision=supervision,
    )
    try:
        if _user_id(host, hops[-1]) == 0:
            return host
    except BaseException:
        host.close()
        raise
    host.supervision = replace(supervision, killer=KILLER)
    return SudoHost(host)


def route(address: HostAddress, config_path: Path | None = None) -> list[SshSettings]:
    """The hosts to log in to, each through the one before; the target is last. Raises HostError."""
    hops: list[SshSettings] = []
    target: HostAddress | None = address
    jump: str | None = None
    while target is not None:
        assert target.host is not None
        settings = read_settings(target.host, target.user, target.port, config_path, jump)
        hops.insert(0, settings)
        if len(hops) > _MAX_HOPS:
            chain = " -> ".join(hop.name for hop in hops)
            raise HostError(
                f"{address}: more than {_MAX_HOPS} jumps ({chain})",
                "does a ProxyJump in the SSH configuration also match the jump host itself?",
            )
        before, _, last = settings.jump.rpartition(",")
        try:
            target = parse_address(f"ssh://{last.removeprefix('ssh://')}") if last else None
        except ValueError as error:
            raise HostError(
                f"{address}: ProxyJump {settings.jump} in the SSH configuration: {error}",
                "hosts are written as user@host:port there",
            ) from error
        jump = before or None
    return hops


async def _through(
    hops: Sequence[SshSettings], address: str, deadline_s: float, disconnect_reasons: list[str]
) -> asyncssh.SSHClientConnection:
    """Open all connections and return the last one; its end closes the others.

    If an open connection breaks, the reason is added to `disconnect_reasons`.
    """
    end = asyncio.get_running_loop().time() + deadline_s
    tunnel: asyncssh.SSHClientConnection | None = None
    try:
        for hop in hops:
            where = f"{address}: " if hop is hops[-1] else f"{address}: at {hop.name} (ProxyJump): "
            left = end - asyncio.get_running_loop().time()
            connection = await _hop(hop, tunnel, where, left, disconnect_reasons)
            if tunnel is not None:
                connection.set_tunnel(tunnel)
            tunnel = connection
    except BaseException:
        if tunnel is not None:
            tunnel.abort()
        raise
    assert tunnel is not None
    return tunnel


async def _hop(
    hop: SshSettings,
    tunnel: asyncssh.SSHClientConnection | None,
    where: str,
    left_s: float,
    disconnect_reasons: list[str],
) -> asyncssh.SSHClientConnection:
    endpoint = f"{hop.hostname} port {hop.port}"
    known = look_up(hop.known_hosts, hop.known_name, hop.known_port)
    client = _Client(disconnect_reasons)
    try:
        async with asyncio.timeout(left_s), Identities(hop) as identities:
            try:
                return await _login(hop, tunnel, known, client, identities)
            except asyncssh.PermissionDenied as error:
                raise LoginRefused(
                    f"{where}{endpoint} did not let {hop.user} in: {identities.tried()}", identities.advice()
                ) from error
    except TimeoutError as error:
        raise HostUnreachable(
            f"{where}no SSH connection to {endpoint} in time",
            "is the machine up, and does a firewall answer?",
        ) from error
    except asyncssh.HostKeyNotVerifiable as error:
        raise host_key_refused(where, hop, known, client.shown, str(error)) from error
    except socket.gaierror as error:
        raise HostUnreachable(
            f"{where}the name {hop.hostname} cannot be resolved ({error.strerror})",
            "a typing error, a missing HostName in the SSH configuration, or no name server",
        ) from error
    except asyncssh.ChannelOpenError as error:
        raise HostUnreachable(
            f"{where}the jump host could not reach {endpoint}: {error.reason}",
            "it must know the name, and its sshd must allow forwarding (AllowTcpForwarding)",
        ) from error
    except OSError as error:
        raise HostUnreachable(
            f"{where}no connection to {endpoint}: {os.strerror(error.errno) if error.errno else error}",
            "is the machine up, and does its sshd listen there?",
        ) from error
    except asyncssh.Error as error:
        raise HostUnreachable(f"{where}no SSH session with {endpoint}: {error.reason}") from error


async def _login(
    hop: SshSettings,
    tunnel: asyncssh.SSHClientConnection | None,
    known: KnownKeys,
    client: _Client,
    identities: Identities,
) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(
        hop.hostname,
        hop.port,
        tunnel=tunnel,
        # asyncssh would read the command's stderr as SSH data, and take its closing for the end.
        proxy_command=["/bin/sh", "-c", f"exec 9>&2 2>/dev/null; exec {hop.command}"]
        if hop.command
        else None,
        family=hop.family,
        local_addr=(hop.bind, 0) if hop.bind else None,
        config=None,
        client_factory=lambda: client,
        # Never None, which would accept any key.
        known_hosts=(known.keys(""), known.keys("cert-authority"), known.keys("revoked")),
        host_key_alias=hop.known_name,
        server_host_key_algs=_algorithms(known),
        x509_trusted_certs=None,
        username=hop.user,
        client_keys=identities.keys or None,
        agent_path=None,
        preferred_auth="publickey",
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
        gss_auth=False,
        gss_kex=False,
        compression_algs=None,
        login_timeout=0,
        connect_timeout=None,
        keepalive_interval=KEEPALIVE_S,
        keepalive_count_max=KEEPALIVE_COUNT,
    )


class _Client(asyncssh.SSHClient):
    """Refuses all keys that are not in known_hosts; `shown` is the host's key, for the message."""

    def __init__(self, disconnect_reasons: list[str]) -> None:
        self.shown: asyncssh.SSHKey | None = None
        self._ended = disconnect_reasons

    def connection_lost(self, exc: Exception | None) -> None:
        if exc:
            self._ended.append(str(exc))

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.shown = key
        return False

    validate_host_ca_key = validate_host_public_key


def _algorithms(known: KnownKeys) -> list[str]:
    """Host key algorithms in order: those of known keys, then all others, whose keys are then refused."""
    preferred = [algorithm for key in known.keys("") for algorithm in key.sig_algorithms]
    if known.keys("cert-authority"):
        preferred = [*get_default_certificate_algs(), *preferred]
    others = sorted(get_default_public_key_algs(), key=_openssh_rank)
    return [name.decode() for name in dict.fromkeys([*preferred, *others])]


def _openssh_rank(algorithm: bytes) -> int:
    """The place in OpenSSH's order of host keys (myproposal.h): a person compares what `ssh` shows."""
    order = (b"ssh-ed25519", *(b"ecdsa-sha2-nistp%d" % bits for bits in (256, 384, 521)), b"rsa-sha2-512")
    return order.index(algorithm) if algorithm in order else len(order)


def _user_id(host: SshHost, hop: SshSettings) -> int:
    """The user id of commands. Raises HostError if arguments do not arrive unchanged."""
    code, stdout, stderr = host.output(("sh", "-c", _PROBE, "sh", _HOSTILE), deadline_s=_PROBE_DEADLINE_S)
    number, _, arguments = stdout.partition(b"\n")
    if code == 0 and number.isdigit() and arguments == _HOSTILE.encode():
        return int(number)
    output = ascii(decode(stderr or stdout).strip()[:200])
    raise HostError(
        f"{host.name}: a command run as {hop.user} does not get its arguments unchanged ({output})",
        f"the login shell of {hop.user} must be a POSIX shell (sh, bash, dash, zsh), and its start-up files "
        "must print nothing; see `getent passwd` and ~/.bashrc there, or log in as another user",
    )
