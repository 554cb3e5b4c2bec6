"""hsp size: shares by a sample of one in 8 blocks, beside those by all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np

from kit.store.printed.sizing import CacheSize, ReadLatency, SizeResult
from reports.sheet.sized import mean_of_reads
from reports.size.curve import Sizing, sizing_of
from reports.size.simulate import simulate
from reports.size.words import result_of
from tests.reports.size import loads
from tests.truth.trials import Trial

_BLOCKS, _READS, _ONE_IN = 20_000, 120_000, 8
_ALL = _BLOCKS * loads.BLOCK
# The ARC now, and what is asked for, as parts of all blocks: three ARCs, and three L2ARCs below the first.
_NOW = 0.1
_SIZES = ((0.1, 0.0), (0.2, 0.0), (0.4, 0.0), (0.1, 0.2), (0.1, 0.35), (0.1, 0.5))
_LOADS = {
    "uniform": "uniform reads", "0.8": "Zipf 0.8", "1.1": "Zipf 1.1", "scan": "a scan beside a hot set",
}  # fmt: skip
_TIER_US = np.array([50.0, 200.0, 8000.0])
_BLOCK_SIZES = (4096, 16384, 65536, 131072)
# What is known of all reads: their number (a list of keys), what disks answered (a run), or neither.
_KNOWN = {"number": "their number is known", "disks": "the disks' part is known", "none": "no more is known"}


@cache
def _case(
    kind: str, known: str, seed: int, version: tuple[int, int] = (2, 3)
) -> tuple[CacheSize, float, float]:
    """What is said of one size, the share that both caches answer, and that of the disks' reads now."""
    random = np.random.default_rng(seed)
    full = loads.trace(kind, _BLOCKS, _READS, random)
    sample = loads.sampled(full, _ONE_IN)
    arc, l2arc = (int(part * _ALL) for part in _SIZES[random.integers(len(_SIZES))])
    server = loads.server(int(_NOW * _ALL), version=version)
    now, below = (loads.below(full, server, *size) for size in ((server.arc, 0), (arc, l2arc)))
    if known != "number":
        sample = replace(sample, all_reads=None, measured_below=now if known == "disks" else None)
    said = sizing_of(sample, server, [] if l2arc else [arc], [l2arc] if l2arc else [])
    return said.sizes[0], 1 - below, 1 - below / now


def holds(random: np.random.Generator, *, kind: str, known: str, version: tuple[int, int] = (2, 3)) -> bool:
    said, share, gain = _case(kind, known, int(random.integers(1 << 62)), version)
    if said.answered is None:
        return True
    of_disks = said.of_disk_reads_now
    if of_disks and not of_disks.low <= gain <= of_disks.high:
        return False
    return bool(said.answered.low <= share <= said.answered.high)


def near(random: np.random.Generator, *, kind: str, known: str) -> bool:
    said, share, _ = _case(kind, known, int(random.integers(1 << 62)))
    return said.answered is None or abs(said.answered.value - share) <= 0.03


def told(random: np.random.Generator, *, kind: str, known: str) -> bool:
    return _case(kind, known, int(random.integers(1 << 62)))[0].answered is not None


@cache
def _between(kind: str, seed: int) -> tuple[SizeResult, CacheSize, float, float]:
    """What is said of an L2ARC between two sizes, and the truth: of the disks' reads now, of the mean read.

    A read takes 50 us from DRAM, 8 ms from disks, and about 200 us from the L2ARC.
    """
    random = np.random.default_rng(seed)
    full = loads.trace(kind, _BLOCKS, _READS, random)
    server = loads.server(int(_NOW * _ALL))
    sizes = [int(part * _ALL) for part in (0.2, random.uniform(0.22, 0.48), 0.5)]
    now, then = (simulate(full, server, server.arc, l2arc, None).total for l2arc in (0, sizes[1]))
    means = [float(each @ _TIER_US / each.sum()) for each in (now, then)]
    disks = float(now[2] / now.sum())
    sample = replace(loads.sampled(full, _ONE_IN), all_reads=None, measured_below=disks)
    latency = ReadLatency(mean_us=means[0], disk_mean_us=float(_TIER_US[2]), disks=disks)
    said = result_of(sizing_of(sample, server, [], sizes[::2]), [], name="load", read_latency=latency)
    return said, said.with_l2arc(sizes[1]), 1 - float(then[2] / now[2]), means[1]


def between(random: np.random.Generator, *, kind: str) -> bool:
    _, size, gain, _ = _between(kind, int(random.integers(1 << 62)))
    of_disks = size.of_disk_reads_now
    return of_disks is None or of_disks.low <= gain <= of_disks.high


def mean_read(random: np.random.Generator, *, kind: str) -> bool:
    said, size, _, truth = _between(kind, int(random.integers(1 << 62)))
    if size.of_disk_reads_now is None:
        return True
    low, high = mean_of_reads(said, size, (_TIER_US[1] / 1.1, _TIER_US[1] * 1.1))
    return low <= truth <= high


