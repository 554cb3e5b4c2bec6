"""From what tracer and fio said of one phase to the rows of latency.parquet. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from kit.core.bins import bin_edges, bin_index
from kit.core.clock import Clock
from kit.hosts.clock_offset import Offset
from kit.load.fio_latency_log import ClientLatencies
from kit.store.phase import ClientRow, Extreme
from kit.store.tables import LATENCY_SCHEMA
from kit.trace.output import Snapshot, Trace, differences
from kit.trace.tier import tier_of

# (start of interval ns, op, tier, bin index) -> I/Os
Cells = Counter[tuple[int, str, str, int]]


@dataclass(frozen=True)
class Grid:
    """The intervals of a phase: all in ns of the host's clock, `origin` on its monotonic one."""

    run_origin_ns: int
    phase_origin_ns: int
    interval_ns: int
    clock: Clock

    def start_of(self, end_ns: int) -> int:
        """Start of the interval that ends at or contains `end_ns`, as time since the run began."""
        index = max(0, -(-(end_ns - self.phase_origin_ns) // self.interval_ns) - 1)
        origin = self.clock.from_host_ns(self.phase_origin_ns - self.run_origin_ns)
        return origin + index * self.clock.from_host_ns(self.interval_ns)


def aligned(origin_ns: int, printed_ns: Sequence[int], interval_ns: int) -> int:
    """The last moment not after `origin_ns` at which an instrument was due to print: the grid begins there.

    So a column has what was counted between two prints, and the clients' I/Os of the same time.
    """
    if not printed_ns:
        return origin_ns
    # Prints may be late, by some ticks; most are not.
    half = interval_ns // 2
    offsets = sorted((at - printed_ns[0] + half) % interval_ns - half for at in printed_ns)
    due = printed_ns[0] + offsets[len(offsets) // 2]
    return origin_ns - (origin_ns - due) % interval_ns


def regular(trace: Trace) -> list[Snapshot]:
    """The snapshots of the program's timer; the one at its end has a time of its own."""
    return trace.snapshots[:-1] if trace.ended else trace.snapshots


def server_cells(trace: Trace, grid: Grid, log_vdevs: frozenset[int]) -> Cells:
    """What the server's tracer counted. Raises ValueError if it is not cumulative."""
    cells: Cells = Counter()
    in_time = len(regular(trace))
    for number, change in enumerate(differences(trace.snapshots)):
        # A print that is late by some ticks still belongs to the interval that was due.
        late_ns = grid.interval_ns * 7 // 8 if number < in_time else 0
        start = grid.start_of(change.at_ns - late_ns)
        for (op, seen, vdev), counts in change.counts.items():
            tier = tier_of(op, seen, vdev, log_vdevs)
            for index, count in counts.items():
                cells[start, op, tier, index] += count
    return cells


def on_axis(latencies: ClientLatencies, offset: Offset) -> ClientLatencies:
    """The same I/Os where they belong on the server's time axis. What each took is not touched."""
    return replace(latencies, end_ns=latencies.end_ns - offset.ns)


def client_rows(
    found: Sequence[tuple[str, ClientLatencies, Offset]], grid: Grid, run_origin_ns: int
) -> list[ClientRow]:
    """When each client began and ended, and how many I/Os it made; rows of the manifest, experiment's ns.

    `skew_ns` is from the first I/O of any client to the client's first; `found` is on the server's axis.
    """
    starts = {host: int((seen.end_ns - seen.latency_ns).min()) for host, seen, _ in found if seen.end_ns.size}
    first = min(starts.values(), default=0)
    to_experiment = grid.clock.from_host_ns
    return [
        ClientRow(
            host=host,
            ios=int(seen.end_ns.size),
            first_ns=to_experiment(starts[host] - run_origin_ns) if host in starts else None,
            last_ns=to_experiment(int(seen.end_ns.max()) - run_origin_ns) if host in starts else None,
            skew_ns=to_experiment(starts[host] - first) if host in starts else None,
            clock_offset_ns=offset.ns,
            clock_error_ns=to_experiment(offset.error_ns),
        )
        for host, seen, offset in found
    ]


def late_clients(rows: Sequence[ClientRow], most_ns: int) -> list[str]:
    """Clients that began more than `most_ns` after the first one, in words. Pure."""
    return [
        f"the clients did not start together: the first I/O of {row.host} came "
        f"{row.skew_ns / 1e6:.1f} ms after that of the first client, more than {most_ns / 1e6:.1f} ms"
        for row in rows
        if row.skew_ns is not None and row.skew_ns > most_ns
    ]


def client_cells(latencies: ClientLatencies, grid: Grid) -> Cells:
    """What fio logged, each I/O in the interval of its end."""
    cells: Cells = Counter()
    reported = latencies.latency_ns // grid.clock.dilation
    for end_ns, direction, index in zip(
        latencies.end_ns.tolist(),
        latencies.direction.tolist(),
        bin_index(reported).tolist(),
        strict=True,
    ):
        cells[grid.start_of(end_ns), ("read", "write")[direction], "all", index] += 1
    return cells


def frame(cells: Cells, phase: str, layer: str, host: str) -> pl.DataFrame:
    """Rows of latency.parquet."""
    keys = sorted(cells)
    lows, highs = bin_edges(np.array([key[3] for key in keys], dtype=np.int64))
    return pl.DataFrame(
        {
            "time_ns": [key[0] for key in keys],
            "phase": [phase] * len(keys),
            "layer": [layer] * len(keys),
            "host": [host] * len(keys),
            "op": [key[1] for key in keys],
            "tier": [key[2] for key in keys],
            "lo_ns": lows.tolist(),
            "hi_ns": highs.tolist(),
            "count": [cells[key] for key in keys],
        },
        schema=LATENCY_SCHEMA,
    )


def totals(cells: Cells) -> dict[tuple[str, str], int]:
    """I/Os per (op, tier)."""
    sums: Counter[tuple[str, str]] = Counter()
    for (_, op, tier, _), count in cells.items():
        sums[op, tier] += count
    return dict(sums)


def server_extremes(trace: Trace, log_vdevs: frozenset[int], host: str) -> list[Extreme]:
    """Exact smallest and largest latency per (op, tier), already in experiment time."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for key, low in trace.lowest.items():
        high = trace.highest.get(key, low)
        where = key[0], tier_of(*key, log_vdevs)
        before = found.get(where, (low, high))
        found[where] = min(before[0], low), max(before[1], high)
    return [
        Extreme(layer="nfs-server", host=host, op=op, tier=tier, min_ns=low, max_ns=high)
        for (op, tier), (low, high) in sorted(found.items())
    ]


def client_extremes(latencies: ClientLatencies, clock: Clock, host: str) -> list[Extreme]:
    """The same for one client, per op."""
    rows = []
    for direction, op in enumerate(("read", "write")):
        chosen = latencies.latency_ns[latencies.direction == direction] // clock.dilation
        if chosen.size:
            rows.append(
                Extreme(
                    layer="client",
                    host=host,
                    op=op,
                    tier="all",
                    min_ns=int(chosen.min()),
                    max_ns=int(chosen.max()),
                )
            )
    return rows
