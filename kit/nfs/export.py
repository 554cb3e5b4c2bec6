"""The export on the server and the mounts on the clients.

Every access to a mount point has a deadline: on a hard mount it hangs while the server does not
answer. Mounts are read from /proc/mounts, which does not contact the server.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass

from kit.config.nfs_options import not_in_effect, of_family
from kit.core import proc_path
from kit.core.errors import ConfigError, HostError
from kit.hosts.base import CommandFailed, DeadlineExceeded, Host

_CACHES = ("/proc/net/rpc/nfsd.export/content", "/proc/net/rpc/nfsd.fh/content")
_FLUSH_ATTEMPTS = 15
# One host: no wildcard, network, netgroup or list (exports(5)).
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252})")
# Without an answer mount.nfs gives up after a minute (retry=1), umount.nfs earlier.
_MOUNT_DEADLINE_S = 180.0
_UNMOUNT_DEADLINE_S = 60.0
_LOOK_DEADLINE_S = 60.0
# The file beside a lazily unmounted mount point that has the volume's device number.
_HELD = ".hsp-still-held"
_VOLUMES = "/proc/fs/nfsfs/volumes"


@dataclass(frozen=True)
class Mount:
    """An NFS mount in effect. `options` are those of /proc/mounts."""

    source: str
    target: str
    options: str


def fsid(path: str) -> int:
    """The fsid of an export: different for different exports, the same for all clients of a path.

    The path contains the run's id.
    """
    # fsid= has 32 bits, and 0 means the root of NFSv4's tree.
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "big") or 1


def export(server: Host, path: str, client_address: str) -> None:
    """Export to one client, synchronous and with root squashed. Safe to call twice."""
    server.run(export_command(path, client_address))


def export_command(path: str, client_address: str) -> list[str]:
    """argv of the export. Raises ConfigError if the address is not a single client."""
    options = f"rw,sync,no_subtree_check,root_squash,fsid={fsid(path)}"
    return ["exportfs", "-o", options, f"{_client(client_address)}:{path}"]


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
        proc_path.escape(path) in line.split()
        for cache in _CACHES
        for line in server.run(["cat", cache]).stdout.splitlines()
    )


def effective_export(server: Host, path: str) -> list[str]:
    """The lines of `exportfs -v` for the path. Raises HostError if one is open to all or asynchronous."""
    lines = _export_lines(server.run(["exportfs", "-v"]).stdout, path)
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


def _export_lines(text: str, path: str) -> list[str]:
    """The lines of `path`. exportfs -v breaks long lines after the path; they are joined."""
    joined = text.replace("\n\t\t", " ").splitlines()
    return [" ".join(line.split()) for line in joined if line.split() and line.split()[0] == path]


def source_of(address: str, path: str) -> str:
    """The mount source of a server's name or address: IPv6 in brackets."""
    return f"[{address}]:{path}" if ":" in address else f"{address}:{path}"


def mount(client: Host, source: str, target: str, version: str, options: tuple[str, ...]) -> Mount:
    """Mount with the kernel client, and check that all options are in effect.

    Raises HostError, with nothing left mounted, if the server refuses the mount, if an option is not in
    effect, or if `target` is already a mount point.
    """
    if _mounted(client, target) is not None:
        raise HostError(f"{client.name}: something is mounted at {target} already", f"umount {target}")
    make_directory, mount_it = mount_commands(source, target, version, options)
    client.run(make_directory, deadline_s=_LOOK_DEADLINE_S)
    options = of_family(options, source)
    asked_options = ",".join((f"vers={version}", *options))
    try:
        client.run(mount_it, deadline_s=_MOUNT_DEADLINE_S)
    except CommandFailed as error:
        message = (error.result.stderr.strip() or error.result.stdout.strip())[-500:]
        raise HostError(
            f"{client.name}: cannot mount {source} with {asked_options}: {message}", _mount_hint(message)
        ) from error
    mounted = effective_mount(client, target)
    missing = not_in_effect(version, options, mounted.options)
    if missing:
        unmount(client, target)
        raise HostError(
            f"{client.name}: asked to mount {source} with {' and '.join(missing)}, "
            f"in effect is {mounted.options}; it was unmounted again",
            "server or client do not support it, or another mount of the same server has other settings: "
            "mounts of one server share a connection",
        )
    return mounted


def mount_commands(source: str, target: str, version: str, options: tuple[str, ...]) -> list[list[str]]:
    """argv of making the mount point, and of the mount."""
    # retry=1: mount.nfs(8) retries for one minute; the default of 2 is about our deadline.
    option_list = ",".join((f"vers={version}", *of_family(options, source), "retry=1"))
    return [["mkdir", "-p", target], ["mount", "-t", "nfs", "-o", option_list, source, target]]


def _mount_hint(message: str) -> str:
    if "access denied" in message or "No such file" in message:
        return "is it exported, and to this client? `showmount -e SERVER` on the client shows NFSv3's exports"
    if "rotocol not supported" in message or "requested NFS version" in message:
        return "the server does not speak this version: /proc/fs/nfsd/versions on a Linux server"
    if "bad option" in message or "helper program" in message:
        return "is mount.nfs there? Debian and Ubuntu have it in nfs-common"
    if "incorrect mount option" in message or "nvalid argument" in message:
        return "an option that this client or this version of NFS does not know: nfs(5)"
    return "does the server run, and does it answer this client?"


