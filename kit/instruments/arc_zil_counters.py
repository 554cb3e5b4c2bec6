"""ARC and ZIL counters of the server around a phase, checked against the tracer. Pure but for `read`.

Sources: /proc/spl/kstat/zfs/arcstats (module-wide) and, of the ZIL, the dataset's objset kstat (OpenZFS
2.2 and later) or /proc/spl/kstat/zfs/zil (2.1, module-wide).
A read that the dbuf cache answers is a hit of the ARC, too, from OpenZFS 2.1 on: dbuf_hold_impl() calls
arc_buf_access(), which counts it (module/zfs/dbuf.c, arc.c), unless the ARC keeps no data of the dataset. A
write that finds its record there is a hit as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field

from kit.core.clock import Clock
from kit.core.errors import MeasurementUnknown
from kit.hosts.base import Host
from kit.instruments.base import Instrument, InstrumentReport, MeasuredPhase, minus
from kit.instruments.tier_tracer import TierTracer
from kit.store.parts.resource_use import ArcUse
from kit.store.phase import Check, Missing
from kit.zfs.openzfs_version import ZfsVersion

ARCSTATS = "/proc/spl/kstat/zfs/arcstats"
ZIL = "/proc/spl/kstat/zfs/zil"
_KSTAT = re.compile(r"^(\w+)\s+\d+\s+(-?\d+)$", re.MULTILINE)

# Reads of the pool's own metadata and unfinished log blocks make small differences: at most 11 of 5945 in the
# runs that are stored. A wrong tier or a second client makes large ones.
TOLERANCE_SHARE = 0.02
TOLERANCE_IOS = 10
# Of the records of the ARC, so of writes that find theirs in the dbuf cache (dbuf_cache_shift).
_DBUF_CACHE_SHARE = 1 / 32
# Of asynchronous writes: more on a log, and something has made them synchronous.
ASYNCHRONOUS_LOG_SHARE = 0.01
_SPLICE_BYTES = 16 * 4096
# Fields of kit.store.parts.resource_use.ArcUse.
_SIZES = {
    "size_bytes": "size",
    "limit_bytes": "c_max",
    "data_bytes": "data_size",
    "metadata_bytes": "metadata_size",
    "header_bytes": "hdr_size",
    "l2arc_header_bytes": "l2_hdr_size",
    "l2arc_bytes": "l2_asize",
}
_MOVED = {"l2arc_written_bytes": "l2_write_bytes", "l2arc_read_bytes": "l2_read_bytes"}
_LOGGED = {
    "log_bytes": "zil_itx_metaslab_slog_bytes",
    "log_block_bytes": "zil_itx_metaslab_slog_write",
    "pool_log_bytes": "zil_itx_metaslab_normal_bytes",
}


@dataclass(frozen=True)
class Counters:
    """Cumulative values by kstat name. `at_ns`: of the server's clock; 0 if not known."""

    arc: dict[str, int]
    zil: dict[str, int]
    zil_source: str = "ZIL"
    at_ns: int = 0

    def since(self, before: Counters) -> Counters:
        """The change since `before`."""
        change = minus(self.arc, before.arc), minus(self.zil, before.zil)
        return Counters(*change, self.zil_source, self.at_ns - before.at_ns)


@dataclass(eq=False)
class ArcZilCounters(Instrument):
    """The change of the counters over the phase, checked against the tracer's counts if there is a tracer.

    `local`: the load runs on the server, so the counts of its writes are those of the ZIL. `excused`:
    by id of a check why it is not made, because of what the workload asks for.
    """

    code = "arc-zil-counters"

    server: Host
    pool: str
    objset: int
    zfs: ZfsVersion
    tracer: TierTracer | None = None
    _: KW_ONLY
    local: bool = False
    excused: Mapping[str, str] = field(default_factory=dict)
    change: Counters = field(default_factory=lambda: Counters({}, {}), init=False)

    def begin(self) -> None:
        self._before = read(self.server, self.pool, self.objset, self.zfs)

    def end(self) -> None:
        self._after = read(self.server, self.pool, self.objset, self.zfs)
        self.change = self._after.since(self._before)

    def report(self, measured: MeasuredPhase) -> InstrumentReport:
        judged = self._judged(measured)
        judged.entry["arc"] = use(self._after.arc, self.change, measured.clock)
        return judged

    def _judged(self, measured: MeasuredPhase) -> InstrumentReport:
        written = measured.ios_by_op.get("write", 0) * measured.block_bytes.get("write", 0)
        made: list[Check | Missing] = []
        try:
            if measured.asynchronous:
                of_commits = self.tracer.trace.commit_blocks if self.tracer else None
                made += asynchronous_checks(self.change, written, of_commits)
            if self.tracer is None:
                made += untraced_checks(self.change) if "read" in measured.block_bytes else []
                if self.local and not measured.asynchronous:
                    commits = measured.calls(measured.ios_by_op).get("write")
                    made += commit_checks(self.change, commits) if commits is not None else []
            elif self.tracer.ios is not None:
                of_tracer, commits = (self.tracer.ios, self.tracer.log_blocks), self.tracer.trace.zil_commits
                block, special = measured.block_bytes.get("read", 0), self.tracer.reads_from("special")
                made += checks(self.change, *of_tracer, self.zfs, block, special[1], commits)
        except MeasurementUnknown as error:
            return InstrumentReport(problems=[error.message])
        return InstrumentReport(
            checks=[
                Missing(id=each.id, name=each.name, source=each.source, why=why)
                if (why := self.excused.get(each.id))
                else each
                for each in made
            ]
        )


