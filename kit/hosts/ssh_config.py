"""The user's SSH configuration for a host, as OpenSSH reads it.

`ssh -G` prints the effective settings without connecting. So Include, Match, aliases, canonical
names and the system's configuration file have their usual effect.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pwd
import re
import socket
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kit.core.errors import HostError
from kit.core.output import say
from kit.hosts.base import CommandFailed
from kit.hosts.local import LocalHost

_DEADLINE_S = 30.0
_BRACKETED_IPV4 = re.compile(r"\[([0-9.]+)\]")
# What ssh(1) or the kit runs, and other files that may have such lines.
_RUNS = re.compile(
    r"""\s*["']?(proxycommand\b|localcommand\b|knownhostscommand\b|pkcs11provider\b|securitykeyprovider\b"""
    r"""|include\b|match\b.*\bexec\b)""",
    re.IGNORECASE,
)
_SHOWN_LINES, _READ_BYTES = 20, 1 << 20
_TOKEN = re.compile(r"%(.)|\$\{([^}]*)\}")


@dataclass(frozen=True)
class SshSettings:
    """Settings of one host. Paths are expanded; files that do not exist are listed, too.

    `known_name`: the name in the known_hosts files; with HostKeyAlias that alias, without a port.
    `agent`: the agent's socket, or empty. `jump`: the ProxyJump list as written. `command`: the
    ProxyCommand. At most one of these two is set. `config_path`: read in place of the user's configuration.
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
    config_path: Path | None = None


def read_settings(
    host: str,
    user: str | None = None,
    port: int | None = None,
    config_path: Path | None = None,
    jump: str | None = None,
) -> SshSettings:
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
    return replace(parse_settings(host, result.stdout, dict(os.environ)), config_path=config_path)


@functools.cache
def show_foreign(path: Path) -> None:
    """Before its first use, show a configuration that others wrote or can change, and what it runs.

    Reading it runs programs (Match exec), as the caller, and so does connecting (ProxyCommand).
    """
    try:
        whose = _foreign(path)
        lines = lines_that_run(path) if whose else []
    except OSError as error:
        whose, lines = f"cannot be looked at ({error.strerror})", []
    if not whose:
        return
    user = pwd.getpwuid(os.geteuid()).pw_name
    say(f"hsp: warning: the SSH configuration {path} {whose}; what it names is run here, as {user}:")
    for line in lines[:_SHOWN_LINES]:
        say(f"  {line}")
    if len(lines) > _SHOWN_LINES:
        say(f"  and {len(lines) - _SHOWN_LINES} more such lines")
    if not lines:
        say("  nothing, in the lines that it has now")


def _foreign(path: Path) -> str:
    """Who else wrote the file or can replace it, as words; "" if only the caller and root can."""
    real = path.resolve()
    for place in dict.fromkeys((real, real.parent, path.absolute().parent)):
        status = place.stat()
        name = "" if place == real else f" is in {place}, which"
        if status.st_uid not in (0, os.geteuid()):
            return f"{name} belongs to {_user_name(status.st_uid)}".strip()
        # The caller's own group is as a rule of one user. In a sticky directory others cannot replace it.
        others = 0o002 if status.st_gid in (0, os.getegid()) else 0o022
        if status.st_mode & others and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
            return f"{name} can be written by others".strip()
    return ""


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"the user {number}"


def lines_that_run(path: Path) -> list[str]:
    """Lines that run a program on this machine, or may bring some in. Raises OSError."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        text = file.read(_READ_BYTES).decode(errors="replace")
    return [line.strip() for line in text.splitlines() if _RUNS.match(line)]


def parse_settings(name: str, text: str, environment: Mapping[str, str]) -> SshSettings:
    """Parse the output of `ssh -G`, and expand `~` and tokens, which older OpenSSH leaves in file names."""
    values: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, _, value = line.strip().partition(" ")
        values.setdefault(key, []).append(value)

    def first(key: str) -> str:
        return _unset(values.get(key, [""])[0])

    hostname, user, port = values["hostname"][0], values["user"][0], int(first("port"))
    alias = first("hostkeyalias")
    # `ssh -G` writes IPv4 addresses in brackets, too, which nothing else understands.
    jump = _BRACKETED_IPV4.sub(r"\1", first("proxyjump"))
    tokens = _tokens(name, hostname, user, port, alias or hostname, _host_of(jump))

    def expanded(text: str) -> str:
        """`text` with %-tokens and ${variables} replaced; unknown ones stay."""
        return _TOKEN.sub(
            lambda match: tokens.get(match[1], match[0]) if match[1] else environment.get(match[2], match[0]),
            text,
        )

    def paths(texts: Iterable[str]) -> tuple[Path, ...]:
        with_home = (re.sub(r"^~(?=/|$)", "%d", text) for text in texts if _unset(text))
        return tuple(Path(expanded(text.strip('"'))) for text in with_home)

    agent = values.get("identityagent", ["SSH_AUTH_SOCK"])[0]
    if agent == "SSH_AUTH_SOCK" or (agent.startswith("$") and not agent.startswith("${")):
        agent = environment.get(agent.removeprefix("$"), "")
    else:
        agent = "".join(map(os.fspath, paths([agent])))
    known_hosts = first("userknownhostsfile").split() + first("globalknownhostsfile").split()
    return SshSettings(
        name=name,
        hostname=hostname,
        port=port,
        user=user,
        known_name=(alias or hostname).lower(),
        known_port=22 if alias else port,
        identity_files=paths(values.get("identityfile", ())),
        certificate_files=paths(values.get("certificatefile", ())),
        identities_only=first("identitiesonly") == "yes",
        agent=agent,
        known_hosts=paths(known_hosts),
        family={"inet": socket.AF_INET, "inet6": socket.AF_INET6}.get(
            first("addressfamily"), socket.AF_UNSPEC
        ),
        bind=first("bindaddress"),
        jump=jump,
        command="" if jump else expanded(first("proxycommand")),
    )


def _host_of(jump: str) -> str:
    """The last jump host, without user and port."""
    last = jump.rpartition(",")[2].rpartition("@")[2]
    return last[1:].partition("]")[0] if last.startswith("[") else last.partition(":")[0]


def _unset(value: str) -> str:
    return "" if value.lower() == "none" else value


def _tokens(name: str, hostname: str, user: str, port: int, known_name: str, jump: str) -> dict[str, str]:
    """Values by the letter of a token of ssh_config(5), TOKENS."""
    account, local_name = pwd.getpwuid(os.getuid()), socket.gethostname()
    return {
        "%": "%",
        "C": hashlib.sha1(f"{local_name}{hostname}{port}{user}{jump}".encode()).hexdigest(),
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
