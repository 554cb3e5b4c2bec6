"""Output of tracer and fio in one phase as rows of latency.parquet. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from kit.core.bins import IntArray, bin_edges, bin_index
from kit.core.clock import Clock
from kit.hosts.clock_offset import Offset
from kit.load.fio_latency_log import ClientLatencies, total_ns
from kit.load.fio_windows import OPS, ClientWindows
from kit.store.phase import ClientRow, Extreme, Sum
from kit.store.tables import LATENCY_SCHEMA
from kit.trace.output import Snapshot, Trace, differences
from kit.trace.tier import Vdevs, tier_of

# Latencies that a phase stores one by one, with `in_order`: 40 KB of the manifest.
MOST_IN_ORDER = 4096

# I/Os of one source: `time_ns` (start of the interval), `op`, `tier`, `bin` (kit.core.bins), `count`; each
# once. In columns: a day has millions of rows, which as Python's objects would take gigabytes.
Cells = pl.DataFrame
_CELLS = {
    "time_ns": pl.Int64(),
    "op": pl.String(),
    "tier": pl.String(),
    "bin": pl.Int64(),
    "count": pl.Int64(),
}
# Op and tier of the I/Os of clients, by direction.
CLIENT = tuple((op, "all") for op in OPS)
# Enough for the bins of all latencies: 63 bits have 1920.
_BIN_BITS = 11


@dataclass(frozen=True)
class IntervalGrid:
    """The intervals of a phase, in ns of the host's clock; origins are on its monotonic clock."""

    run_origin_ns: int
    phase_origin_ns: int
    interval_ns: int
    clock: Clock

    def start_of(self, end_ns: int) -> int:
        """Start of the interval that contains `end_ns` or ends there, since the start of the run."""
        return int(self.starts_of(self.numbers_of(np.array([end_ns])))[0])

    def starts_of(self, number: IntArray) -> IntArray:
        """Starts of intervals, since the start of the run."""
        origin = self.clock.from_host_ns(self.phase_origin_ns - self.run_origin_ns)
        return origin + number * self.clock.from_host_ns(self.interval_ns)

    def numbers_of(self, end_ns: IntArray) -> IntArray:
        """The interval, from 0, that contains each of `end_ns` or ends there."""
        return np.maximum(-(-(end_ns - self.phase_origin_ns) // self.interval_ns) - 1, 0)


def aligned(origin_ns: int, printed_ns: Sequence[int], interval_ns: int) -> int:
    """The begin of the grid: the last due time of a print that is not after `origin_ns`.

    So a column has the server's counts between two prints, and the clients' I/Os of the same time.
    """
    if not printed_ns:
        return origin_ns
    # Some prints are late by some ticks; the median is not.
    half = interval_ns // 2
    offsets = sorted((at - printed_ns[0] + half) % interval_ns - half for at in printed_ns)
    due = printed_ns[0] + offsets[len(offsets) // 2]
    return origin_ns - (origin_ns - due) % interval_ns


def regular(trace: Trace) -> list[Snapshot]:
    """The snapshots of the program's timer, without the one at the end of the phase."""
    return trace.snapshots[:-1] if trace.ended else trace.snapshots


def server_cells(trace: Trace, grid: IntervalGrid, vdevs: Vdevs) -> Cells:
    """The tracer's counts. Raises ValueError if they are not cumulative."""
    numbers: dict[tuple[str, str], int] = {}
    parts: list[tuple[int, int, IntArray, IntArray]] = []
    regular_count = len(regular(trace))
    for number, change in enumerate(differences(trace.snapshots)):
        # A print that is late by some ticks belongs to the interval of its due time.
        end_ns = change.at_ns - (grid.interval_ns * 7 // 8 if number < regular_count else 0)
        for (op, seen, vdev), counts in change.counts.items():
            mine = numbers.setdefault((op, tier_of(op, seen, vdev, vdevs)), len(numbers))
            bins, ios = (np.fromiter(each, np.int64, len(counts)) for each in (counts, counts.values()))
            parts.append((end_ns, mine, bins, ios))
    if not parts:
        return pl.DataFrame(schema=_CELLS)
    ends_ns, kinds, *columns = zip(*parts, strict=True)
    lengths = [each.size for each in columns[0]]
    rows = np.repeat(ends_ns, lengths), np.repeat(kinds, lengths), *map(np.concatenate, columns)
    return counted(grid, list(numbers), *rows)


def client_rows(
    clients: Sequence[tuple[str, ClientLatencies | ClientWindows, Offset]],
    grid: IntervalGrid,
) -> list[ClientRow]:
    """First and last I/O of each client, and their number: rows of the manifest, in the experiment's ns.

    `clients` is on the server's time axis. `skew_ns`: from the first I/O of all clients to this client's.
    """
    starts = {host: ios.first_ns for host, ios, _ in clients if ios.ios}
    first = min(starts.values(), default=0)
    to_experiment = grid.clock.from_host_ns
    return [
        ClientRow(
            host=host,
            ios=ios.ios,
            first_ns=to_experiment(starts[host] - grid.run_origin_ns) if host in starts else None,
            last_ns=to_experiment(ios.last_ns - grid.run_origin_ns) if host in starts else None,
            skew_ns=to_experiment(starts[host] - first) if host in starts else None,
            clock_offset_ns=offset.ns,
            clock_error_ns=to_experiment(offset.error_ns),
        )
        for host, ios, offset in clients
    ]


def late_clients(rows: Sequence[ClientRow], most_ns: int) -> list[str]:
    """Problems: clients that began more than `most_ns` after the first one."""
    return [
        f"the clients did not start together: the first I/O of {row.host} came "
        f"{row.skew_ns / 1e6:.1f} ms after that of the first client, more than {most_ns / 1e6:.1f} ms"
        for row in rows
        if row.skew_ns is not None and row.skew_ns > most_ns
    ]


def client_cells(latencies: ClientLatencies, grid: IntervalGrid) -> Cells:
    """The I/Os of fio's log, each in the interval of its end."""
    index = bin_index(latencies.latency_ns // grid.clock.dilation)
    return counted(grid, CLIENT, latencies.end_ns, latencies.direction, index, np.ones_like(index))


def counted(
    grid: IntervalGrid,
    names: Sequence[tuple[str, str]],
    end_ns: IntArray,
    kind: IntArray,
    index: IntArray,
    count: IntArray,
) -> Cells:
    """`count` I/Os of one interval and bin in each row, which may be there several times; none of 0.

    `kind`: the number of their op and tier in `names`.
    """
    key = ((grid.numbers_of(end_ns) * len(names) + kind) << _BIN_BITS) + index
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    sums = np.add.reduceat(count[order], first) if first.size else first
    key, sums = key[first][sums != 0], sums[sums != 0]
    number, kind = np.divmod(key >> _BIN_BITS, len(names))
    columns = {"time_ns": grid.starts_of(number), "bin": key & ((1 << _BIN_BITS) - 1), "count": sums}
    named = pl.DataFrame(list(names), schema=["op", "tier"], orient="row")[kind]
    return named.with_columns(pl.DataFrame(columns)).select(list(_CELLS))


def frame(cells: Cells, phase: str, layer: str, host: str) -> pl.DataFrame:
    """Rows of latency.parquet."""
    ordered = cells.sort("time_ns", "op", "tier", "bin")
    low, high = bin_edges(ordered["bin"].to_numpy())
    return ordered.with_columns(
        pl.lit(phase).alias("phase"),
        pl.lit(layer).alias("layer"),
        pl.lit(host).alias("host"),
        pl.Series("lo_ns", low),
        pl.Series("hi_ns", high),
    ).select(list(LATENCY_SCHEMA))


def totals(cells: Cells) -> dict[tuple[str, str], int]:
    """I/Os per (op, tier)."""
    sums = cells.group_by("op", "tier").agg(pl.col("count").sum())
    return {(op, tier): count for op, tier, count in sums.iter_rows()}


def server_extremes(trace: Trace, vdevs: Vdevs, host: str) -> list[Extreme]:
    """Exact minimum and maximum latency per (op, tier), in experiment time."""
    extremes: dict[tuple[str, str], tuple[int, int]] = {}
    for key, low in trace.lowest.items():
        high = trace.highest.get(key, low)
        op_tier = key[0], tier_of(*key, vdevs)
        least, most = extremes.get(op_tier, (low, high))
        extremes[op_tier] = min(least, low), max(most, high)
    return [
        Extreme(layer="nfs-server", host=host, op=op, tier=tier, min_ns=low, max_ns=high)
        for (op, tier), (low, high) in sorted(extremes.items())
    ]


def server_sums(trace: Trace, vdevs: Vdevs, host: str) -> list[Sum]:
    """Exact sums of the counted latencies per (op, tier), in experiment time; none if a class has no sum."""
    if set(trace.counts) != set(trace.sums):
        return []
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for key, sum_ns in trace.sums.items():
        op_tier = key[0], tier_of(*key, vdevs)
        ios, before_ns = sums.get(op_tier, (0, 0))
        sums[op_tier] = ios + sum(trace.counts[key].values()), before_ns + sum_ns
    return [
        Sum(layer="nfs-server", host=host, op=op, tier=tier, ios=ios, sum_ns=sum_ns)
        for (op, tier), (ios, sum_ns) in sorted(sums.items())
    ]


def client_extremes(latencies: ClientLatencies | ClientWindows, clock: Clock, host: str) -> list[Extreme]:
    """Exact minimum and maximum latency of one client per op, in experiment time."""
    return [
        Extreme(layer="client", host=host, op=op, tier="all", min_ns=low_ns, max_ns=high_ns)
        for op, (low_ns, high_ns, _, _) in _exact(latencies, clock).items()
    ]


def client_sums(latencies: ClientLatencies | ClientWindows, clock: Clock, host: str) -> list[Sum]:
    """Exact sums of one client's latencies of the ops whose sum is known, in experiment time."""
    return [
        Sum(layer="client", host=host, op=op, tier="all", ios=ios, sum_ns=sum_ns)
        for op, (_, _, ios, sum_ns) in _exact(latencies, clock).items()
        if sum_ns is not None
    ]


def _exact(
    latencies: ClientLatencies | ClientWindows, clock: Clock
) -> dict[str, tuple[int, int, int, int | None]]:
    """Of each op that occurs the least and largest latency, the I/Os, and the sum, None if not known.

    In ns of experiment time.
    """
    found: dict[str, tuple[int, int, int, int | None]] = {}
    if isinstance(latencies, ClientWindows):
        ios_by_op = latencies.by_op()
        for direction, ends_ns in sorted(latencies.extremes_ns.items()):
            op, sum_ns = OPS[direction], latencies.sums_ns.get(direction)
            low_ns, high_ns = map(clock.from_host_ns, ends_ns)
            exact_ns = None if sum_ns is None else clock.from_host_ns(sum_ns)
            found[op] = low_ns, high_ns, ios_by_op[op], exact_ns
        return found
    for direction, op in enumerate(OPS):
        mine = latencies.latency_ns[latencies.direction == direction] // clock.dilation
        if mine.size:
            found[op] = int(mine.min()), int(mine.max()), mine.size, total_ns(mine)
    return found


def in_order_ns(clients: Sequence[ClientLatencies | ClientWindows], clock: Clock) -> tuple[int, ...]:
    """The latencies (ns of experiment time) of the one client that logged each, by the ends of its I/Os."""
    if len(clients) != 1 or not isinstance(clients[0], ClientLatencies):
        return ()
    order = np.argsort(clients[0].end_ns, kind="stable")[:MOST_IN_ORDER]
    return tuple(int(latency) for latency in clients[0].latency_ns[order] // clock.dilation)
