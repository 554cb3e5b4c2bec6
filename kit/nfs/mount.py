"""The NFS mounts on the clients: made, read back, removed.

Every access to a mount point has a deadline: on a hard mount it hangs while the server does not
answer. Mounts are read from /proc/mounts, which does not contact the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.config.tables.nfs_options import not_in_effect, of_family, value_of
from kit.core import proc_path
from kit.core.errors import HostError
from kit.hosts.base import Command, CommandFailed, DeadlineExceeded, Host

# mount.nfs(8) retries for one minute; the default of 2 is about our deadline.
_RETRY = "retry=1"
# Without an answer mount.nfs gives up after a minute (retry=1), umount.nfs earlier.
_MOUNT_DEADLINE_S = 180.0
_UNMOUNT_DEADLINE_S = 60.0
_LOOK_DEADLINE_S = 60.0
STATISTICS = "/proc/self/mountstats"


@dataclass(frozen=True)
class ActiveMount:
    """An NFS mount in effect. `options` are those of /proc/mounts."""

    source: str
    target: str
    options: str


def source_of(address: str, path: str) -> str:
    """The mount source of a server's name or address: IPv6 in brackets."""
    return f"[{address}]:{path}" if ":" in address else f"{address}:{path}"


def mount(client: Host, commands: Sequence[Command]) -> ActiveMount:
    """Execute `mount_commands`, and check that all options are in effect.

    Raises HostError, with nothing left mounted, if the server refuses the mount, if an option is not in
    effect, or if the target is already a mount point.
    """
    make_directory, mount_it = commands
    *_, asked, source, target = mount_it.argv
    asked = asked.removesuffix(f",{_RETRY}")
    version, *options = asked.removeprefix("vers=").split(",")
    if _mounted(client, target) is not None:
        raise HostError(f"{client.name}: something is mounted at {target} already", f"umount {target}")
    make_directory.run(client)
    try:
        mount_it.run(client)
    except CommandFailed as error:
        message = (error.result.stderr.strip() or error.result.stdout.strip())[-500:]
        raise HostError(
            f"{client.name}: cannot mount {source} with {asked}: {message}", _mount_hint(message, asked)
        ) from error
    mounted = effective_mount(client, target)
    missing = not_in_effect(version, tuple(options), mounted.options)
    if missing:
        unmount(client, target)
        raise HostError(
            f"{client.name}: asked to mount {source} with {' and '.join(missing)}, "
            f"in effect is {mounted.options}; it was unmounted again",
            "server or client do not support it, or another mount of the same server has other settings: "
            "mounts of one server share a connection",
        )
    if (wanted := value_of("nconnect", asked)) and len(made := transports(client, target)) != int(wanted):
        unmount(client, target)
        raise HostError(
            f"{client.name}: asked to mount {source} with {wanted} connections (nconnect), "
            f"{STATISTICS} has {len(made)}; it was unmounted again",
            "the client's log (dmesg) may say why it could not make all of them",
        )
    return mounted


def mount_commands(
    source: str, target: str, version: str, options: tuple[str, ...]
) -> tuple[Command, Command]:
    """Make the mount point, and mount with the kernel client."""
    option_list = ",".join((f"vers={version}", *of_family(options, source), _RETRY))
    return (
        Command(("mkdir", "-p", target), deadline_s=_LOOK_DEADLINE_S),
        Command(("mount", "-t", "nfs", "-o", option_list, source, target), deadline_s=_MOUNT_DEADLINE_S),
    )


