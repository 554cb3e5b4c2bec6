"""Made-up loads whose truth is known: by a simulation of all their blocks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from reports.size.l2arc import Feed
from reports.size.simulate import simulate
from reports.size.trace import BlockTrace, CacheServer, mixed

BLOCK = 8192
READ_NS = 1_000_000
MIB = 1 << 20


def server(
    arc: int, l2arc: int = 0, version: tuple[int, int] = (2, 3), feed: Feed | None = None
) -> CacheServer:
    """Without metadata and labels, so that a cache is as large as its name."""
    return CacheServer(
        arc, l2arc, version, 240, 96, lambda size: -(-size // 4096) * 4096, lambda arc, l2arc: 0,
        lambda size: size, feed or Feed(32 * MIB, 32 * MIB),
    )  # fmt: skip


def keys(kind: str, blocks: int, reads: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """`kind`: "uniform", an exponent of Zipf, or "scan": half of all reads go to 5 % of the blocks."""
    if kind == "uniform":
        drawn = random.integers(0, blocks, reads)
    elif kind == "scan":
        hot = blocks // 20
        in_order = hot + np.arange(reads) % (blocks - hot)
        drawn = np.where(random.random(reads) < 0.5, random.integers(0, hot, reads), in_order)
    else:
        weights = np.arange(1, blocks + 1) ** -float(kind)
        drawn = random.choice(blocks, reads, p=weights / weights.sum())
    return np.asarray(random.permutation(blocks)[drawn])


def trace(kind: str, blocks: int, reads: int, random: np.random.Generator, one_in: int = 1) -> BlockTrace:
    """Reads at a steady rate; of a sample the number of all reads is known, as of a list of keys."""
    full = BlockTrace(
        keys(kind, blocks, reads, random), np.ones(reads, bool), np.arange(reads) * READ_NS,
        np.full(blocks, BLOCK), mixed(random.integers(0, 2**63, blocks).astype(np.uint64), 1),
        np.arange(reads) / reads, 1.0, all_reads=reads / 2,
    )  # fmt: skip
    return sampled(full, one_in) if one_in > 1 else full


def sampled(full: BlockTrace, one_in: int) -> BlockTrace:
    return full.only(mixed(full.hashed, 3) % np.uint64(one_in) == 0, one_in)


def below(made: BlockTrace, of: CacheServer, arc: int, l2arc: int = 0) -> float:
    """The part of the counted reads that neither cache answers, of all blocks: the truth."""
    total = simulate(made, of, arc, l2arc, None).total
    return float(total[2] / total.sum())
