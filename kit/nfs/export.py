"""The export on the server and the mounts on the clients.

Nothing here touches a mount point without a deadline: a hard mount of a server that does not answer
hangs whoever looks at it. What is mounted is read from /proc/mounts, which asks no server.
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
# mount.nfs itself gives up after a minute of no answer (retry=1), umount.nfs sooner.
_MOUNT_DEADLINE_S = 180.0
_UNMOUNT_DEADLINE_S = 60.0
_LOOK_DEADLINE_S = 60.0
# The file beside a mount point that was taken out of sight says which volume it was.
_HELD = ".hsp-still-held"
_VOLUMES = "/proc/fs/nfsfs/volumes"


@dataclass(frozen=True)
class Mount:
    """An NFS mount as it is in effect. `options` are those of /proc/mounts."""

    source: str
    target: str
    options: str


def fsid(path: str) -> int:
    """The number that file handles of an export carry. Two exports of a server must not share one.

    The path has the run's id in it, so runs differ; clients of one path are given the same.
    """
    # 0 would make it the root of NFSv4's tree, and 32 bits is what fsid= takes.
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "big") or 1


def export(server: Host, path: str, client_address: str) -> None:
    """Export to one client: synchronous, root squashed. Never to everybody. Safe to do twice."""
    server.run(export_command(path, client_address))


def export_command(path: str, client_address: str) -> list[str]:
    """argv of the export. Raises ConfigError for what may be more than one client."""
    options = f"rw,sync,no_subtree_check,root_squash,fsid={fsid(path)}"
    return ["exportfs", "-o", options, f"{_one_client(client_address)}:{path}"]


def _one_client(address: str) -> str:
    """As exportfs takes it, IPv6 in brackets. Raises ConfigError for what may be more than one host."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        if _HOST_NAME.fullmatch(address):
            return address
        raise ConfigError(
            f"'{address}' is not one client to export to", "give its IP address; never * or a network"
        ) from None
    return f"[{found}]" if found.version == 6 else str(found)


def unexport(server: Host, path: str, client: str) -> None:
    """Take the export to `client` back, until nfsd holds nothing under the path. Raises HostError.

    The kernel flushes its export caches by a time stamp of whole seconds that only goes
    forward: a flush within the second of another one sets it into the future, and expired
    entries, each with a reference to the filesystem, stay until that future has come
    (net/sunrpc/cache.c, cache_purge and cache_clean). So: look, wait, and flush again.
    """
    result = server.run(["exportfs", "-u", f"{_one_client(client)}:{path}"], check=False)
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
    """Whether the path is in one of nfsd's caches, valid or not."""
    return any(
        proc_path.escape(path) in line.split()
        for cache in _CACHES
        for line in server.run(["cat", cache]).stdout.splitlines()
    )


def effective_export(server: Host, path: str) -> list[str]:
    """The lines of `exportfs -v` for the path. Raises HostError if it is open or asynchronous."""
    lines = _export_lines(server.run(["exportfs", "-v"]).stdout, path)
    if not lines:
        raise HostError(
            f"{path} is not exported by {server.name}", "has somebody called exportfs there meanwhile?"
        )
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


def source_of(address: str, path: str) -> str:
    """What a client mounts, from a server's name or address: IPv6 in brackets."""
    return f"[{address}]:{path}" if ":" in address else f"{address}:{path}"


def mount(client: Host, source: str, target: str, version: str, options: tuple[str, ...]) -> Mount:
    """Mount with the kernel client and read back what is in effect; it must be what was asked for.

    Raises HostError, with nothing left mounted, if the server refuses it, if an option is not in
    effect, or if something is mounted at `target` already.
    """
    if _mounted(client, target) is not None:
        raise HostError(f"{client.name}: something is mounted at {target} already", f"umount {target}")
    client.run(["mkdir", "-p", target], deadline_s=_LOOK_DEADLINE_S)
    options = of_family(options, source)
    wanted = ",".join((f"vers={version}", *options))
    try:
        client.run(mount_command(source, target, version, options), deadline_s=_MOUNT_DEADLINE_S)
    except CommandFailed as error:
        said = (error.result.stderr.strip() or error.result.stdout.strip())[-500:]
        raise HostError(
            f"{client.name}: cannot mount {source} with {wanted}: {said}", _why_not(said)
        ) from error
    found = effective_mount(client, target)
    missing = not_in_effect(version, options, found.options)
    if missing:
        unmount(client, target)
        raise HostError(
            f"{client.name}: asked to mount {source} with {' and '.join(missing)}, "
            f"in effect is {found.options}; it was unmounted again",
            "server or client do not do it as the workload's [nfs] table asks; another mount of the same "
            "server shares its connection with this one, and so its settings",
        )
    return found


def mount_command(source: str, target: str, version: str, options: tuple[str, ...]) -> list[str]:
    """argv of the mount."""
    # retry=1: minutes that mount.nfs(8) tries for; the default, 2, is about its own deadline.
    wanted = ",".join((f"vers={version}", *of_family(options, source), "retry=1"))
    return ["mount", "-t", "nfs", "-o", wanted, source, target]


