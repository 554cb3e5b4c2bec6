"""What special and dedup vdevs hold, and what their devices were asked for. Pure but for reads of the server.

Sources: `zpool list -v`; reads completed and merged in /sys/class/block/NAME/stat (Linux,
Documentation/block/stat.rst).
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase
from kit.instruments.tier_tracer import TierTracer
from kit.store.parts.resource_use import SpecialUse
from kit.store.phase import Check
from kit.zfs.layout import SPECIAL_ROLES
from kit.zfs.vdev_listing import space_of, vdevs

# ZFS may fetch neighbours in one request.
_TOLERANCE_SHARE, _TOLERANCE_IOS = 0.02, 10


class SpecialVdevs(Instrument):
    """Those of `pool`, whose devices have these paths. `tracer`: of the phase; None where it has none."""

    code = "resource-use"

    def __init__(self, server: Host, pool: str, paths: Sequence[str], tracer: TierTracer | None) -> None:
        self._server, self._pool, self._paths, self._tracer = server, pool, paths, tracer

    def begin(self) -> None:
        self._before = _reads(self._server, self._paths)

    def end(self) -> None:
        self._reads = _reads(self._server, self._paths) - self._before
        self._listing = self._server.run(["zpool", "list", "-v", "-H", "-P", "-p", self._pool]).stdout

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        made = InstrumentReport()
        try:
            size, allocated = space_of(self._listing, _class_in(self._listing))
        except HostError as error:
            made.problems.append(error.message)
        else:
            reads = max(0, self._reads)
            use = SpecialUse(size_bytes=size, allocated_bytes=allocated, device_reads=reads)
            made.entry["special"] = use
        if self._tracer and self._tracer.ios is not None and "read" in measured.block_bytes:
            made.checks.append(check(sum(self._tracer.reads_from("special")), self._reads))
        return made


def _class_in(listing: str) -> str:
    """A dedup vdev counts where there is no special one."""
    there = {section for section, _, _ in vdevs(listing)}
    return next((each for each in SPECIAL_ROLES if each in there), "special")


def check(traced: int, device_reads: int) -> Check:
    """Each block that a request got from a special vdev is a read of a device. Others read there, too."""
    return Check.of_counts(
        "SPECIAL-READS", "blocks read from special vdevs, at least", "/sys/class/block/*/stat", traced,
        min(traced, device_reads), _TOLERANCE_IOS + int(traced * _TOLERANCE_SHARE),
    )  # fmt: skip


def _reads(server: Host, paths: Sequence[str]) -> int:
    nodes = server.run(["readlink", "--canonicalize-existing", "--", *paths]).stdout.split()
    files = [f"/sys/class/block/{node.rpartition('/')[2]}/stat" for node in nodes]
    total = 0
    for line in server.run(["cat", *files]).stdout.splitlines():
        fields = line.split()
        if len(fields) < 2 or not (fields[0] + fields[1]).isdecimal():
            raise HostError(f"{server.name}: the counters of a device are {line[:80]!r}")
        total += int(fields[0]) + int(fields[1])
    return total
