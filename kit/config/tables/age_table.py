"""The key `age` of `[pool]`: how full, and how fragmented, the pool is before it is measured."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kit.config.toml import Table

# What OpenZFS calls free space in segments of 2^9, 2^10 ... bytes, in percent: zfs_frag_table of
# module/zfs/metaslab.c. The property `fragmentation` is the mean over all free space.
_OF_SEGMENTS = (100, 100, 98, 95, 90, 80, 70, 60, 50, 40, 30, 20)
_LEAST_SHIFT, _MOST_SHIFT, _FIRST_SHIFT = 12, 20, 9
# ZFS keeps 1/32 of a pool for itself, and 128 MiB at least, but no more than a half (spa_get_slop_space).
_SLOP_SHIFT, _LEAST_SLOP_BYTES = 5, 128 << 20
# Of the rest: the last of it is slow to get. Metadata are in it.
_FILLED = 0.96
# Freed blocks that are neighbours are one segment, which counts as less.
_REACHED = 0.8


class Age(Table):
    """Percent, as `zpool list` prints them: space that is used, the working set in it, and `fragmentation`.

    The pool is filled beyond `capacity` with a file, and blocks at random places of it are freed.
    """

    capacity: Annotated[int, Field(ge=10, le=90)]
    fragmentation: Annotated[int, Field(ge=0, le=80)] = 0

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.capacity} % used, fragmentation {self.fragmentation} %"

    def block_bytes(self, pool_bytes: int) -> int | None:
        """Of the file: the largest with which free space can be as fragmented as asked for; None: no size."""
        for shift in range(_MOST_SHIFT, _LEAST_SHIFT - 1, -1):
            if self.fragmentation <= self._reached_with(shift, pool_bytes):
                return 1 << shift
        return None

    def most_fragmented(self, pool_bytes: int) -> int:
        """What can be asked for."""
        return int(self._reached_with(_LEAST_SHIFT, pool_bytes))

    def _reached_with(self, shift: int, pool_bytes: int) -> float:
        """The fragmentation that blocks of 2^shift bytes give: of the free space only a part is in holes."""
        in_holes = max(0, filled_to(pool_bytes) - self.capacity) / (100 - self.capacity)
        return _REACHED * in_holes * _OF_SEGMENTS[shift - _FIRST_SHIFT]


def filled_to(pool_bytes: int) -> int:
    """Percent of the pool that the file fills first."""
    slop_bytes = max(pool_bytes >> _SLOP_SHIFT, min(pool_bytes >> 1, _LEAST_SLOP_BYTES))
    return int(100 * _FILLED * (1 - slop_bytes / max(pool_bytes, 1)))
