"""The user's SSH configuration for a host, as OpenSSH reads it.

`ssh -G` prints the effective settings without connecting. So Include, Match, aliases, canonical
names and the system's configuration file have their usual effect.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import HostError
from kit.hosts.base import CommandFailed
from kit.hosts.local import LocalHost

_DEADLINE_S = 30.0
_LISTS = ("identityfile", "certificatefile")
_BRACKETED_IPV4 = re.compile(r"\[([0-9.]+)\]")
_TOKEN = re.compile(r"%(.)|\$\{([^}]*)\}")


@dataclass(frozen=True)
class Settings:
    """Settings of one host. Paths are expanded; files that do not exist are listed, too.

    `known_name`: the name in the known_hosts files; with HostKeyAlias that alias, without a port.
    `agent`: the agent's socket, or empty. `jump`: the ProxyJump list as written. `command`: the
    ProxyCommand. At most one of these two is set.
    """

    name: str
    hostname: str
    port: int
    user: str
    known_name: str
    known_port: int
    identity_files: tuple[Path, ...]
    certificate_files: tuple[Path, ...]
    identities_only: bool
    agent: str
    known_hosts: tuple[Path, ...]
    family: int
    bind: str
    jump: str
    command: str


def read_settings(
    host: str,
    user: str | None = None,
    port: int | None = None,
    config_path: Path | None = None,
    jump: str | None = None,
) -> Settings:
    """Run `ssh -G`. `jump` replaces the configuration's ProxyJump ("none": no jump).

    Raises HostError if ssh is not installed, or OpenSSH refuses the configuration.
    """
    argv = ["ssh", "-G"]
    argv += ["-F", os.fspath(config_path)] if config_path else []
    argv += ["-l", user] if user else []
    argv += ["-p", str(port)] if port else []
    argv += ["-o", f"ProxyJump={jump}"] if jump else []
    try:
        result = LocalHost("this machine").run([*argv, host], deadline_s=_DEADLINE_S)
    except CommandFailed as error:
        if error.result.returncode == 127:
            raise HostError(
                "ssh is not installed on this machine; the kit reads the SSH configuration with it",
                "install it: apt-get install openssh-client",
            ) from error
        messages = [
            line for line in error.result.stderr.splitlines() if not line.startswith("Pseudo-terminal")
        ]
        raise HostError(
            f"the SSH configuration for {host} cannot be read: {'; '.join(messages)}",
            f"`ssh -G {host}` shows the same message; correct the file that it names",
        ) from error
    return parse_settings(host, result.stdout, dict(os.environ))


def parse_settings(name: str, text: str, environment: Mapping[str, str]) -> Settings:
    """Parse the output of `ssh -G`."""
    single: dict[str, str] = {}
    several: dict[str, list[str]] = {key: [] for key in _LISTS}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        if key in several:
            several[key].append(value)
        else:
            single.setdefault(key, value)
    hostname, user, port = single["hostname"], single["user"], int(single["port"])
    alias = _unset(single.get("hostkeyalias", ""))
    # `ssh -G` writes IPv4 addresses in brackets, too, which nothing else understands.
    jump = _BRACKETED_IPV4.sub(r"\1", _unset(single.get("proxyjump", "")))
    command = _unset(single.get("proxycommand", ""))
    expand = _Expansion(name, hostname, user, port, alias or hostname, _host_of(jump), environment)
    files = f"{single.get('userknownhostsfile', '')} {single.get('globalknownhostsfile', '')}"
    return Settings(
        name=name,
        hostname=hostname,
        port=port,
        user=user,
        known_name=(alias or hostname).lower(),
        known_port=22 if alias else port,
        identity_files=tuple(expand.path(file) for file in several["identityfile"] if _unset(file)),
        certificate_files=tuple(expand.path(file) for file in several["certificatefile"] if _unset(file)),
        identities_only=single.get("identitiesonly") == "yes",
        agent=_agent(single.get("identityagent"), expand, environment),
        known_hosts=tuple(expand.path(file) for file in files.split() if _unset(file)),
        family={"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(
            single.get("addressfamily", "any"), socket.AF_UNSPEC
        ),
        bind=_unset(single.get("bindaddress", "")),
        jump=jump,
        command="" if jump else expand.tokens(command),
    )


def _host_of(jump: str) -> str:
    """The last jump host, without user and port."""
    last = jump.rpartition(",")[2].rpartition("@")[2]
    return last[1:].partition("]")[0] if last.startswith("[") else last.partition(":")[0]


def _unset(value: str) -> str:
    return "" if value.lower() == "none" else value


def _agent(value: str | None, expand: _Expansion, environment: Mapping[str, str]) -> str:
    if value is None or value == "SSH_AUTH_SOCK":
        return environment.get("SSH_AUTH_SOCK", "")
    if value.startswith("$") and not value.startswith("${"):
        return environment.get(value[1:], "")
    return os.fspath(expand.path(value)) if _unset(value) else ""


class _Expansion:
    """Expands the tokens of ssh_config(5), TOKENS, and `~`; older OpenSSH prints file names unexpanded."""

    def __init__(
        self,
        name: str,
        hostname: str,
        user: str,
        port: int,
        known_name: str,
        jump: str,
        environment: Mapping[str, str],
    ) -> None:
        account = pwd.getpwuid(os.getuid())
        local_name = socket.gethostname()
        digest = hashlib.sha1(f"{local_name}{hostname}{port}{user}{jump}".encode()).hexdigest()
        self._home = account.pw_dir
        self._environment = environment
        self._values = {
            "%": "%",
            "C": digest,
            "d": account.pw_dir,
            "h": hostname,
            "i": str(os.getuid()),
            "j": jump,
            "k": known_name,
            "L": local_name.partition(".")[0],
            "l": local_name,
            "n": name,
            "p": str(port),
            "r": user,
            "u": account.pw_name,
        }

    def tokens(self, text: str) -> str:
        """`text` with %-tokens and ${variables} replaced; unknown ones stay."""

        def value(match: re.Match[str]) -> str:
            if match[1] is not None:
                return self._values.get(match[1], match[0])
            return self._environment.get(match[2], match[0])

        return _TOKEN.sub(value, text)

    def path(self, text: str) -> Path:
        if text == "~" or text.startswith("~/"):
            text = self._home + text[1:]
        return Path(self.tokens(text.strip('"')))
