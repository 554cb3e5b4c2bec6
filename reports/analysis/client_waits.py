"""Where latencies of clients are not those of the server. Pure.

The clock of the server begins when a thread of nfsd has the request: what is before it, only clients see.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from kit.core.units import format_latency
from kit.store.manifest import Manifest
from kit.store.phase import Phase
from kit.store.summary import Range
from kit.store.tables import CLIENT, SERVER
from reports.statistics.quantiles import figures_us

_TIMES, _MORE_US = 2, 1000
_THREADS = "/proc/fs/nfsd/threads"


def apart(manifest: Manifest, phase: Phase, cells: pl.DataFrame) -> Iterator[tuple[str, str, str, Range]]:
    """Layer, op, a sentence and a range of latency in us: of the gap, else of threads that are too few."""
    own = [each.set for each in manifest.host_settings if each.path == _THREADS]
    threads = int(own[-1]) if own and own[-1].isdecimal() else manifest.nfsd_threads
    outstanding = (phase.outstanding or 0) * max(len(phase.clients), 1)
    few = f"{threads} for {outstanding} outstanding requests" if threads and threads < outstanding else ""
    for op in {"mixed": ("read", "write")}.get(phase.op or "", (phase.op or "",)):
        client, server = (_p50_us(cells, layer, op) for layer in (CLIENT, SERVER))
        if client and server and client[0] > max(_TIMES * server[0], server[0] + _MORE_US):
            text = (
                f"The median {op} took {format_latency(client[0])} at the clients and "
                f"{format_latency(server[0])} at the server, from when a thread of nfsd had it: the time is "
                f"between client and nfsd. Look at the threads of nfsd{f' ({few})' if few else ''}, delayed "
                "ACKs of 40 ms (nstat TcpExtDelayedACKs), lost frames (TcpRetransSegs), coalesced interrupts "
                "(ethtool -c)."
            )
            # An I/O that is several calls is no call.
            if client[1] == server[1]:
                yield CLIENT, op, text, (server[0], client[0])
                return
        if few and server:
            text = (
                f"The threads of nfsd are too few, {few}: others wait for a thread before the clock of the "
                f"server begins, so its latencies lack that wait. rpc.nfsd {outstanding} gives each a thread."
            )
            yield SERVER, op, text, (server[0], server[0])
            return


def _p50_us(cells: pl.DataFrame, layer: str, op: str) -> tuple[float, int] | None:
    """The median over all tiers, and of how many I/Os; None where they are too few."""
    mine = cells.filter((pl.col("layer") == layer) & (pl.col("op") == op))
    bins = mine.group_by("lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("lo_ns").rows()
    ios = sum(abs(row[2]) for row in bins)
    # Of a damaged file the sums may wrap around.
    p50_us = figures_us(bins, (bins[0][0], bins[-1][1]))["p50_us"] if 0 < ios < 1 << 53 else None
    return (p50_us, ios) if p50_us else None