def read(server: Host, pool: str, objset: int, zfs: ZfsVersion) -> Counters:
    """Read the counters. `objset` is the dataset's objsetid."""
    arc = server.run(["cat", ARCSTATS]).stdout
    path, source = ZIL, "ZIL of all pools"
    if zfs.has_zil_by_dataset:
        path, source = f"/proc/spl/kstat/zfs/{pool}/objset-0x{objset:x}", "ZIL"
    zil = server.run(["cat", path]).stdout
    return Counters(parse_kstat(arc), parse_kstat(zil), source, _read_at_ns(arc))


def parse_kstat(text: str) -> dict[str, int]:
    """Values by name from `name type value` lines; other lines (headers, strings) are ignored."""
    return {name: int(value) for name, value in _KSTAT.findall(text)}


def _read_at_ns(text: str) -> int:
    """The last number of a kstat's first line: its snapshot's time (include/os/linux/spl/sys/kstat.h)."""
    last = text.partition("\n")[0].split()[-1:]
    return int(last[0]) if last and last[0].isdecimal() else 0


def use(after: dict[str, int], change: Counters, clock: Clock) -> ArcUse:
    """What the ARC holds at the end, and what went to L2ARC and ZIL meanwhile. Pure."""

    def value(counters: dict[str, int], name: str) -> int | None:
        return max(0, counters[name]) if name in counters else None

    sizes = {field: value(after, name) for field, name in _SIZES.items()}
    moved = {field: value(change.arc, name) for field, name in _MOVED.items()}
    logged = {field: value(change.zil, name) for field, name in _LOGGED.items()}
    return ArcUse(span_ns=clock.from_host_ns(max(0, change.at_ns)), **sizes, **moved, **logged)


def checks(
    change: Counters,
    tiers: dict[tuple[str, str], int],
    log_blocks: dict[str, int],
    zfs: ZfsVersion,
    block_bytes: int = 0,
    special_metadata: int = 0,
    zil_commits: int = 0,
) -> list[Check | Missing]:
    """Check the tracer's counts, by (op, tier), and its log blocks against the change of the counters.

    `block_bytes`: of each read. `special_metadata`: reads with metadata from special vdevs. `zil_commits`: of
    a phase with `metadata`, by the tracer. Raises MeasurementUnknown if a counter is missing.
    """
    with _counters_needed("the tracer's counts cannot be checked"):
        of_reads = _read_checks(change.arc, tiers, block_bytes, special_metadata)
        return [*of_reads, *_write_checks(change, tiers, log_blocks, zfs, zil_commits)]


def untraced_checks(change: Counters) -> list[Check | Missing]:
    """Checks of reads that need no tracer. Raises MeasurementUnknown if a counter is missing."""
    with _counters_needed("errors of the L2ARC would not be seen"):
        return [*_l2arc_errors(change.arc)]


def commit_checks(change: Counters, writes: int) -> list[Check | Missing]:
    """Each synchronous write, or force, of a local load is a commit of the ZIL. Raises MeasurementUnknown."""
    if not writes:
        return []
    with _counters_needed("it is not known whether all writes were synchronous"):
        found = change.zil["zil_commit_count"]
    source = f"{change.zil_source} zil_commit_count"
    return [
        Check.of_counts("ZIL-COMMITS", "synchronous writes", source, writes, found, _tolerance(writes, 0.005))
    ]


def asynchronous_checks(
    change: Counters, written_bytes: int, commit_blocks: int | None
) -> list[Check | Missing]:
    """Asynchronous writes of `written_bytes` hardly use the log. Raises MeasurementUnknown.

    `commit_blocks`: log blocks of COMMITs, which write to the log what is not on the pool's disks yet. A
    client that closes a file sends one. None without a tracer.
    """
    name = f"bytes on a log without a COMMIT, of {written_bytes} written asynchronously"
    source = f"{change.zil_source} zil_itx_metaslab_slog_bytes, zil_itx_metaslab_normal_bytes"
    if commit_blocks is None:
        why = "the server was not traced: log blocks of COMMITs are not known"
        return [Missing(id="ZIL-ASYNC-BYTES", name=name, source=source, out_of=written_bytes, why=why)]
    with _counters_needed("it is not known how much of asynchronous writes went to a log"):
        logged, blocks = (
            sum(change.zil[f"zil_itx_metaslab_{where}_{unit}"] for where in ("slog", "normal"))
            for unit in ("bytes", "count")
        )
    # The counters have the sum of all blocks.
    found = logged * max(0, blocks - commit_blocks) // max(1, blocks)
    most = int(written_bytes * ASYNCHRONOUS_LOG_SHARE)
    return [Check.of_counts("ZIL-ASYNC-BYTES", name, source, 0, found, most, out_of=written_bytes)]


