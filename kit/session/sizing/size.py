"""The work of `hsp size`: a trace, the server that it is of, and what other sizes of caches would answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from kit.config.tables.phase_table import MOST_ONE_IN
from kit.core.errors import ConfigError
from kit.core.text import listed, safe_text, whole
from kit.session.sizing.key_list import read_key_list
from kit.sizes import tier_sizes
from kit.sizes.tier_sizes import (
    LABELS_BYTES,
    LEAST_ARC_BYTES,
    MOST_RECORD_BYTES,
    SPECIAL_RESERVE_PERCENT,
    Sizes,
    record_cost,
    special_device_bytes,
    structures,
)
from kit.store.json_file import DAMAGED
from kit.store.manifest import Manifest, read_manifest
from kit.store.phase import Phase
from kit.store.printed.sizing import ReadLatency, SizeResult
from kit.store.run_directory import RunDir, named_run
from kit.store.tables import deciding_layer, read_keys, read_latency
from kit.zfs.openzfs_version import ZfsVersion, parse
from reports.size.arc import BELOW
from reports.size.curve import sizing_of
from reports.size.l2arc import Feed
from reports.size.trace import TIER_NUMBERS, WARM_PART, BlockTrace, CacheServer
from reports.size.words import result_of

_MOST_BYTES = 1 << 58
_RESERVE = "zfs_special_class_metadata_reserve_pct"
# Of SSDs in pools that `zpool create` makes today: ashift 12.
_SECTOR_BYTES = 4096
_TUNABLES = {
    "l2arc_write_max", "l2arc_write_boost", "l2arc_headroom", "l2arc_feed_secs", "l2arc_feed_min_ms",
    "l2arc_feed_again", "l2arc_mfuonly", "zfs_multilist_num_sublists", _RESERVE,
}  # fmt: skip
_FEWEST_SUBLISTS = 4


@dataclass(frozen=True)
class AskedSizes:
    """Options of the command. `arcs`, `l2arcs`, `specials`: sizes to judge.

    `arc`, `l2arc`: of now; None: of the run.
    """

    arcs: Sequence[int] = ()
    l2arcs: Sequence[int] = ()
    specials: Sequence[int] = ()
    arc: int | None = None
    l2arc: int | None = None
    block: int | None = None
    version: str | None = None
    tunables: Sequence[str] = ()
    compressratio: float = 1.0


def sized(path: Path, asked: AskedSizes) -> SizeResult:
    """What a run, RUN:PHASE or a list of keys tells of other sizes. Raises ConfigError."""
    if path.is_dir():
        return _of_run(path, "", asked)
    run, _, phase = path.name.rpartition(":")
    if run and path.with_name(run).is_dir():
        return _of_run(path.with_name(run), phase, asked)
    trace = read_key_list(path, asked.block)
    if asked.arc is None:
        raise ConfigError(
            f"{path}: a list of keys does not say how large the ARC is",
            "add --arc-now, such as --arc-now 64GiB",
        )
    notes = [f"{_version(None)} is taken (--zfs)."] if asked.version is None else []
    if trace.time_ns is None:
        notes.append("The list has no times: all that leaves the ARC is taken to be in the L2ARC.")
    server, more = cache_server(trace, asked, {}, asked.arc, asked.l2arc or 0, asked.version, 0)
    return _answer(trace, server, asked, [*notes, *more], name=path.name)


def _answer(
    trace: BlockTrace, server: CacheServer, asked: AskedSizes, notes: Sequence[str], **about: Any
) -> SizeResult:
    """`about`: keys of the result. Raises ConfigError."""
    for size in (*asked.arcs, server.arc):
        if size < LEAST_ARC_BYTES:
            raise ConfigError(f"an ARC of {size} bytes: OpenZFS has none below 64MiB", "give a larger one")
    for size in (*asked.arcs, *asked.l2arcs, *asked.specials, server.arc, server.l2arc):
        if size > _MOST_BYTES:
            raise ConfigError(f"{size} bytes are more than any cache or vdev has", "give one below 262144TiB")
    return result_of(sizing_of(trace, server, asked.arcs, asked.l2arcs, asked.specials), notes, **about)


def _of_run(path: Path, phase: str, asked: AskedSizes) -> SizeResult:
    directory = named_run(path)
    manifest = read_manifest(directory)
    keys = read_keys(directory)
    if not keys.height:
        raise ConfigError(
            f"{path}: it has no keys.parquet: it did not sample which blocks were asked for",
            "sample them: `hsp observe HOST --keys 64`, or `keys = 8` in a phase of a workload",
        )
    name, keys = _of_phase(path, keys, phase)
    stored = manifest.phase_named(name)
    if stored is None and manifest.phases:
        stored = manifest.phases[-1]
    # The parameters of the module are in the host's time.
    trace = _trace(path, keys, manifest.clock.dilation if manifest.clock else 1)
    latency = _read_latency(directory, stored, trace, keys)
    trace = replace(trace, measured_below=latency.disks if latency else None)
    tunables = manifest.zfs_parameters
    arc, l2arc = _sizes_now(path, manifest, stored, tunables, asked)
    version = asked.version or (manifest.versions or {}).get("zfs")
    cpus = max((each.cpus for each in stored.cpu), default=0) if stored else 0
    server, notes = cache_server(trace, asked, tunables, arc, l2arc, version, cpus)
    if l2arc and asked.l2arc is None and manifest.testbed.of_role("cache"):
        notes.append("The L2ARC of now is taken to be the cache devices as a whole (--l2arc-now).")
    return _answer(
        trace, server, asked, notes, name=f"{path.name}:{name}" if name else path.name,
        utc=manifest.started_utc, emulated=bool(manifest.testbed.emulated), read_latency=latency,
    )  # fmt: skip


def _of_phase(path: Path, keys: pl.DataFrame, phase: str) -> tuple[str, pl.DataFrame]:
    """The one phase that has keys, or the one that was asked for. Raises ConfigError."""
    names = keys["phase"].unique(maintain_order=True).to_list()
    if (not phase and len(names) > 1) or (phase and phase not in names):
        found = listed([safe_text(str(name)) for name in names[:8]])
        raise ConfigError(f"{path}: keys were sampled in {found}", f"name one: {path.name}:PHASE")
    chosen = phase or names[0]
    return chosen, keys.filter(pl.col("phase") == chosen).sort("time_ns", maintain_order=True)


def _trace(path: Path, keys: pl.DataFrame, dilation: int) -> BlockTrace:
    one_in = keys["one_in"].unique().sort().to_list()
    if len(one_in) > 1:
        raise ConfigError(
            f"{path}: blocks were sampled at {len(one_in)} rates, one in {one_in[0]} to one in {one_in[-1]}",
            "sample again; a larger number from the beginning keeps it",
        )
    if one_in[0] > MOST_ONE_IN:
        raise ConfigError(f"{path}: keys.parquet has one in {one_in[0]} blocks: none is sampled so", DAMAGED)
    keys = keys.filter(pl.col("op").is_in(["read", "write"]))
    if not keys.height:
        raise ConfigError(f"{path}: keys.parquet has neither reads nor writes", "sample again under load")
    if keys["block_bytes"].max() > MOST_RECORD_BYTES:  # type: ignore[operator]
        raise ConfigError(f"{path}: keys.parquet has blocks above 16 MiB: OpenZFS has none", DAMAGED)
    blocks, last, number = np.unique(keys["key"].to_numpy()[::-1], return_index=True, return_inverse=True)
    times = keys["time_ns"].to_numpy()
    tiers = keys["tier"].replace_strict(TIER_NUMBERS, default=-1, return_dtype=pl.Int8).to_numpy()
    return BlockTrace(
        block=number[::-1].astype(np.int64), is_read=(keys["op"] == "read").to_numpy(),
        time_ns=(times - times[0]) * dilation, hashed=blocks,
        bytes_of=keys["block_bytes"].to_numpy()[::-1][last],
        place=np.arange(keys.height) / keys.height, one_in=float(one_in[0]), measured=tiers,
        has_special=bool((keys["tier"] == "special").any()),
    )  # fmt: skip


def _read_latency(
    directory: RunDir, phase: Phase | None, trace: BlockTrace, keys: pl.DataFrame
) -> ReadLatency | None:
    """What the server counted of all reads in the time that counts. None: most tiers are not known."""
    latency = read_latency(directory)
    layer = deciding_layer(latency["layer"].unique().to_list())
    times = keys.filter(pl.col("op").is_in(["read", "write"]))["time_ns"]
    begin = int(times[min(int(np.searchsorted(trace.place, WARM_PART)), len(times) - 1)])
    begin += phase.start_ns if phase else 0
    rows = latency.filter(
        (pl.col("layer") == layer) & (pl.col("op") == "read") & (pl.col("time_ns") >= begin)
        & ((pl.col("phase") == phase.name) if phase else True)
    )  # fmt: skip
    known = rows.filter(pl.col("tier").is_in(list(TIER_NUMBERS)))
    below = known.filter(pl.col("tier").replace_strict(TIER_NUMBERS, return_dtype=pl.Int8) == BELOW)
    number, disks = (int(each["count"].sum()) for each in (known, below))
    # Where most are not known, those that are may be any.
    if not number or number < int(rows["count"].sum()) / 2:
        return None
    return ReadLatency.made(
        directory.path, mean_us=_mean_us(known), disk_mean_us=_mean_us(below), disks=disks / number
    )


def _mean_us(rows: pl.DataFrame) -> float:
    """By the middles of bins, which are known to 2 %; 0 without rows."""
    middles_us = (rows["lo_ns"].cast(pl.Float64) + rows["hi_ns"]) / 2e3
    return float((middles_us * rows["count"]).sum() / max(int(rows["count"].sum()), 1))


def _sizes_now(
    path: Path, manifest: Manifest, phase: Phase | None, tunables: Mapping[str, str], asked: AskedSizes
) -> tuple[int, int]:
    """ARC and L2ARC: as asked for, as set, or as the server's counters had them in the end."""
    limit = tunables.get("zfs_arc_max", "0")
    counters = phase.arc if phase else None
    arc = asked.arc or whole(limit) or 0
    arc = arc or ((counters.limit_bytes or counters.size_bytes) if counters else 0) or 0
    if not arc:
        raise ConfigError(
            f"{path}: it does not say how large the ARC is", "add --arc-now, such as --arc-now 64GiB"
        )
    if asked.l2arc is not None:
        return arc, asked.l2arc
    held = (counters.l2arc_bytes if counters else None) or 0
    devices = [each.size_bytes for each in manifest.testbed.of_role("cache") if each.size_bytes]
    # A run may have taken them out.
    return arc, (sum(devices) if held else 0) or held


