"""Accesses to sampled blocks, in their order, and the server that they were at. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kit.core.errors import ConfigError
from reports.size.arc import BELOW, DRAM, L2ARC
from reports.size.l2arc import Feed

Integers = npt.NDArray[np.int64]
# Groups of blocks, and stretches of the part that counts.
GROUPS, STRETCHES = 8, 12
# Of accesses that are sampled down: more take minutes to simulate and tell no more.
MOST_BLOCKS, MOST_ACCESSES = 1 << 16, 300_000
# The first part fills the caches of the simulation, the rest counts.
WARM_PART = 0.5


@dataclass(frozen=True)
class CacheServer:
    """What the caches of a server do, and their sizes now, in bytes.

    `cost`: of so many bytes of a block, in the ARC's pages; `overhead`: metadata and dbufs of an ARC and an
    L2ARC of such sizes. `device`: bytes of a cache device of that size that are for data, without its labels.
    `least_arc`: OpenZFS has no smaller one. `allocated`: of so many bytes of a block, on a vdev; `special`:
    size of a special vdev that has room for so many of small blocks.
    """

    arc: int
    l2arc: int
    version: tuple[int, int]
    header: int
    l2_header: int
    cost: Callable[[int], int]
    overhead: Callable[[int, int], int]
    device: Callable[[int], int]
    feed: Feed
    least_arc: int = 0
    allocated: Callable[[int], int] = int
    special: Callable[[float], int] = int


@dataclass(frozen=True)
class BlockTrace:
    """One in `one_in` blocks, with all accesses to them: `block` (numbers from 0), `is_read`, `time_ns`.

    `time_ns`: None where there are no times. `bytes_of`, `hashed`: of each block, its size before compression
    and a hash. `place`: of each access, where it stands in the whole trace, from 0 to 1. `all_reads`: in the
    part that counts, those of all blocks, also of those that are not sampled; None: not known. `measured`:
    of each access what answered it on the server, -1: not known; empty: none is.
    `measured_below`: the part of all reads there that neither cache answered. `has_special`: special vdevs
    answered some there.
    """

    block: Integers
    is_read: npt.NDArray[np.bool_]
    time_ns: Integers | None
    bytes_of: Integers
    hashed: npt.NDArray[np.uint64]
    place: npt.NDArray[np.float64]
    one_in: float
    all_reads: float | None = None
    measured: npt.NDArray[np.int8] | None = None
    measured_below: float | None = None
    has_special: bool = False

    @property
    def counts(self) -> npt.NDArray[np.bool_]:
        """Of each access, whether it is a read in the part that counts."""
        return self.is_read & (self.place >= WARM_PART)

    @property
    def span_ns(self) -> int:
        return int(self.time_ns[-1] - self.time_ns[0]) if self.time_ns is not None and self.block.size else 0

    @property
    def seen_bytes(self) -> int:
        """What all blocks have, also those that are not sampled: those that were asked for."""
        return int(self.bytes_of.sum() * self.one_in)

    def only(self, chosen: npt.NDArray[np.bool_], of: float) -> BlockTrace:
        """The accesses to the `chosen` blocks, which are one in `of`."""
        kept = chosen[self.block]
        number = np.cumsum(chosen) - 1
        return replace(
            self,
            block=number[self.block[kept]],
            is_read=self.is_read[kept],
            time_ns=None if self.time_ns is None else self.time_ns[kept],
            bytes_of=self.bytes_of[chosen],
            hashed=self.hashed[chosen],
            place=self.place[kept],
            one_in=self.one_in * of,
            measured=None if self.measured is None else self.measured[kept],
        )

    def sampled_down(self) -> BlockTrace:
        """With so many blocks and accesses as can be simulated."""
        made = self
        while made.block.size and (made.bytes_of.size > MOST_BLOCKS or made.block.size > MOST_ACCESSES):
            # Bits that groups do not use.
            made = made.only(mixed(made.hashed, 1) & np.uint64(1) == 0, 2)
        if not made.block.size:
            raise ConfigError("one block has nearly all requests: there is nothing to sample", "")
        return made


def mixed(hashed: npt.NDArray[np.uint64], round_: int) -> npt.NDArray[np.uint64]:
    """Another hash (splitmix64): what was sampled by the first is spread evenly in it.

    Guy L. Steele Jr. et al.: Fast splittable pseudorandom number generators. OOPSLA 2014.
    """
    with np.errstate(over="ignore"):
        value = hashed + np.uint64(0x9E3779B97F4A7C15) * np.uint64(round_)
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


# Names of tiers (kit.store.labels.TIERS) as the simulation has them.
TIER_NUMBERS = {"dram": DRAM, "l2arc": L2ARC, "disk": BELOW, "special": BELOW, "indirect": BELOW}