@contextmanager
def _counters_needed(loss: str) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise MeasurementUnknown(f"the server's kstats have no {error.args[0]}: {loss}") from None


def _tolerance(ios: int, share: float = TOLERANCE_SHARE) -> int:
    return TOLERANCE_IOS + int(ios * share)


def _read_checks(
    arc: dict[str, int], tiers: dict[tuple[str, str], int], block_bytes: int, special_metadata: int
) -> Iterator[Check]:
    reads = {tier: count for (op, tier), count in tiers.items() if op == "read"}
    total = sum(reads.values())
    if not total:
        return
    # A read that first needs an indirect block is one request and one or two misses, and may be a hit. The
    # L2ARC may answer both of its blocks.
    indirect = reads.get("indirect", 0)
    missed = sum(reads.get(tier, 0) for tier in ("l2arc", "special", "disk")) + indirect
    # OpenZFS counts a hit before it reads; the disk answers if that fails.
    failed = _failed_l2arc_reads(arc)
    from_l2arc, from_dram = reads.get("l2arc", 0), reads.get("dram", 0)
    again = _read_again(arc, from_dram, total, block_bytes)
    hits = from_dram + again
    # A record that was just written is read without the ARC until it is on disk (dbuf_read).
    written = sum(count for (op, _), count in tiers.items() if op == "write")
    hits -= min(written, max(0, hits - arc["demand_data_hits"]))
    of_dram = _tolerance(total if again else from_dram) + int(written * _DBUF_CACHE_SHARE)
    if arc["demand_data_hits"] <= TOLERANCE_IOS:
        # The ARC holds no data (primarycache=metadata): what the dbuf cache answers is no hit of it.
        of_dram += int(total * _DBUF_CACHE_SHARE)
    of_l2arc = _tolerance(from_l2arc) + failed + indirect
    for id_, name, counter, expected, tolerance in (
        ("ARC-MISSES", "reads that missed the ARC", "demand_data_misses", missed, _tolerance(missed)),
        ("L2ARC-HITS", "reads from L2ARC", "l2_hits", from_l2arc + failed, of_l2arc),
        ("ARC-HITS", "reads from DRAM", "demand_data_hits", hits, of_dram),
    ):
        source = f"arcstats {counter}"
        yield Check.of_counts(
            id_, name, source, expected, arc[counter], tolerance + indirect + special_metadata
        )
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
        yield Check.of_counts("L2ARC-ERRORS", "L2ARC errors", f"arcstats {counter}", 0, arc[counter])


def _write_checks(
    change: Counters,
    tiers: dict[tuple[str, str], int],
    log_blocks: dict[str, int],
    zfs: ZfsVersion,
    zil_commits: int,
) -> Iterator[Check | Missing]:
    zil, source = change.zil, change.zil_source
    writes = {(op, tier): count for (op, tier), count in tiers.items() if op in ("write", "commit")}
    if not writes and not zil_commits:
        return
    # Asynchronous writes, and the dram of sync=disabled: the ZIL has no part in them.
    total = zil_commits or sum(count for (_, tier), count in writes.items() if tier != "dram")
    slack = _tolerance(total, 0.005)
    # Several requests may share a log block, and one may write several: blocks are not requests. With a log
    # device no block may go to the pool; without one, none may go to a log device.
    on_slog, in_pool = log_blocks["slog"], log_blocks["pool"]
    for id_, name, counter, expected, tolerance in (
        ("ZIL-COMMITS", "synchronous writes", "zil_commit_count", total, slack),
        (
            "ZIL-SLOG-BLOCKS", "log blocks on the log device", "zil_itx_metaslab_slog_count",
            on_slog, slack if on_slog else 0,
        ),
        (
            "ZIL-POOL-BLOCKS", "log blocks in the pool", "zil_itx_metaslab_normal_count",
            in_pool, slack if in_pool else 0,
        ),
        # Without one large writes are indirect (zfs_immediate_write_sz); the pool has them either way.
        *([("ZIL-INDIRECT", "indirect writes", "zil_itx_indirect_count", 0, 0)] if on_slog else []),
    ):  # fmt: skip
        yield Check.of_counts(id_, name, f"{source} {counter}", expected, zil[counter], tolerance)
    # Since OpenZFS 2.3.
    for counter in ("zil_commit_stall_count", "zil_commit_error_count"):
        if counter in zil:
            yield Check.of_counts(
                "ZIL-ERRORS", "ZIL stalls and errors", f"{source} {counter}", 0, zil[counter]
            )
        else:
            yield Missing(
                id="ZIL-ERRORS", name="ZIL stalls and errors", source=f"{source} {counter}",
                why=f"not available on {zfs}",
            )  # fmt: skip