def _version(text: str | None) -> ZfsVersion:
    try:
        return parse(text) if text else tier_sizes.NEWEST
    except ValueError as error:
        raise ConfigError(f"--zfs: {error}", "such as --zfs 2.3") from None


def cache_server(
    trace: BlockTrace,
    asked: AskedSizes,
    found: Mapping[str, str],
    arc: int,
    l2arc: int,
    version: str | None,
    cpus: int,
) -> tuple[CacheServer, list[str]]:
    """The server that a trace is of, and what was taken for granted, as sentences. Raises ConfigError.

    `found`: its tunables; `version`: of OpenZFS, None: the newest; `cpus`: 0 where that is not known.
    """
    known = _version(version)
    own = structures(known)
    notes = []
    tunables = _tunables(asked, found)
    reserve = tunables.get(_RESERVE, SPECIAL_RESERVE_PERCENT)
    if "l2arc_write_max" not in tunables:
        notes.append(f"Tunables of the L2ARC are the defaults of {known}.")
    if asked.compressratio == 1:
        notes.append(
            "Blocks are taken to be as large in caches and on vdevs as before compression (--compressratio)."
        )
    mean = max(int(np.mean(trace.bytes_of)), 512)

    def stored(size: int) -> int:
        return max(int(size / asked.compressratio), 1)

    def overhead(arc_bytes: int, l2arc_bytes: int) -> int:
        sizes = Sizes(
            stored(mean), max(int(trace.seen_bytes / asked.compressratio), mean), arc_bytes, l2arc_bytes,
            version=known,
        )  # fmt: skip
        content = tier_sizes.content(sizes)
        return min(content.metadata + content.dbuf, arc_bytes)

    return CacheServer(
        arc, l2arc, (known.major, known.minor), own.header, own.l2_header,
        lambda size: record_cost(stored(size), known) - own.header, overhead,
        lambda size: max(size - LABELS_BYTES, 0), _feed(tunables, own.l2arc_write, cpus, trace),
        LEAST_ARC_BYTES, lambda size: -(-stored(size) // _SECTOR_BYTES) * _SECTOR_BYTES,
        lambda room: special_device_bytes(int(room), 1.0, 0, 1 - reserve / 100),
    ), notes  # fmt: skip


def _tunables(asked: AskedSizes, found: Mapping[str, str]) -> dict[str, int]:
    """As found on the server, and as the options say. Raises ConfigError."""
    values = {name: int(text) for name, text in found.items() if name in _TUNABLES and _is_number(text)}
    for each in asked.tunables:
        name, equals, text = each.partition("=")
        if name not in _TUNABLES or not equals or not _is_number(text):
            raise ConfigError(
                f"--tunable {safe_text(each[:60])}: not NAME=NUMBER of {', '.join(sorted(_TUNABLES))}",
                "such as --tunable l2arc_write_max=67108864",
            )
        values[name] = int(text)
    return values


def _feed(values: Mapping[str, int], write: int, cpus: int, trace: BlockTrace) -> Feed:
    # The default of 8 came with the larger writes.
    headroom = 2 if write < 32 << 20 else 8
    get = values.get
    return Feed(
        get("l2arc_write_max") or write, get("l2arc_write_boost", write), get("l2arc_headroom", headroom),
        max(get("l2arc_feed_secs", 1), 1) * 10**9, max(get("l2arc_feed_min_ms", 200), 1) * 10**6,
        get("l2arc_feed_again", 1) != 0, get("l2arc_mfuonly", 0) != 0,
        get("zfs_multilist_num_sublists") or max(cpus, _FEWEST_SUBLISTS), trace.time_ns is not None,
    )  # fmt: skip


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19