def _why_not(said: str) -> str:
    if "access denied" in said or "No such file" in said:
        return "is it exported, and to this client? `showmount -e SERVER` on the client shows NFSv3's exports"
    if "rotocol not supported" in said or "requested NFS version" in said:
        return "the server does not speak this version: /proc/fs/nfsd/versions on a Linux server"
    if "bad option" in said or "helper program" in said:
        return "is mount.nfs there? Debian and Ubuntu have it in nfs-common"
    if "incorrect mount option" in said or "nvalid argument" in said:
        return "an option that this client or this version of NFS does not know: nfs(5)"
    return "does the server run, and does it answer this client?"


def effective_mount(client: Host, target: str) -> Mount:
    """From the client's /proc/mounts, which does not touch the mount itself. Of several, the topmost."""
    found = _mounted(client, target)
    if found is None or not found[0].startswith("nfs"):
        raise HostError(
            f"{target} is not an NFS mount on {client.name}", "has somebody unmounted it meanwhile?"
        )
    return found[1]


def is_mounted(client: Host, target: str) -> bool:
    """Whether an NFS mount is at `target`, from /proc/mounts."""
    found = _mounted(client, target)
    return found is not None and found[0].startswith("nfs")


def _mounted(client: Host, target: str) -> tuple[str, Mount] | None:
    """Type and mount of what is at `target`."""
    text = client.run(["cat", "/proc/mounts"], deadline_s=_LOOK_DEADLINE_S).stdout
    for line in reversed(text.splitlines()):
        source, point, kind, options = line.split()[:4]
        if point == proc_path.escape(target):
            return kind, Mount(source, target, options)
    return None


def check_file(client: Host, path: str, size_bytes: int) -> None:
    """The file is there, through the mount, and has that size. Raises HostError, also for no answer.

    So a stale handle, another export than was meant and a server that does not answer are found
    before the load is started.
    """
    try:
        answer = client.run(["stat", "--format=%s", "--", path], deadline_s=_LOOK_DEADLINE_S, check=False)
    except DeadlineExceeded as error:
        raise HostError(
            f"{client.name}: {path} does not answer within {_LOOK_DEADLINE_S:g} s",
            "does the NFS server still run, and can this client reach it?",
        ) from error
    if answer.returncode:
        raise HostError(
            f"{client.name}: {answer.stderr.strip()[-300:]}",
            "a stale handle is one of a filesystem that was removed, made anew or exported with another "
            "fsid since it was mounted",
        )
    if answer.stdout.strip() != str(size_bytes):
        raise HostError(
            f"{client.name}: {path} has {answer.stdout.strip()} bytes, expected {size_bytes}",
            "is this the export that was meant?",
        )


def unmount(client: Host, target: str) -> None:
    """Unmount and remove the directory; nothing to do where it is not mounted. Safe to do twice.

    Asks nicely, then has the kernel give up the calls that wait for the server (`-f`), then takes the
    mount out of sight (`-l`). Raises HostError if the client still holds it after that: then nothing
    that it lies on may be removed. Also the next time, until the client was rebooted or the server
    answered.
    """
    said = ""
    # The second -f finds ended what the first one told that its I/O failed.
    for flags in ([], ["-f"], ["-f"], ["-l"]):
        if _mounted(client, target) is None:
            break
        if flags == ["-l"]:
            _note_volume(client, target)
        elif flags:
            client.run(["sleep", "1"], deadline_s=_LOOK_DEADLINE_S)
        try:
            said = client.run(
                ["umount", *flags, target], deadline_s=_UNMOUNT_DEADLINE_S, check=False
            ).stderr.strip()
        except DeadlineExceeded as error:
            said = error.message
    if _mounted(client, target) is not None:
        raise HostError(f"{client.name}: {target} cannot be unmounted: {said[-300:]}", _advice(target))
    _check_not_held(client, target)
    answer = client.run(["rmdir", target], deadline_s=_LOOK_DEADLINE_S, check=False)
    if answer.returncode and "No such file" not in answer.stderr:
        raise CommandFailed(answer)


def _advice(target: str) -> str:
    return (
        "bring the NFS server back, or end what still uses the mount (fuser -vm names it), then `hsp clean`; "
        f"if it still hangs, reboot this client: {target} goes with that. Pool and export stay until then"
    )


def _note_volume(client: Host, target: str) -> None:
    """Write down beneath the mount, to be seen once it is out of sight, which volume it is."""
    # proc(5), mountinfo: identifier, parent, major:minor, root, mount point. Of several, the topmost.
    for line in reversed(client.run(["cat", "/proc/self/mountinfo"]).stdout.splitlines()):
        fields = line.split()
        if fields[4] == proc_path.escape(target):
            # Beside it: what lies at the target itself is the server's as long as it is mounted.
            client.put(fields[2].encode(), _note(target))
            return


def _note(target: str) -> str:
    return f"{target}{_HELD}"


def _check_not_held(client: Host, target: str) -> None:
    """Raises HostError while the client holds a mount that was taken out of sight."""
    note = client.run(["cat", _note(target)], deadline_s=_LOOK_DEADLINE_S, check=False)
    if note.returncode:
        return
    volumes = client.run(["cat", _VOLUMES], deadline_s=_LOOK_DEADLINE_S, check=False).stdout
    if any(note.stdout.strip() in line.split() for line in volumes.splitlines()):
        raise HostError(
            f"{client.name}: {target} is out of sight, but the client still holds it", _advice(target)
        )
    client.run(["rm", "-f", "--", _note(target)])