def effective_mount(client: Host, target: str) -> Mount:
    """The topmost mount at `target`, from the client's /proc/mounts. Raises HostError if it is not NFS."""
    mounted = _mounted(client, target)
    if mounted is None or not mounted[0].startswith("nfs"):
        raise HostError(f"{target} is not an NFS mount on {client.name}", "was it unmounted during the run?")
    return mounted[1]


def is_mounted(client: Host, target: str) -> bool:
    """Whether an NFS mount is at `target`, from /proc/mounts."""
    mounted = _mounted(client, target)
    return mounted is not None and mounted[0].startswith("nfs")


def _mounted(client: Host, target: str) -> tuple[str, Mount] | None:
    """Type and mount of the topmost mount at `target`; None if there is none."""
    text = client.run(["cat", "/proc/mounts"], deadline_s=_LOOK_DEADLINE_S).stdout
    for line in reversed(text.splitlines()):
        source, point, kind, options = line.split()[:4]
        if point == proc_path.escape(target):
            return kind, Mount(source, target, options)
    return None


def check_file(client: Host, path: str, size_bytes: int) -> None:
    """Check that the file exists through the mount and has that size. Raises HostError, also on a timeout.

    Detects a stale handle, a wrong export and a server that does not answer before the load starts.
    """
    try:
        result = client.run(["stat", "--format=%s", "--", path], deadline_s=_LOOK_DEADLINE_S, check=False)
    except DeadlineExceeded as error:
        raise HostError(
            f"{client.name}: {path} does not answer within {_LOOK_DEADLINE_S:g} s",
            "does the NFS server still run, and can this client reach it?",
        ) from error
    if result.returncode:
        raise HostError(
            f"{client.name}: {result.stderr.strip()[-300:]}",
            "a stale handle means: the filesystem was removed, recreated or exported with another fsid "
            "after it was mounted",
        )
    if result.stdout.strip() != str(size_bytes):
        raise HostError(
            f"{client.name}: {path} has {result.stdout.strip()} bytes, expected {size_bytes}",
            "is this the intended export?",
        )


def unmount(client: Host, target: str) -> None:
    """Unmount and remove the directory, if it is mounted. Safe to call twice.

    First a plain umount, then `-f` (the kernel aborts calls that wait for the server), then `-l` (lazy).
    Raises HostError if the client still holds the mount after that, now and at later calls, until the
    client was rebooted or the server answered: pool and export must not be removed before.
    """
    message = ""
    # The first -f makes waiting I/O fail; the second one unmounts.
    for flags in ([], ["-f"], ["-f"], ["-l"]):
        if _mounted(client, target) is None:
            break
        if flags == ["-l"]:
            _note_volume(client, target)
        elif flags:
            client.run(["sleep", "1"], deadline_s=_LOOK_DEADLINE_S)
        try:
            message = client.run(
                ["umount", *flags, target], deadline_s=_UNMOUNT_DEADLINE_S, check=False
            ).stderr.strip()
        except DeadlineExceeded as error:
            message = error.message
    if _mounted(client, target) is not None:
        raise HostError(f"{client.name}: {target} cannot be unmounted: {message[-300:]}", _advice(target))
    _check_not_held(client, target)
    result = client.run(["rmdir", target], deadline_s=_LOOK_DEADLINE_S, check=False)
    if result.returncode and "No such file" not in result.stderr:
        raise CommandFailed(result)


def _advice(target: str) -> str:
    return (
        "bring the NFS server back, or end what still uses the mount (fuser -vm names it), then `hsp clean`; "
        f"if it still hangs, reboot this client: {target} goes with that. Pool and export stay until then"
    )


def _note_volume(client: Host, target: str) -> None:
    """Write the volume's device number into a file beside the mount point, before the lazy unmount."""
    # proc(5), mountinfo: identifier, parent, major:minor, root, mount point. Of several, the topmost.
    for line in reversed(client.run(["cat", "/proc/self/mountinfo"]).stdout.splitlines()):
        fields = line.split()
        if fields[4] == proc_path.escape(target):
            # Beside it: below the target are the server's files as long as it is mounted.
            client.put(fields[2].encode(), _note(target))
            return


def _note(target: str) -> str:
    return f"{target}{_HELD}"


def _check_not_held(client: Host, target: str) -> None:
    """Raises HostError while the client still holds a lazily unmounted volume."""
    note = client.run(["cat", _note(target)], deadline_s=_LOOK_DEADLINE_S, check=False)
    if note.returncode:
        return
    volumes = client.run(["cat", _VOLUMES], deadline_s=_LOOK_DEADLINE_S, check=False).stdout
    if any(note.stdout.strip() in line.split() for line in volumes.splitlines()):
        raise HostError(
            f"{client.name}: {target} was unmounted lazily, but the client still holds it", _advice(target)
        )
    client.run(["rm", "-f", "--", _note(target)])
