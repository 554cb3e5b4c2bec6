"""The export on the server: synchronous, and to one client at a time."""

from __future__ import annotations

import hashlib
import ipaddress
import re

from kit.core import proc_path
from kit.core.errors import ConfigError, HostError
from kit.hosts.base import Command, CommandFailed, Host

_CACHES = ("/proc/net/rpc/nfsd.export/content", "/proc/net/rpc/nfsd.fh/content")
_FLUSH_ATTEMPTS = 15
# One host: no wildcard, network, netgroup or list (exports(5)).
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})")


def fsid(path: str) -> int:
    """The fsid of an export: different for different exports, the same for all clients of a path.

    The path contains the run's id.
    """
    # fsid= has 32 bits, and 0 means the root of NFSv4's tree.
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "big") or 1


def export_command(path: str, client_address: str) -> Command:
    """Export to one client, synchronous and with root squashed. Safe to execute twice.

    Raises ConfigError if the address is not a single client.
    """
    options = f"rw,sync,no_subtree_check,root_squash,fsid={fsid(path)}"
    return Command(("exportfs", "-o", options, f"{_client(client_address)}:{path}"))


def single_host(address: str) -> str | None:
    """The name or address of one host for exportfs and URLs, IPv6 in brackets; None for anything else."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address if _HOST_NAME.fullmatch(address) else None
    return f"[{ip}]" if ip.version == 6 else str(ip)


def _client(address: str) -> str:
    """The client for exportfs. Raises ConfigError if the address is not a single host."""
    if host := single_host(address):
        return host
    raise ConfigError(
        f"'{address}' is not one client to export to", "give its IP address; never * or a network"
    )


def unexport_command(path: str, client: str) -> list[str]:
    """argv of taking the export back."""
    return ["exportfs", "-u", f"{_client(client)}:{path}"]


def unexport(server: Host, path: str, client: str) -> None:
    """Remove the export to `client`, and wait until nfsd's caches have no entry of the path.

    Raises HostError.

    The kernel flushes its export caches with a time stamp in whole seconds. A second flush in the same
    second sets the time stamp into the future, and until then expired entries keep a reference to the
    filesystem (net/sunrpc/cache.c, cache_purge and cache_clean). So: check, wait, and flush again.
    """
    result = server.run(unexport_command(path, client), check=False)
    # Any `zfs mount` or `zfs share` re-reads /etc/exports and removes exports made by exportfs.
    if result.returncode and "Could not find" not in result.stderr:
        raise CommandFailed(result)
    for _ in range(_FLUSH_ATTEMPTS):
        if not _held_by_nfsd(server, path):
            return
        # Longer than the second by which each flush moves the time stamp.
        server.run(["sleep", "2"])
        server.run(["exportfs", "-f"])
    raise HostError(
        f"nfsd on {server.name} still holds {path} after {_FLUSH_ATTEMPTS} flushes of its export caches",
        "is the path exported a second time?",
    )


def _held_by_nfsd(server: Host, path: str) -> bool:
    """Whether one of nfsd's caches has an entry of the path, valid or expired."""
    return any(
        proc_path.escape(path) in fields
        for cache in _CACHES
        for fields in proc_path.rows(server.run(["cat", cache]).stdout)
    )


def lines_of(server: Host, path: str) -> list[str]:
    """The lines of `exportfs -v` for the path."""
    # Long lines are broken after the path.
    rows = server.run(["exportfs", "-v"]).stdout.replace("\n\t\t", " ").splitlines()
    return [" ".join(row.split()) for row in rows if row.split()[:1] == [path]]


def effective_export(server: Host, path: str) -> list[str]:
    """As `lines_of`. Raises HostError if there is none, or if one is open to all or asynchronous."""
    lines = lines_of(server, path)
    if not lines:
        raise HostError(
            f"{path} is not exported by {server.name}", "was exportfs called on the server during the run?"
        )
    for line in lines:
        client, _, options = line.removeprefix(path).strip().partition("(")
        if client in ("*", "<world>") or "async" in options.rstrip(")").split(","):
            raise HostError(
                f"{server.name} exports {path} as {line}",
                "an asynchronous export acknowledges writes before they are stable, and only the listed "
                "clients may access the data",
            )
    return lines
