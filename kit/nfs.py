"""The export on the server and the mounts on the clients."""

from __future__ import annotations

from dataclasses import dataclass

from kit.errors import HostError
from kit.hosts.base import CommandFailed, Host

# In the tests and the lab one server exports one path at a time; any stable number will do.
_FSID = 20090608

_CACHES = ("/proc/net/rpc/nfsd.export/content", "/proc/net/rpc/nfsd.fh/content")
_FLUSH_ATTEMPTS = 15


@dataclass(frozen=True)
class Mount:
    """An NFS mount as it is in effect. `options` are those of /proc/mounts."""

    source: str
    target: str
    options: str


def export(server: Host, path: str, client_address: str) -> None:
    """Export to one client: synchronous, root squashed. Never to everybody."""
    options = f"rw,sync,no_subtree_check,root_squash,fsid={_FSID}"
    server.run(["exportfs", "-o", options, f"{client_address}:{path}"])


def unexport(server: Host, path: str, client_address: str) -> None:
    """Take the export back, until nfsd holds nothing under the path. Raises HostError.

    The kernel flushes its export caches by a time stamp of whole seconds that only goes
    forward: a flush within the second of another one sets it into the future, and expired
    entries, each with a reference to the filesystem, stay until that future has come
    (net/sunrpc/cache.c, cache_purge and cache_clean). So: look, wait, and flush again.
    """
    result = server.run(["exportfs", "-u", f"{client_address}:{path}"], check=False)
    # Any `zfs mount` or `zfs share` re-reads /etc/exports, and drops exports made by hand.
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
        "is it exported once more by somebody else?",
    )


def _held_by_nfsd(server: Host, path: str) -> bool:
    """Whether the path is in one of nfsd's caches, valid or not. (\\040 is a blank, as in fstab.)"""
    written = path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011").replace("\n", "\\012")
    return any(
        written in line.split()
        for cache in _CACHES
        for line in server.run(["cat", cache]).stdout.splitlines()
    )


def effective_export(server: Host, path: str) -> list[str]:
    """The lines of `exportfs -v` for the path. Raises HostError if it is open or asynchronous."""
    lines = _export_lines(server.run(["exportfs", "-v"]).stdout, path)
    if not lines:
        raise HostError(f"{path} is not exported by {server.name}")
    for line in lines:
        client, _, options = line.removeprefix(path).strip().partition("(")
        if client in ("*", "<world>") or "async" in options.rstrip(")").split(","):
            raise HostError(
                f"{server.name} exports {path} as {line}",
                "an asynchronous export acknowledges writes before they are stable, and nobody "
                "but the listed clients may reach the data",
            )
    return lines


def _export_lines(text: str, path: str) -> list[str]:
    """exportfs -v breaks long lines after the path: join them, and pick those of `path`."""
    joined = text.replace("\n\t\t", " ").splitlines()
    return [" ".join(line.split()) for line in joined if line.split() and line.split()[0] == path]


def mount(client: Host, source: str, target: str, version: int, options: tuple[str, ...]) -> Mount:
    """Mount with the kernel client and read back what is in effect. Raises HostError."""
    client.run(["mkdir", "-p", target])
    wanted = ",".join((f"vers={version}", *options))
    client.run(["mount", "-t", "nfs", "-o", wanted, source, target])
    found = effective_mount(client, target)
    in_effect = found.options.split(",")
    for option in (f"vers={version}", *options):
        if option not in in_effect and option != "nolock":
            raise HostError(
                f"{client.name}: asked to mount {source} with {option}, in effect is {found.options}",
                "server or client do not support the option as it is written in the workload",
            )
    return found


def effective_mount(client: Host, target: str) -> Mount:
    """From the client's /proc/mounts, which does not touch the mount itself. Of several, the topmost."""
    for line in reversed(client.run(["cat", "/proc/mounts"]).stdout.splitlines()):
        source, point, kind, options = line.split()[:4]
        if point == target and kind.startswith("nfs"):
            return Mount(source, target, options)
    raise HostError(f"{target} is not an NFS mount on {client.name}")


def unmount(client: Host, target: str) -> None:
    client.run(["umount", target])
    client.run(["rmdir", target])