def between_told(random: np.random.Generator, *, kind: str) -> bool:
    return _between(kind, int(random.integers(1 << 62)))[1].of_disk_reads_now is not None


@cache
def _special(kind: str, hot: bool, seed: int) -> tuple[Sizing, float, float, int]:
    """What is said of special vdevs; of a limit the truth: its part of disk reads, its room; the limit.

    `hot`: what is asked for often is in smaller blocks.
    """
    random = np.random.default_rng(seed)
    full = loads.trace(kind, _BLOCKS, _READS, random)
    often = np.argsort(np.argsort(-np.bincount(full.block, minlength=_BLOCKS))) / _BLOCKS
    place = often * 0.7 + random.random(_BLOCKS) * 0.3 if hot else random.random(_BLOCKS)
    bytes_of = np.array(_BLOCK_SIZES)[np.minimum(place * len(_BLOCK_SIZES), 3.9).astype(int)]
    full = replace(full, bytes_of=bytes_of).only(np.bincount(full.block, minlength=_BLOCKS) > 0, 1)
    limit = int(random.choice(_BLOCK_SIZES[:-1]))
    is_small = full.bytes_of <= limit
    server = loads.server(int(_NOW * full.bytes_of.sum()))
    tiers = simulate(full, server, server.arc, 0, None).tiers
    at_disks = full.block[full.counts.nonzero()[0][tiers == 2]]
    room = float(full.bytes_of[is_small].sum())
    said = sizing_of(loads.sampled(full, _ONE_IN), server, specials=[int(room * random.uniform(0.8, 1.2))])
    return said, float(is_small[at_disks].mean()), room, limit


def small_share(random: np.random.Generator, *, kind: str, hot: bool) -> bool:
    said, truth, _, limit = _special(kind, hot, int(random.integers(1 << 62)))
    found = [each.of_disk_reads_now for each in said.small if each.limit_bytes == limit]
    return not found or found[0].low <= truth <= found[0].high


def small_room(random: np.random.Generator, *, kind: str, hot: bool) -> bool:
    said, _, truth, limit = _special(kind, hot, int(random.integers(1 << 62)))
    found = [each.room_bytes for each in said.small if each.limit_bytes == limit]
    return not found or found[0].low <= truth <= found[0].high


def small_told(random: np.random.Generator, *, kind: str, hot: bool) -> bool:
    said, _, _, limit = _special(kind, hot, int(random.integers(1 << 62)))
    return any(each.limit_bytes == limit for each in said.small)


def fits_falsely(random: np.random.Generator, *, kind: str, hot: bool) -> bool:
    """The vdev has between 0.8 and 1.2 of the room that the blocks need."""
    said, _, room, limit = _special(kind, hot, int(random.integers(1 << 62)))
    [special] = said.specials
    return bool(special.small and special.small.limit_bytes >= limit and special.special_bytes < room)


TRIALS = [
    *(
        Trial(claim, f"{data}, {_KNOWN[known]}", partial(says, kind=kind, known=known), 1.0, 0.9,
              cases=60 if (kind, known) == ("0.8", "number") else 20)
        for kind, data in _LOADS.items()
        for known in ("number", "disks")
        for claim, says in (("the range holds the share", holds), ("within 3 points", near))
    ),
    *(
        Trial("a share is said", data, partial(told, kind=kind, known="number"), at_least=0.5, cases=20)
        for kind, data in _LOADS.items()
    ),
    *(
        Trial(
            "the range holds the share", f"{data}, {_KNOWN['none']}", partial(holds, kind=kind, known="none"),
            at_least=0.9, cases=20,
        )
        for kind, data in _LOADS.items()
    ),
    Trial(
        "the range holds the share", "Zipf 0.8, OpenZFS 2.1",
        partial(holds, kind="0.8", known="number", version=(2, 1)), at_least=0.9, cases=20,
    ),
    *(
        Trial(claim, _LOADS[kind], partial(says, kind=kind), at_least=least, cases=20)
        for kind in ("uniform", "0.8", "scan")
        for claim, says, least in (
            ("a size between two has a share", between_told, 0.5),
            ("the range of both holds it", between, 0.9),
            ("the range holds the mean read", mean_read, 0.9),
        )
    ),
    *(
        Trial(
            claim, f"{_LOADS[kind]}, {'small blocks are hot' if hot else 'any blocks are small'}",
            partial(says, kind=kind, hot=hot), most, least, cases=20,
        )
        for kind in _LOADS
        for hot in (False, True)
        for claim, says, most, least in (
            ("small blocks have a share", small_told, 1.0, 0.5),
            ("the range holds the share of small blocks", small_share, 1.0, 0.9),
            ("the range holds their room", small_room, 1.0, 0.9),
            ("a special vdev is said to have room, and has not", fits_falsely, 0.05, 0.0),
        )
    ),
]  # fmt: skip
