"""What each of several clients saw, or each of several devices that a load went to, and all together.

All together are the counts of the clients' histograms, added bin by bin, and percentiles of the sum: a
percentile is never an average of percentiles. Rates are all over the same time, from the first I/O of any
client to the last of any, so that they add up as well.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from kit.core.text import whole
from kit.core.units import format_latency
from kit.store.manifest import Manifest
from kit.store.parts.client_figures import ClientFigures
from kit.store.phase import Phase
from kit.store.summary import Range
from kit.store.tables import CLIENT, ISSUERS, SERVER
from reports.features.network import judge as network
from reports.statistics.quantiles import Bins, figures_us, interpolated_figures_us, limits_ns, summed

ALL = "all"
_TIMES, _MORE_US = 2, 1000
_THREADS = "/proc/fs/nfsd/threads"


def describe(latency: pl.DataFrame, phases: Sequence[Phase]) -> list[ClientFigures]:
    """One object per phase, op and client, after one of them all (`merged`); none where one client is all.

    Latencies in microseconds, rates in I/O/s of the experiment's time, the skew in microseconds after the
    first I/O of any client. Raises ValueError if the exact extremes of a row are not in its outermost bins.
    """
    mine = latency.filter((pl.col("layer").is_in(ISSUERS)) & (pl.col("count") > 0))
    rows: list[ClientFigures] = []
    for phase in phases:
        named = mine.filter(pl.col("phase") == phase.name)
        if named["host"].n_unique() > 1:
            rows += _of_phase(named, phase)
    return rows


def _of_phase(frame: pl.DataFrame, phase: Phase) -> Iterator[ClientFigures]:
    by_host = {row.host: row for row in phase.clients}
    begun = [row.first_ns for row in phase.clients if row.first_ns is not None]
    ended = [row.last_ns for row in phase.clients if row.last_ns is not None]
    seconds = (max(ended) - min(begun)) / 1e9 if begun and ended else 0.0
    for (op,), of_op in sorted(frame.group_by("op")):
        hosts: list[str] = sorted(of_op["host"].unique().to_list(), key=_natural)
        for host, named in ((ALL, hosts), *((host, [host]) for host in hosts)):
            rows, extremes = [by_host.get(name) for name in named], _extremes(phase, str(op), named)
            bins = summed(of_op.filter(pl.col("host").is_in(named)))
            count = sum(b[2] for b in bins)
            yield ClientFigures(
                phase=phase.name, op=str(op), host=host, merged=named is hosts,
                count=count, iops=count / seconds if seconds > 0 else None,
                skew_us=_largest_us([row.skew_ns if row else None for row in rows]),
                clock_error_us=_largest_us([row.clock_error_ns if row else None for row in rows]),
                **interpolated_figures_us(bins, _limits_ns(bins, extremes))[0],
            )  # fmt: skip


def _natural(name: str) -> list[int | str]:
    """Numbers in a name by their value: 2 before 10."""
    return [part if (number := whole(part)) is None else number for part in re.split("([0-9]{1,20})", name)]


def slowest(rows: Sequence[ClientFigures]) -> Iterator[str]:
    """Of each op the client, or the file of an import, whose p50 is far above that of the others."""
    for (_, op), grouped in itertools.groupby(rows, key=lambda row: (row.phase, row.op)):
        known = sorted((row.p50_us, row.host) for row in grouped if row.p50_us and not row.merged)
        if len(known) < 2:
            continue
        (*others, (most_us, host)), count = known, len(known) - 1
        usual_us = others[count // 2][0]
        if most_us > _TIMES * usual_us:
            beside = f"{count} others" if count > 1 else "other"
            yield (
                f"{host} is slow: p50 of its {op}s is {format_latency(most_us)}, that of the {beside} "
                f"{format_latency(usual_us)}."
            )


def _limits_ns(bins: Bins, extremes: list[tuple[int, int]]) -> tuple[int, int]:
    overlap = any(b[0] < a[1] for a, b in itertools.pairwise(bins))
    return (bins[0][0], bins[-1][1]) if overlap else limits_ns(bins, extremes)


def _extremes(phase: Phase, op: str, hosts: list[str]) -> list[tuple[int, int]]:
    """The exact extremes of these clients; none unless each of them has some."""
    mine = [e for e in phase.extremes if e.layer in ISSUERS and e.op == op and e.host in hosts]
    return [(e.min_ns, e.max_ns) for e in mine] if {e.host for e in mine} == set(hosts) else []


def _largest_us(values_ns: Sequence[int | None]) -> float | None:
    """None unless every value is known."""
    known = [value for value in values_ns if value is not None]
    return max(known) / 1e3 if len(known) == len(values_ns) else None


def apart(
    manifest: Manifest, parts: Mapping[object, pl.DataFrame]
) -> Iterator[tuple[tuple[str, str, str], str, Range]]:
    """Phase, layer and op; a sentence; a range of latency in us: what clients see and the server does not.

    `parts`: cells by phase. One of the network where it is most of the latency; of each other phase a gap.
    """
    if by_network := network.mostly(manifest.phases):
        phase_name, op, text, range_us = by_network
        yield (phase_name, CLIENT, op), text, range_us
    for phase in manifest.phases:
        if phase.name in parts and not (by_network and by_network[0] == phase.name):
            for layer, op, text, range_us in _gap(manifest, phase, parts[phase.name]):
                yield (phase.name, layer, op), text, range_us


def _gap(manifest: Manifest, phase: Phase, cells: pl.DataFrame) -> Iterator[tuple[str, str, str, Range]]:
    """Layer, op, a sentence and a range of latency in us.

    The server's clock begins when a thread of nfsd has the request. A gap, else threads that are too few.
    """
    own = [each.set for each in manifest.host_settings if each.path == _THREADS]
    set_ = whole(own[-1]) if own else None
    threads = manifest.nfsd_threads if set_ is None else set_
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
    bins = summed(cells.filter((pl.col("layer") == layer) & (pl.col("op") == op)))
    ios = sum(row[2] for row in bins)
    # Of a damaged file the sums wrap around.
    if not bins or min(row[2] for row in bins) < 0 or not 0 < ios < 1 << 53:
        return None
    p50_us = figures_us(bins, (bins[0][0], bins[-1][1]))["p50_us"]
    return (p50_us, ios) if p50_us else None
