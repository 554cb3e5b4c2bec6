"""A run's own directory inside an export that is somebody else's: made, filled, and removed again.

All of it through the mount of one client: what is asked of it has a deadline.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kit.core.errors import HostError, SafetyRefusal
from kit.core.units import format_size_bytes
from kit.hosts.base import CommandFailed, Host
from kit.load import fio
from kit.nfs import export as nfs

_DIRECTORY = re.compile(r"hsp-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}")
_DEADLINE_S = 120.0
_FILL_DEADLINE_S = 6 * 3600.0
# Of the working set: an export that is full to the brim is measured as such.
_ROOM = 1.1


def name_of(run_id: str) -> str:
    """What the directory of a run is called."""
    return f"hsp-{run_id}"


def make(client: Host, target: str, directory: str) -> None:
    """Make the directory in the export that is mounted at `target`. Raises HostError."""
    answer = client.run(make_command(target, directory), deadline_s=_DEADLINE_S, check=False)
    if answer.returncode:
        raise HostError(
            f"{client.name}: {answer.stderr.strip()[-300:]}",
            "the export must be writable for this client; root of a client is usually squashed, so let the "
            "appliance give its directory to the user it squashes to, or make it writable for all",
        )


def make_command(target: str, directory: str) -> list[str]:
    """argv of what `make` does."""
    # Others' root is squashed to the same user as this client's, or to another: all may write.
    return ["mkdir", "--mode=0777", "--", f"{target}/{directory}"]


def fill(client: Host, target: str, directory: str, file: str, size_bytes: int, block_bytes: int) -> None:
    """Write the working set through the mount, to stable storage. Raises HostError."""
    asked = ["df", "--block-size=1", "--output=avail", "--", target]
    said = client.run(asked, deadline_s=_DEADLINE_S).stdout.split()
    room = int(said[-1]) if said and said[-1].isdigit() else 0
    if room < size_bytes * _ROOM:
        raise HostError(
            f"{client.name}: the export has {format_size_bytes(room)} free, the working set of "
            f"{format_size_bytes(size_bytes)} needs a tenth more than its size",
            "free space there, or make working_set.size smaller",
        )
    path = f"{target}/{directory}"
    try:
        result = client.run(
            fio.fill_command(path, file, size_bytes, block_bytes), deadline_s=_FILL_DEADLINE_S
        )
    except CommandFailed as error:
        raise HostError(
            f"filling the working set failed: {error.message}",
            "is there space on the server, and may this client write there?",
        ) from error
    fio.parse_output(result.stdout)
    client.run(["chmod", "0666", f"{path}/{file}"], deadline_s=_DEADLINE_S)


def remove(
    client: Host,
    target: str,
    directory: str,
    file: str,
    source: str,
    version: str,
    options: Sequence[str],
) -> None:
    """Remove the file, then the empty directory: nothing that the kit has not made. Safe to do twice.

    Mounts the export for it if it is not mounted any more (the client was rebooted). Raises
    SafetyRefusal for any other name, HostError.
    """
    if not _DIRECTORY.fullmatch(directory) or not _FILE.fullmatch(file):
        raise SafetyRefusal(f"{directory}/{file} is nothing that a run has made; it was left alone")
    mounted_here = not nfs.is_mounted(client, target)
    if mounted_here:
        nfs.mount(client, source, target, version, tuple(options))
    path = f"{target}/{directory}"
    client.run(["rm", "-f", "--", f"{path}/{file}"], deadline_s=_DEADLINE_S)
    answer = client.run(["rmdir", "--", path], deadline_s=_DEADLINE_S, check=False)
    if mounted_here:
        nfs.unmount(client, target)
    if answer.returncode and "No such file" not in answer.stderr:
        raise HostError(
            f"{client.name}: {answer.stderr.strip()[-300:]}",
            f"somebody else put files into {path}, or still has the working set open",
        )
