"""Whether somebody else has restarted the NFS server of a run, or taken its export back.

`exportfs -o` writes to etab alone. nfs-server.service empties it when it stops (`exportfs -au`), and fills it
from /etc/exports when it starts: a run's export is gone then, and every handle of it is stale.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kit.core.errors import HostError, KitError
from kit.hosts.base import Host, HostLost
from kit.nfs.export import lines_of

# The start of each thread of the kernel's NFS server, in the server's own time.
_LOOK = ["env", "TZ=UTC0", "LC_ALL=C", "ps", "-C", "nfsd", "-o", "pid=,lstart="]
_STARTED = "%a %b %d %H:%M:%S %Y"
_HINT = (
    "a package upgrade (needrestart, unattended-upgrades) or a person did it: see `journalctl -u nfs-server` "
    "there. `hsp run --resume` measures what is missing"
)


def started(server: Host) -> dict[int, str]:
    """By its process id when each thread of nfsd was started (UTC); nothing where that is not shown."""
    found: dict[int, str] = {}
    for line in server.run(_LOOK, check=False).stdout.splitlines():
        pid, _, text = line.strip().partition(" ")
        try:
            at = time.strptime(" ".join(text.split()), _STARTED)
            found[int(pid)] = time.strftime("%Y-%m-%d %H:%M:%S UTC", at)
        except ValueError:
            return {}
    return found


@contextmanager
def named(
    server: Host, path: str, note: Callable[[str], object], *, restarts: bool = False
) -> Iterator[None]:
    """Name what somebody else has done to the NFS server during the block. `path`: what the run exports.

    `note` gets a restart that left the export in place. `restarts`: the run itself restarts it. Raises
    HostError where the export is gone, in the place of the error that came of it.
    """
    before = {} if restarts else started(server)
    failure: KitError | None = None
    try:
        yield
    except HostLost:
        raise
    except KitError as error:
        failure = error
    if text := _check(server, path, before):
        note(f"{text}; this run's export was still there")
    if failure:
        raise failure


def _check(server: Host, path: str, before: dict[int, str]) -> str:
    """That it was restarted, or ""; raises HostError if the export is gone.

    "" too where that is not known: what was measured must not go with the question.
    """
    try:
        now, exported = started(server), lines_of(server, path)
    except KitError:
        return ""
    was_restarted = bool(before and now) and not before.keys() & now.keys()
    if was_restarted:
        text = f"the NFS server on {server.name} was restarted at {max(now.values())}, by somebody else"
    elif before and not now:
        text = f"the NFS server on {server.name} was stopped by somebody else"
    else:
        text = f"somebody else has taken back what is exported by {server.name} (`exportfs -v`)"
    if exported:
        return text if was_restarted else ""
    raise HostError(f"{text}: its exports of this run are gone, and clients get stale handles", _HINT)
