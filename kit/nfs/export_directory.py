"""A run's own directory in an export of an appliance: created, filled and removed.

All commands run through the mount of one client, so each has a deadline.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace

from kit.core.errors import HostError, SafetyRefusal
from kit.core.seed import RUN_ID
from kit.core.units import format_binary_bytes
from kit.hosts.base import Command, CommandFailed, CommandResult, Host
from kit.load import fio, ordinary_user
from kit.nfs import mount as nfs_mount

RECORDS = "power-loss"
"""The file of the records of all power losses, beside the working set."""
_DIRECTORY = re.compile(f"hsp-{RUN_ID}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}")
_DEADLINE_S = 120.0
# A fio that was killed while the server was away closes its file when its last call is answered.
_CLOSE_DEADLINE_S, _POLL_S = 60.0, 1.0
# Free space needed, times the working set: a nearly full export would be slower.
_FREE_FACTOR = 1.1


def name_of(run_id: str) -> str:
    """Name of the directory of a run."""
    return f"hsp-{run_id}"


def make(client: Host, command: Command) -> bool:
    """Execute `make_command`; whether an ordinary user can write in the directory.

    Where none can, it is for the user alone that root is squashed to, as who fio then runs. Raises HostError.
    """
    _make(client, command)
    path = command.argv[-1]
    if ordinary_user.may_use(client, path):
        return True
    client.run(["rmdir", "--", path], deadline_s=_DEADLINE_S)
    _make(client, make_command(path, "0700"))
    return False


def _make(client: Host, command: Command) -> None:
    result = command.run(client, check=False)
    if result.returncode:
        raise HostError(
            f"{client.name}: {result.stderr.strip()[-300:]}",
            "the export must be writable for this client; root of a client is usually squashed, so let the "
            "appliance give its directory to the user it squashes to, or make it writable for all",
        )


def make_command(path: str, mode: str = "1777") -> Command:
    """Create the directory, through the mount."""
    # The ordinary users of fio are not those that root is squashed to. With the sticky bit, only the
    # owner of a file can put another in its place.
    return Command(("mkdir", f"--mode={mode}", "--", path), deadline_s=_DEADLINE_S)


def fill_command(path: str, file: str, size_bytes: int, block_bytes: int, ordinary: bool = True) -> Command:
    """Write the working set to stable storage, by an ordinary user if one can. `path`: the directory."""
    fill = fio.fill_command(path, file, size_bytes, block_bytes)
    argv = ordinary_user.fill_command(f"{path}/{file}", fill.argv) if ordinary else fill.argv
    return replace(fill, argv=tuple(argv))


def fill(client: Host, target: str, command: Command, size_bytes: int) -> None:
    """Execute `fill_command`, if the export mounted at `target` has room for it. Raises HostError."""
    look = ["df", "--block-size=1", "--output=avail", "--", target]
    words = client.run(look, deadline_s=_DEADLINE_S).stdout.split()
    free_bytes = int(words[-1]) if words and words[-1].isdigit() else 0
    if free_bytes < size_bytes * _FREE_FACTOR:
        raise HostError(
            f"{client.name}: the export has {format_binary_bytes(free_bytes)} free, the working set of "
            f"{format_binary_bytes(size_bytes)} needs a tenth more than its size",
            "free space there, or make working_set.size smaller",
        )
    try:
        result = command.run(client)
    except CommandFailed as error:
        raise HostError(
            f"filling the working set failed: {error.message}",
            "is there space on the server, and may this client write there?",
        ) from error
    fio.parse_output(result.stdout)


def remove(
    client: Host,
    target: str,
    directory: str,
    file: str,
    source: str,
    version: str,
    options: Sequence[str],
) -> None:
    """Remove the file, that of power losses, and the then empty directory, nothing else. Safe to call twice.

    Mounts the export for this if it is no longer mounted (the client was rebooted). Raises
    SafetyRefusal for a name that is not a run's, HostError.
    """
    if not _DIRECTORY.fullmatch(directory) or not _FILE.fullmatch(file):
        raise SafetyRefusal(f"{directory}/{file} is not a directory and file of a run; it was not removed")
    mounted_here = not nfs_mount.is_mounted(client, target)
    if mounted_here:
        nfs_mount.mount(client, nfs_mount.mount_commands(source, target, version, tuple(options)))
    path = f"{target}/{directory}"
    link = client.run(
        ["find", "-P", path, "-maxdepth", "0", "-type", "l"], deadline_s=_DEADLINE_S, check=False
    )
    if link.stdout.strip():
        raise SafetyRefusal(
            f"{client.name}: {path} is a symbolic link; the run made a directory, and nothing was removed",
            "somebody has replaced it; look where it points to, then remove the link",
        )
    client.run(["rm", "-f", "--", f"{path}/{RECORDS}", f"{path}/{file}"], deadline_s=_DEADLINE_S)
    result = _remove_empty(client, path)
    if mounted_here:
        nfs_mount.unmount(client, target)
    if result.returncode and "No such file" not in result.stderr:
        raise HostError(
            f"{client.name}: {result.stderr.strip()[-300:]}",
            f"{path} has files of somebody else, or the working set is still open",
        )


def _remove_empty(client: Host, path: str) -> CommandResult:
    """Remove the directory once the client has none of its files open that are removed already.

    NFS renames such a file to .nfs* until it is closed (fs/nfs/unlink.c).
    """
    end = time.monotonic() + _CLOSE_DEADLINE_S
    renamed = ["find", "-P", path, "-maxdepth", "1", "-name", ".nfs*"]
    while True:
        result = client.run(["rmdir", "--", path], deadline_s=_DEADLINE_S, check=False)
        if not result.returncode or time.monotonic() > end:
            return result
        if not client.run(renamed, deadline_s=_DEADLINE_S, check=False).stdout.strip():
            return result
        time.sleep(_POLL_S)
