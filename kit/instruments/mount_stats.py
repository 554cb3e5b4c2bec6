"""What an NFS mount itself counted: calls that were answered, and bytes. Pure but for `read`.

From /proc/self/mountstats (net/sunrpc/stats.c, rpc_clnt_show_stats; statvers 1.1), which does not touch
the mount. Of each operation: calls, transmissions, major timeouts, bytes sent, bytes received, time
queued, round-trip time, time executed (each a sum in ms), errors. `bytes`: read and written by
applications, the same past the page cache (O_DIRECT), then from and to the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kit.core import proc_path
from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.base import Instrument, Measured, Report
from kit.store.phase import Check

_SOURCE = "/proc/self/mountstats"
# NFS 4.2 reads with READ_PLUS, where both sides know it.
_OPERATIONS = {"read": ("READ", "READ_PLUS"), "write": ("WRITE",)}


@dataclass(frozen=True)
class MountStats:
    """Sums since it was mounted. `calls` and the rest are by op: read, write."""

    calls: dict[str, int]
    transmissions: dict[str, int]
    timeouts: dict[str, int]
    server_bytes: dict[str, int]

    def since(self, before: MountStats) -> MountStats:
        return MountStats(
            *(
                {op: now[op] - was[op] for op in now}
                for now, was in zip(vars(self).values(), vars(before).values(), strict=True)
            )
        )


class MountStatistics(Instrument):
    """Of the mounts at `target`: each I/O of a client must be one call that the server answered."""

    def __init__(self, clients: Sequence[Host], target: str) -> None:
        self._clients, self._target = clients, target

    def begin(self) -> None:
        self._before = {client.name: read(client, self._target) for client in self._clients}

    def end(self) -> None:
        self._changes = {
            client.name: read(client, self._target).since(self._before[client.name])
            for client in self._clients
        }

    def report(self, measured: Measured) -> Report:
        found = Report()
        for name, ios in measured.client_ios.items():
            if name in self._changes:
                found.checks += checks(self._changes[name], dict(ios), measured.block_bytes, name)
        return found


def read(client: Host, target: str) -> MountStats:
    """Of the mount at `target`. Raises HostError if it is none, or says nothing of its calls."""
    try:
        return parse(client.run(["cat", _SOURCE]).stdout, target)
    except (LookupError, ValueError) as error:
        raise HostError(
            f"{_SOURCE} on {client.name} does not say what the mount {target} did ({error!r})",
            "is it still mounted, over NFS?",
        ) from error


def parse(text: str, target: str) -> MountStats:
    """The last mount at `target`. Raises LookupError or ValueError."""
    written = proc_path.escape(target)
    lines: list[str] | None = None
    inside = False
    for line in text.splitlines():
        if line.startswith("device "):
            inside = f" mounted on {written} with fstype nfs" in line
            lines = [] if inside else lines
        elif inside and lines is not None:
            lines.append(line.strip())
    if lines is None:
        raise LookupError(f"no NFS mount at {target}")
    fields = {name: rest.split() for name, colon, rest in (line.partition(":") for line in lines) if colon}
    per_op = {
        op: [[int(value) for value in fields[name]] for name in names if name in fields]
        for op, names in _OPERATIONS.items()
    }
    if not all(per_op.values()):
        raise LookupError("no statistics of its operations")
    sums = {op: [sum(column) for column in zip(*rows, strict=True)] for op, rows in per_op.items()}
    moved = [int(value) for value in fields["bytes"]]
    return MountStats(
        calls={op: values[0] for op, values in sums.items()},
        transmissions={op: values[1] for op, values in sums.items()},
        timeouts={op: values[2] for op, values in sums.items()},
        server_bytes={"read": moved[4], "write": moved[5]},
    )


def checks(change: MountStats, ios: dict[str, int], block_bytes: int | None, host: str) -> list[Check]:
    """Hold fio's own counts, by op, against what the mount saw. `block_bytes`: None where jobs differ."""
    found = []
    for op in ("read", "write"):
        if not ios.get(op) and not change.calls[op]:
            continue
        name = op.upper()
        where = f"{_SOURCE} of {host}, {name}"
        found.append(Check.of(f"NFS {name} calls that were answered", where, ios[op], change.calls[op], 0))
        if block_bytes:
            expected = ios[op] * block_bytes
            moved = change.server_bytes[op]
            found.append(Check.of(f"bytes of NFS {name} calls", f"{where} bytes", expected, moved, 0))
        again = change.transmissions[op] - change.calls[op] + change.timeouts[op]
        found.append(Check.of(f"NFS {name} calls sent again, or late", where, 0, again, 0))
    return found
