"""What a run stores beside its counts: rows of its clients, and the sums that its instruments have made."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from kit.core.errors import ConfigError
from kit.store.manifest import Manifest
from kit.store.tables import CLIENT, DEVICE, SERVER

Json = dict[str, Any]
# layer, host, op, tier: I/Os
Ios = Mapping[tuple[str, str, str, str], int]
_ARC_ZIL, _SERVER = "arc-zil-counters", "server-activity"
_L2ARC = ("l2_io_error", "l2_cksum_bad", "l2_abort_lowmem")
_ZIL = ("zil_commit_stall_count", "zil_commit_error_count")
_IOS = 10


def completed(manifest: Json, frame: pl.DataFrame) -> Json:
    """A copy of `manifest` whose phases have what a run with the I/Os of `frame` has.

    What is there stays. One that is damaged stays as it is.
    """
    made = copy.deepcopy(manifest)
    if made.get("import") or _is_damaged(made):
        return made
    for phase in made.get("phases", ()):
        mine = frame.filter(pl.col("phase") == phase["name"])
        phase["clients"] = phase.get("clients") or _clients(phase, mine)
        known = Counter(each.get("id") for each in (*phase.get("checks", ()), *phase.get("unavailable", ())))
        for entry in _entries(made, phase, _ios(mine)):
            if known[entry["id"]]:
                known[entry["id"]] -= 1
            else:
                phase.setdefault("checks" if "found" in entry else "unavailable", []).append(entry)
    return made


def _is_damaged(manifest: Json) -> bool:
    try:
        Manifest.from_json(manifest, "manifest.json")
    except ConfigError:
        return True
    return False


def _ios(frame: pl.DataFrame) -> Ios:
    keys = ("layer", "host", "op", "tier")
    sums = frame.group_by(*keys).agg(pl.col("count").sum())
    return Counter({(layer, host, op, tier): count for layer, host, op, tier, count in sums.iter_rows()})


def _of(ios: Ios, layer: str, *ops: str, tier: str | None = None) -> int:
    matching = (n for (at, _, op, of), n in ios.items() if at == layer and op in ops and tier in (None, of))
    return sum(matching)


def _clients(phase: Json, frame: pl.DataFrame) -> list[Json]:
    layer = CLIENT if phase.get("target") in (None, "dataset") else DEVICE
    issued = frame.filter(pl.col("layer") == layer).group_by("host").agg(
        pl.col("count").sum(), first=pl.col("time_ns").min(), last=pl.col("time_ns").max()
    )  # fmt: skip
    begun = issued["first"].min() if issued.height else 0
    return [
        {"host": host, "ios": ios, "first_ns": first, "last_ns": last, "skew_ns": first - begun,
         "clock_offset_ns": 0, "clock_error_ns": 0}
        for host, ios, first, last in issued.sort("host").iter_rows()
    ]  # fmt: skip


def _sum(id_: str, name: str, source: str, ios: int, instrument: str, tolerance: int = 0, **of: str) -> Json:
    return {"id": id_, "name": name, "source": source, "expected": ios, "found": ios, "tolerance": tolerance,
            "ok": True, "instrument": instrument, **of}  # fmt: skip


def _entries(manifest: Json, phase: Json, ios: Ios) -> Iterator[Json]:
    """Of a phase that a server of the testbed has answered."""
    on_devices = phase.get("target") not in (None, "dataset")
    if on_devices or manifest.get("appliance") or not manifest.get("testbed", {}).get("server"):
        return
    over_nfs = phase.get("target") is None
    traced = any(layer == SERVER for layer, *_ in ios)
    if over_nfs and traced and _of(ios, SERVER, "read"):
        yield from _reads(ios)
    if over_nfs and traced and _of(ios, SERVER, "write", "commit"):
        yield from _writes(ios)
    issued = any(layer == CLIENT for layer, *_ in ios)
    for op in _ops(phase) if over_nfs else ():
        yield from _nfs(phase, op, _of(ios, CLIENT, op) if issued else phase["client_ios"])
    yield _sum("TRIM", "trimmed extents", "iostats *trim_extents_written", 0, _SERVER)
    yield _sum("DIRECT-IO", "direct I/O, past the ARC", "iostats direct_*_count", 0, _SERVER)
    yield _sum("CPU-STEAL", "CPU steal time, in 10 ms", "/proc/stat steal", 0, _SERVER)
    if over_nfs and not traced:
        why = "the server was not traced"
        yield {"id": "TIERS-TRACED", "name": "I/Os by tier", "source": "arcstats, ZIL", "why": why}
        yield {"id": "SERVER-LATENCY", "name": "latency at the server", "source": "nfsd.bt", "why": why}


def _ops(phase: Json) -> list[str]:
    both = ["read", "write"]
    return list(phase.get("block_bytes_by_op") or {"mixed": both, None: []}.get(op := phase.get("op"), [op]))


def _nfs(phase: Json, op: str, calls: int) -> Iterator[Json]:
    size = phase.get("block_bytes_by_op", {}).get(op, phase.get("block_bytes")) or 0
    name = f"NFS {op.upper()} calls"
    yield _sum("NFS-CALLS", name, "/proc/net/rpc/nfsd proc3, proc4ops", calls, _SERVER, op=op)
    yield _sum("NFS-BYTES", f"bytes of {name}", "/proc/net/rpc/nfsd io", calls * size, _SERVER, op=op)


def _reads(ios: Ios) -> Iterator[Json]:
    dram, l2arc, disk, indirect = (
        _of(ios, SERVER, "read", tier=tier) for tier in ("dram", "l2arc", "disk", "indirect")
    )
    missed = l2arc + disk + indirect
    misses = "reads that missed the ARC", "arcstats demand_data_misses"
    yield _sum("ARC-MISSES", *misses, missed, _ARC_ZIL, _IOS)
    yield _sum("L2ARC-HITS", "reads from L2ARC", "arcstats l2_hits", l2arc, _ARC_ZIL, _IOS)
    yield _sum("ARC-HITS", "reads from DRAM", "arcstats demand_data_hits", dram, _ARC_ZIL, _IOS)
    for counter in _L2ARC:
        yield _sum("L2ARC-ERRORS", "L2ARC errors", f"arcstats {counter}", 0, _ARC_ZIL)


def _writes(ios: Ios) -> Iterator[Json]:
    slog, pool, dram = (_of(ios, SERVER, "write", "commit", tier=tier) for tier in ("slog", "pool", "dram"))
    synchronous = _of(ios, SERVER, "write", "commit") - dram
    blocks = "log blocks on the log device", "ZIL zil_itx_metaslab_slog_count"
    yield _sum("ZIL-COMMITS", "synchronous writes", "ZIL zil_commit_count", synchronous, _ARC_ZIL, _IOS)
    yield _sum("ZIL-SLOG-BLOCKS", *blocks, slog, _ARC_ZIL, _IOS)
    normal = "ZIL zil_itx_metaslab_normal_count"
    yield _sum("ZIL-POOL-BLOCKS", "log blocks in the pool", normal, pool, _ARC_ZIL, _IOS)
    if slog:
        yield _sum("ZIL-INDIRECT", "indirect writes", "ZIL zil_itx_indirect_count", 0, _ARC_ZIL)
    for counter in _ZIL:
        yield _sum("ZIL-ERRORS", "ZIL stalls and errors", f"ZIL {counter}", 0, _ARC_ZIL)
