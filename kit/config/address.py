"""Where a host is, as a testbed file says it: `ssh://[user@]host[:port]`, `local`, `lab` or `none`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

HostKind = Literal["ssh", "local", "lab", "none"]

_SCHEME = "ssh://"
_FORMS = "write ssh://[user@]host[:port], local, lab or none"
# The characters of POSIX's portable names, and a `$` at the end as some directories have it.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\$?")
# A DNS name, an IPv4 address, or the alias of a Host line in the SSH configuration.
_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
)
_ZONE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True)
class HostAddress:
    """One host. `user` and `port` are None where the SSH configuration decides.

    `host` is a DNS name, an IPv4 or IPv6 address (without brackets) or an alias of the SSH
    configuration; None unless `kind` is ssh. Raises ValueError for what is none of these.
    """

    kind: HostKind
    host: str | None = None
    user: str | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        if self.kind != "ssh":
            if (self.host, self.user, self.port) != (None, None, None):
                raise ValueError(f"the host {self.kind} has no name, user or port")
            return
        if self.host is None:
            raise ValueError(f"an address without a host; {_FORMS}")
        _check_host(self.host)
        if self.user is not None and not _USER.fullmatch(self.user):
            raise ValueError(f"{_shown(self.user)} is not a user's name (letters, digits, `.`, `_`, `-`)")
        if self.port is not None and not 1 <= self.port <= 65535:
            raise ValueError(f"{self.port} is not a port (1 to 65535)")

    def __str__(self) -> str:
        """The address as it is written in a testbed file; `parse_address` reads it back."""
        if self.kind != "ssh":
            return self.kind
        assert self.host is not None
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        return f"{_SCHEME}{user}{f'[{self.host}]' if ':' in self.host else self.host}{port}"


def parse_address(text: str) -> HostAddress:
    """The host that `text` names. Raises ValueError, whose message says what to write instead."""
    plain: HostKind
    for plain in ("local", "lab", "none"):
        if text == plain:
            return HostAddress(plain)
    if not text.startswith(_SCHEME):
        raise ValueError(f"{_shown(text)} is not a host; {_FORMS}")
    rest = text[len(_SCHEME) :]
    user, at, place = rest.rpartition("@")
    if ":" in user:
        # Not shown: what follows the colon may be a real one.
        raise ValueError(
            "passwords do not belong in a testbed file; the kit uses keys and the SSH agent only: "
            "write ssh://user@host"
        )
    if at and not _USER.fullmatch(user):
        raise ValueError(
            f"{_shown(user)} in {_shown(text)} is not a user's name (letters, digits, `.`, `_`, `-`)"
        )
    for mark, what in (("/", "path"), ("?", "query"), ("#", "fragment")):
        if mark in place:
            raise ValueError(f"{_shown(text)} has a {what}, which an address of a host has not; {_FORMS}")
    host, port = _place(place, text)
    return HostAddress("ssh", host, user if at else None, port)


def _place(place: str, text: str) -> tuple[str, int | None]:
    """Host (without brackets) and port of `host`, `host:port`, `[v6]` or `[v6]:port`."""
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        if not bracket or ":" not in host or (rest and not rest.startswith(":")):
            raise ValueError(f"{_shown(text)}: in brackets goes an IPv6 address, as in ssh://[fd00::1]:22")
        colon, port = rest[:1], rest[1:]
    else:
        if place.count(":") > 1:
            raise ValueError(f"{_shown(text)}: an IPv6 address goes in brackets, as in ssh://[fd00::1]:22")
        host, colon, port = place.partition(":")
    _check_host(host)
    if not colon:
        return host, None
    if not _PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise ValueError(f"{_shown(port)} in {_shown(text)} is not a port (1 to 65535)")
    return host, int(port)


def _check_host(host: str) -> None:
    if ":" not in host:
        if not _HOST.fullmatch(host):
            raise ValueError(
                f"{_shown(host)} is not the name of a host: letters, digits, `-` and `_`, in parts separated "
                "by `.`, no part beginning or ending with `-`; or an IPv6 address in brackets"
            )
        return
    address, percent, zone = host.partition("%")
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        raise ValueError(f"{_shown(host)} is not an IPv6 address") from None
    if percent and not _ZONE.fullmatch(zone):
        raise ValueError(f"{_shown(zone)} is not a network interface, which follows the % of {_shown(host)}")


def _shown(text: str) -> str:
    """`text` for a message: on one line, nothing that a terminal would obey, not endless."""
    return ascii(text if len(text) <= 80 else text[:80] + "...")
