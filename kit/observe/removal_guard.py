"""A process on the observed server that removes what the observation has there, if the kit is gone.

When a connection ends, its commands get TERM (kit.hosts.supervision), and after a grace time KILL. So the
guard leaves their group before it removes anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kit.hosts.base import Host, HostLost
from kit.observe import probe_cost
from kit.trace.nfsd_tracer import END_LEFT, TRACING

# $1: the directory; $2: "mounts" if the kernel mounts TRACING for the tracer.
_REMOVE = (
    f'({END_LEFT}); {probe_cost.RESTORE}; rm -r -f --one-file-system -- "$1"; '
    f'test "$2" != mounts || umount {TRACING} 2>/dev/null; exit 0'
)
GUARD = (
    "directory=$1 mounts=$2 remove=$3; "
    """trap 'trap "" TERM; exec setsid sh -c "$remove" sh "$directory" "$mounts" """
    "</dev/null >/dev/null 2>&1' TERM HUP; sleep infinity & wait"
)
_DEADLINE_S = 30.0


def command(directory: str, *, mounts: bool) -> list[str]:
    """argv of the guard of this directory."""
    return ["sh", "-c", GUARD, "sh", directory, "mounts" if mounts else "none", _REMOVE]


@contextmanager
def guarded(server: Host, directory: str, *, mounts: bool) -> Iterator[None]:
    """With the guard; at the end it is killed, and removes nothing."""
    process = server.start(command(directory, mounts=mounts))
    try:
        yield
    finally:
        try:
            process.stop(_DEADLINE_S, "KILL")
        except HostLost:
            pass  # then it does its work
