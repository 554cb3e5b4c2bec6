"""Address of a host in a testbed file: `ssh://[user@]host[:port]`, `local`, `lab` or `none`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Literal

HostKind = Literal["ssh", "local", "lab", "none"]

_SCHEME = "ssh://"
_FORMS = "write ssh://[user@]host[:port], local, lab or none"
# POSIX portable user names, and a trailing `$` as some directory services have.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}\$?")
# A DNS name, an IPv4 address, or an alias of a Host line in the SSH configuration.
_HOST = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?"
)
_ZONE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_PORT = re.compile(r"[0-9]{1,5}")
_HOST_PORT = re.compile(
    r"(?:\[(?P<ipv6>[^\]]*:[^\]]*)\]|(?P<host>(?!\[)[^:]*))(?::(?P<port>(?(ipv6).*|[^:]*)))?", re.DOTALL
)


@dataclass(frozen=True)
class HostAddress:
    """Address of one host. `user` and `port` are None where the SSH configuration decides.

    `host` is a DNS name, an IPv4 or IPv6 address (without brackets) or an alias of the SSH
    configuration; None unless `kind` is ssh. Raises ValueError for an invalid part.
    """

    kind: HostKind
    host: str | None = None
    user: str | None = None
    port: int | None = None

    def __post_init__(self) -> None:
        parts = (self.host, self.user, self.port)
        if _split(str(self)) != (self.kind, *parts):
            raise ValueError(f"{parts!r} are not host, user and port of an address ({self.kind}); {_FORMS}")

    @property
    def name(self) -> str:
        """Name of the host in results."""
        if self.host is None:
            return self.kind
        return self.host if self.port is None else f"{self.host}:{self.port}"

    @property
    def server_address(self) -> str | None:
        """What clients call a server with this address; None where only the host itself can tell."""
        return "127.0.0.1" if self.kind == "local" else self.host

    def __str__(self) -> str:
        """Text form, as in a testbed file; `parse_address` reads it back."""
        if self.kind != "ssh":
            return self.kind
        user = f"{self.user}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        host = self.host or ""
        return f"{_SCHEME}{user}{f'[{host}]' if ':' in host else host}{port}"


def parse_address(text: str) -> HostAddress:
    """Parse an address. Raises ValueError; its message says what to write instead."""
    return HostAddress(*_split(text))


def _split(text: str) -> tuple[HostKind, str | None, str | None, int | None]:
    """Kind, host, user and port of an address. Raises ValueError."""
    keyword: HostKind
    for keyword in ("local", "lab", "none"):
        if text == keyword:
            return keyword, None, None, None
    if not text.startswith(_SCHEME):
        raise ValueError(f"{_quote(text)} is not a host; {_FORMS}")
    user, at, host_port = text[len(_SCHEME) :].rpartition("@")
    if ":" in user:
        # Do not show it: the text after the colon may be a real password.
        raise ValueError(
            "passwords do not belong in a testbed file; the kit uses keys and the SSH agent only: "
            "write ssh://user@host"
        )
    if at and not _USER.fullmatch(user):
        raise ValueError(
            f"{_quote(user)} in {_quote(text)} is not a user's name (letters, digits, `.`, `_`, `-`)"
        )
    for character, part in (("/", "path"), ("?", "query"), ("#", "fragment")):
        if character in host_port:
            raise ValueError(f"{_quote(text)} has a {part}; the address of a host has none: {_FORMS}")
    host, port = _split_host_port(host_port, text)
    return "ssh", host, user if at else None, port


def _split_host_port(host_port: str, text: str) -> tuple[str, int | None]:
    """Host (without brackets) and port of `host`, `host:port`, `[v6]` or `[v6]:port`; `text` is the whole."""
    match = _HOST_PORT.fullmatch(host_port)
    if match is None:
        problem = "an IPv6 address goes in brackets, as in"
        if host_port.startswith("["):
            problem = "the text in brackets is not an IPv6 address; write it as in"
        raise ValueError(f"{_quote(text)}: {problem} ssh://[fd00::1]:22")
    host, port = match["ipv6"] or match["host"], match["port"]
    _check_host(host)
    if port is None:
        return host, None
    if not _PORT.fullmatch(port) or not 1 <= int(port) <= 65535:
        raise ValueError(f"{_quote(port)} in {_quote(text)} is not a port (1 to 65535)")
    return host, int(port)


def _check_host(host: str) -> None:
    if ":" not in host:
        if not _HOST.fullmatch(host):
            raise ValueError(
                f"{_quote(host)} is not the name of a host: letters, digits, `-` and `_`, in parts separated "
                "by `.`, no part starting or ending with `-`; or an IPv6 address in brackets"
            )
        return
    address, percent, zone = host.partition("%")
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        raise ValueError(f"{_quote(host)} is not an IPv6 address") from None
    if percent and not _ZONE.fullmatch(zone):
        raise ValueError(f"{_quote(zone)} after the % of {_quote(host)} is not a network interface")


def _quote(text: str) -> str:
    """`text` in quotes for a message: one line of ASCII, at most 80 characters."""
    return ascii(text if len(text) <= 80 else text[:80] + "...")