def _mount_hint(message: str, asked: str) -> str:
    if value_of("proto", asked) in ("rdma", "rdma6"):
        return (
            "NFS over RDMA needs, on client and server, a network card with RDMA (`rdma link show`; without "
            "such a card Soft-RoCE: `modprobe rdma_rxe`, `rdma link add rxe0 type rxe netdev DEVICE`), the "
            "module rpcrdma, and a server that listens: `echo rdma 20049 > /proc/fs/nfsd/portlist`"
        )
    if "nconnect" in asked and ("bad option" in message or "ncorrect mount option" in message):
        return "nconnect needs Linux 5.3 or later on the client, and is 1 to 16: `uname -r`"
    if "access denied" in message or "No such file" in message:
        return "is it exported, and to this client? `showmount -e SERVER` on the client shows NFSv3's exports"
    if "rotocol not supported" in message or "requested NFS version" in message:
        return "the server does not speak this version: /proc/fs/nfsd/versions on a Linux server"
    if "bad option" in message or "helper program" in message:
        return "is mount.nfs there? Debian and Ubuntu have it in nfs-common"
    if "incorrect mount option" in message or "nvalid argument" in message:
        return "an option that this client or this version of NFS does not know: nfs(5)"
    return "does the server run, and does it answer this client?"


def effective_mount(client: Host, target: str) -> ActiveMount:
    """The topmost mount at `target`, from the client's /proc/mounts. Raises HostError if it is not NFS."""
    mounted = _mounted(client, target)
    if mounted is None or not mounted[0].startswith("nfs"):
        raise HostError(f"{target} is not an NFS mount on {client.name}", "was it unmounted during the run?")
    return mounted[1]


def transports(client: Host, target: str) -> tuple[str, ...]:
    """Of each connection of the mount at `target`, "tcp", "udp" or "rdma". Raises HostError.

    A line each in /proc/self/mountstats (net/sunrpc/stats.c, rpc_clnt_show_stats). Mounts of one server share
    them: the first mount has set their number.
    """
    text = client.run(["cat", STATISTICS], deadline_s=_LOOK_DEADLINE_S).stdout
    try:
        lines = [line.split() for line in statistics_of(text, target)]
    except LookupError as error:
        raise HostError(f"{STATISTICS} on {client.name} has {error}", "was it unmounted?") from error
    return tuple(fields[1] for fields in lines if fields[:1] == ["xprt:"] and len(fields) > 1)


def statistics_of(text: str, target: str) -> list[str]:
    """The lines of the last mount at `target` in /proc/self/mountstats. Raises LookupError."""
    head = f" mounted on {proc_path.escape(target)} with fstype nfs"
    mounts = [mount.split("\n") for mount in f"\n{text}".split("\ndevice ")[1:]]
    lines = next((mount[1:] for mount in reversed(mounts) if head in mount[0]), None)
    if lines is None:
        raise LookupError(f"no NFS mount at {target}")
    return lines


def is_mounted(client: Host, target: str) -> bool:
    """Whether an NFS mount is at `target`, from /proc/mounts."""
    mounted = _mounted(client, target)
    return mounted is not None and mounted[0].startswith("nfs")


def _mounted(client: Host, target: str) -> tuple[str, ActiveMount] | None:
    """Type and mount of the topmost mount at `target`; None if there is none."""
    text = client.run(["cat", "/proc/mounts"], deadline_s=_LOOK_DEADLINE_S).stdout
    for source, point, kind, options, *_ in reversed(proc_path.rows(text)):
        if point == proc_path.escape(target):
            return kind, ActiveMount(source, target, options)
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
    else:
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
    for fields in reversed(proc_path.rows(client.run(["cat", "/proc/self/mountinfo"]).stdout)):
        if fields[4] == proc_path.escape(target):
            # Beside it: below the target are the server's files as long as it is mounted.
            client.put(fields[2].encode(), _note(target))
            return


def _note(target: str) -> str:
    """The file beside a lazily unmounted mount point that has the volume's device number."""
    return f"{target}.hsp-still-held"


def _check_not_held(client: Host, target: str) -> None:
    """Raises HostError while the client still holds a lazily unmounted volume."""
    note = client.run(["cat", _note(target)], deadline_s=_LOOK_DEADLINE_S, check=False)
    if note.returncode:
        return
    argv = ["cat", "/proc/fs/nfsfs/volumes"]
    volumes = client.run(argv, deadline_s=_LOOK_DEADLINE_S, check=False).stdout
    if any(note.stdout.strip() in line.split() for line in volumes.splitlines()):
        raise HostError(
            f"{client.name}: {target} was unmounted lazily, but the client still holds it", _advice(target)
        )
    client.run(["rm", "-f", "--", _note(target)])
