"""Statistics of an NFS mount: calls and bytes. Pure but for `read`.

Source: /proc/self/mountstats (net/sunrpc/stats.c, rpc_clnt_show_stats; statvers 1.1); to read it does not
access the mount. Columns of an operation: calls, transmissions, major timeouts, bytes sent, bytes received,
time queued, round-trip time, time executed (each a sum in ms), errors. `bytes`: read and written by
applications, the same with O_DIRECT, then from and to the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase, minus, unknown_calls
from kit.nfs.mount import STATISTICS, statistics_of
from kit.store.phase import Check

# NFS 4.2 reads with READ_PLUS if client and server support it.
_OPERATIONS = {"read": ("READ", "READ_PLUS"), "write": ("WRITE",)}


@dataclass(frozen=True)
class MountStats:
    """Sums since the mount, by op: read, write."""

    calls: dict[str, int]
    transmissions: dict[str, int]
    timeouts: dict[str, int]
    server_bytes: dict[str, int]
    # Calls that the server answered with an error; kernels before 5.3 do not count them.
    errors: dict[str, int] = field(default_factory=dict)

    def since(self, before: MountStats) -> MountStats:
        return MountStats(*map(minus, vars(self).values(), vars(before).values()))


class MountStatistics(Instrument):
    """The mounts at `target`: each I/O of a client must be one answered call."""

    code = "mount-statistics"

    def __init__(self, clients: Sequence[Host], target: str) -> None:
        self._clients, self._target = clients, target

    def begin(self) -> None:
        self._before = {client.name: read(client, self._target) for client in self._clients}

    def end(self) -> None:
        self._changes = {
            client.name: read(client, self._target).since(self._before[client.name])
            for client in self._clients
        }

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        result = InstrumentReport()
        for name, ios in measured.client_ios.items():
            if name in self._changes:
                result.checks += checks(
                    self._changes[name], measured.calls(ios), measured.call_bytes, name, measured.spare_bytes
                )
            if measured.calls_per_io is None:
                result.checks.append(unknown_calls(f"NFS WRITE calls of {name}", STATISTICS, of=name))
        return result


def read(client: Host, target: str) -> MountStats:
    """Statistics of the mount at `target`. Raises HostError without an NFS mount or its statistics."""
    try:
        return parse(client.run(["cat", STATISTICS]).stdout, target)
    except (LookupError, ValueError) as error:
        raise HostError(
            f"{STATISTICS} on {client.name} has no statistics of the mount {target} ({error!r})",
            "is it still mounted, over NFS?",
        ) from error


def parse(text: str, target: str) -> MountStats:
    """The last mount at `target`. Raises LookupError or ValueError."""
    parts = (line.strip().partition(":") for line in statistics_of(text, target))
    fields = {name: rest.split() for name, colon, rest in parts if colon}
    per_op = {
        op: [[int(value) for value in fields[name]] for name in names if name in fields]
        for op, names in _OPERATIONS.items()
    }
    if not all(per_op.values()):
        raise LookupError("no statistics of its operations")
    sums = {op: [sum(column) for column in zip(*rows, strict=True)] for op, rows in per_op.items()}
    moved = [int(value) for value in fields["bytes"]]
    calls, transmissions, timeouts = ({op: values[n] for op, values in sums.items()} for n in range(3))
    errors = {op: values[8] for op, values in sums.items() if len(values) > 8}
    return MountStats(calls, transmissions, timeouts, {"read": moved[4], "write": moved[5]}, errors)


def checks(
    change: MountStats,
    ios: Mapping[str, int],
    block_bytes: Mapping[str, int],
    host: str,
    spare_bytes: int = 0,
) -> list[Check]:
    """Check fio's counts against those of the mount. `ios`, `block_bytes` (of one I/O): by op; not of others.

    `spare_bytes`: that an I/O may have beside its own.
    """
    made: list[Check] = []
    for op in ("read", "write"):
        if op not in ios or (not ios[op] and not change.calls[op]):
            continue
        calls, name, source = change.calls[op], f"NFS {op.upper()}", f"{STATISTICS} of {host}, {op.upper()}"
        rows = [("NFS-CALLS", f"{name} calls answered", source, ios[op], calls, 0)]
        if op in block_bytes:
            expected, spare = ios[op] * block_bytes[op], ios[op] * spare_bytes
            what = f"bytes of {name} calls"
            rows.append(("NFS-BYTES", what, f"{source} bytes", expected, change.server_bytes[op], spare))
        repeated = change.transmissions[op] - calls + change.timeouts[op]
        rows.append(("NFS-RETRANSMISSIONS", f"{name} retransmissions and timeouts", source, 0, repeated, 0))
        made += [Check.of_counts(*row, op=op, of=host) for row in rows]
    return made
