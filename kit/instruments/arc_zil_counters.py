"""ARC and ZIL counters of the server around a phase, checked against the tracer. Pure but for `read`.

Sources: /proc/spl/kstat/zfs/arcstats (module-wide) and, of the ZIL, the dataset's objset kstat (OpenZFS
2.2 and later) or /proc/spl/kstat/zfs/zil (2.1, module-wide).
arcstats do not count reads that the dbuf cache answers (1/32 of the ARC by default).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kit.core.errors import MeasurementUnknown
from kit.hosts.base import Host
from kit.instruments.base import Instrument, Measured, Report, minus
from kit.instruments.tier_tracer import TierTracer
from kit.store.phase import Check, Missing
from kit.zfs.openzfs_version import ZfsVersion

_ARCSTATS = "/proc/spl/kstat/zfs/arcstats"
_ZIL = "/proc/spl/kstat/zfs/zil"
_KSTAT = re.compile(r"^(\w+)\s+\d+\s+(-?\d+)$", re.MULTILINE)

# Reads of the pool's own metadata and unfinished log blocks make small differences; a wrong tier or a
# second client makes large ones.
TOLERANCE_SHARE = 0.02
TOLERANCE_IOS = 10
_DBUF_CACHE_SHARE = 1 / 32
_SPLICE_BYTES = 16 * 4096


@dataclass(frozen=True)
class Counters:
    """Cumulative values by kstat name."""

    arc: dict[str, int]
    zil: dict[str, int]
    zil_source: str = "ZIL"

    def since(self, before: Counters) -> Counters:
        """The change since `before`."""
        return Counters(minus(self.arc, before.arc), minus(self.zil, before.zil), self.zil_source)


class ArcZilCounters(Instrument):
    """The change of the counters over the phase, checked against the tracer's counts if there is a tracer."""

    code = "arc-zil-counters"

    def __init__(
        self, server: Host, pool: str, objset: int, zfs: ZfsVersion, tracer: TierTracer | None = None
    ) -> None:
        self._source = (server, pool, objset, zfs)
        self._zfs, self._tracer = zfs, tracer
        self.change = Counters({}, {})

    def begin(self) -> None:
        self._before = read(*self._source)

    def end(self) -> None:
        self.change = read(*self._source).since(self._before)

    def report(self, measured: Measured) -> Report:
        try:
            if self._tracer is None:
                return Report(checks=untraced_checks(self.change) if measured.op == "read" else [])
            if self._tracer.ios is None:
                return Report()
            of_tracer = self._tracer.ios, self._tracer.log_blocks
            return Report(checks=checks(self.change, *of_tracer, self._zfs, measured.block_bytes or 0))
        except MeasurementUnknown as error:
            return Report(problems=[error.message])


def read(server: Host, pool: str, objset: int, zfs: ZfsVersion) -> Counters:
    """Read the counters. `objset` is the dataset's objsetid."""
    arc = server.run(["cat", _ARCSTATS]).stdout
    path, source = _ZIL, "ZIL of all pools"
    if zfs.has_zil_by_dataset:
        path, source = f"/proc/spl/kstat/zfs/{pool}/objset-0x{objset:x}", "ZIL"
    return Counters(parse_kstat(arc), parse_kstat(server.run(["cat", path]).stdout), source)


def parse_kstat(text: str) -> dict[str, int]:
    """Values by name from `name type value` lines; other lines (headers, strings) are ignored."""
    return {name: int(value) for name, value in _KSTAT.findall(text)}


def checks(
    change: Counters,
    tiers: dict[tuple[str, str], int],
    log_blocks: dict[str, int],
    zfs: ZfsVersion,
    block_bytes: int = 0,
) -> list[Check | Missing]:
    """Check the tracer's counts, by (op, tier), and its log blocks against the change of the counters.

    `block_bytes`: of each I/O; 0 if they differ. Raises MeasurementUnknown if a counter is missing.
    """
    with _counters_needed("the tracer's counts cannot be checked"):
        return [*_read_checks(change.arc, tiers, block_bytes), *_write_checks(change, tiers, log_blocks, zfs)]


def untraced_checks(change: Counters) -> list[Check | Missing]:
    """Checks of reads that need no tracer. Raises MeasurementUnknown if a counter is missing."""
    with _counters_needed("errors of the L2ARC would not be seen"):
        return [*_l2arc_errors(change.arc)]


@contextmanager
def _counters_needed(loss: str) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise MeasurementUnknown(f"the server's kstats have no {error.args[0]}: {loss}") from None


def _tolerance(ios: int, share: float = TOLERANCE_SHARE) -> int:
    return TOLERANCE_IOS + int(ios * share)


def _read_checks(arc: dict[str, int], tiers: dict[tuple[str, str], int], block_bytes: int) -> Iterator[Check]:
    reads = {tier: count for (op, tier), count in tiers.items() if op == "read"}
    total = sum(reads.values())
    if not total:
        return
    # A read that first needs an indirect block is one request and one or two misses.
    indirect = reads.get("indirect", 0)
    slack = _tolerance(total) + indirect
    from_devices = reads.get("l2arc", 0) + reads.get("disk", 0) + indirect
    # OpenZFS counts a hit before it reads; the disk answers if that fails.
    failed = _failed_l2arc_reads(arc)
    from_dram = reads.get("dram", 0)
    from_dram += _read_again(arc, from_dram, total, block_bytes)
    rows = [
        ("reads that missed the ARC", "demand_data_misses", "", from_devices, slack),
        ("reads from L2ARC", "l2_hits", "", reads.get("l2arc", 0) + failed, slack + failed),
        (
            "reads from DRAM", "demand_data_hits", " (without those of the dbuf cache)",
            from_dram, slack + _tolerance(total, _DBUF_CACHE_SHARE),
        ),
    ]  # fmt: skip
    for name, counter, remark, expected, tolerance in rows:
        yield Check.of(name, f"arcstats {counter}{remark}", expected, arc[counter], tolerance)
    yield from _l2arc_errors(arc)


def _read_again(arc: dict[str, int], dram: int, total: int, block_bytes: int) -> int:
    """Hits of requests that nfsd reads in pieces: the first piece has brought the record into the ARC.

    Its splice takes 16 pages a piece (PIPE_DEF_BUFFERS); a read without splice takes none.
    """
    pieces = -(-block_bytes // _SPLICE_BYTES)
    again = round((arc["demand_data_hits"] - dram) / total)
    return min(max(0, again), max(0, pieces - 1)) * total


def _failed_l2arc_reads(arc: dict[str, int]) -> int:
    """Reads from L2ARC that failed, so that a disk answered; at least, as one may count as both errors."""
    return max(arc["l2_io_error"], arc["l2_cksum_bad"])


def _l2arc_errors(arc: dict[str, int]) -> Iterator[Check]:
    for counter in ("l2_io_error", "l2_cksum_bad", "l2_abort_lowmem"):
        yield Check.of("L2ARC errors", f"arcstats {counter}", 0, arc[counter], 0)


def _write_checks(
    change: Counters, tiers: dict[tuple[str, str], int], log_blocks: dict[str, int], zfs: ZfsVersion
) -> Iterator[Check | Missing]:
    zil, source = change.zil, change.zil_source
    writes = {tier: count for (op, tier), count in tiers.items() if op in ("write", "commit")}
    total = sum(count for tier, count in writes.items() if tier != "dram")
    if not total:
        return
    slack = _tolerance(total, 0.005)
    # Several requests may share a log block, and one may write several: blocks are not requests. With a log
    # device no block may go to the pool; without one, none may go to a log device.
    on_slog, in_pool = log_blocks["slog"], log_blocks["pool"]
    for name, counter, expected, tolerance in (
        ("synchronous writes", "zil_commit_count", total, slack),
        ("log blocks on the log device", "zil_itx_metaslab_slog_count", on_slog, slack if on_slog else 0),
        ("log blocks in the pool", "zil_itx_metaslab_normal_count", in_pool, slack if in_pool else 0),
        ("indirect writes", "zil_itx_indirect_count", 0, 0),
    ):
        yield Check.of(name, f"{source} {counter}", expected, zil[counter], tolerance)
    # Since OpenZFS 2.3.
    for counter in ("zil_commit_stall_count", "zil_commit_error_count"):
        if counter in zil:
            yield Check.of("ZIL stalls and errors", f"{source} {counter}", 0, zil[counter], 0)
        else:
            yield Missing.of("ZIL stalls and errors", f"{source} {counter}", f"not available on {zfs}")
