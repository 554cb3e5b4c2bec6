"""A sample of the blocks that requests are for, as key_of_request.bt prints it. Pure.

One in `one_in` blocks, with all requests for it: each block is in the sample with the same chance, whatever
its neighbours are (Waldspurger et al., Efficient MRC construction with SHARDS, FAST '15). Of blocks with n_i
requests each, 1 / one_in of the requests is sampled, with a standard error of
sqrt((one_in - 1) * sum(n_i^2)) / (one_in * sum(n_i)): a few blocks that are asked for often make it large.

A key is a hash of the file system's number, the file's number and generation, and the block's number in it.
No name is printed. The number of a file system changes when it is mounted again, so keys of two runs cannot
be compared. The size of a block is the recordsize that the dataset had when it was mounted, 4 KiB at least; a
file that was made with another one has other blocks. A file smaller than that is one block. All blocks of a
request have its tier, that of the slowest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kit.core.text import commas
from kit.trace.request_lines import MOST_BYTES, RequestLines, Words
from kit.trace.support import last_key

MOST_ROWS = 1_000_000
"""Of keys.parquet, per phase, of which a run has 50: a request for many blocks has several."""
MOST_BLOCKS = 1025
"""Of a request that the program looks at one by one: 4 MiB of 4 KiB, from any offset."""

_LEAST_SHIFT, _MOST_SHIFT = 12, 24
_SECTOR_BYTES = 512
# Lines at a time: at most 2 million blocks.
_CHUNK = 512


class Sample(RequestLines):
    """Lines of requests for sampled blocks."""

    pattern = re.compile(r"hsp-trace key" + r" ([0-9a-f]{1,16})" * 7 + r"\n")
    counted_by = 4030, 4031

    def check(self, values: list[int]) -> None:
        _, _, _, offset, length, shift, size = values
        if not 0 < length <= MOST_BYTES or (offset + length) >> 63 or size >> 63:
            raise ValueError("no request")
        if not _LEAST_SHIFT <= shift <= _MOST_SHIFT:
            raise ValueError("no size of blocks")

    def of(self, wanted: Words) -> Iterator[NDArray[np.uint64]]:
        """Lines with these values of @seen, some at a time, by their begin."""
        table = self.table
        table = table[np.isin(table[:, 1], wanted)]
        for first in range(0, len(table), _CHUNK):
            yield table[first : first + _CHUNK]

    @property
    def seen(self) -> Words:
        """All values of @seen, each once."""
        return np.unique(self.table[:, 1])

    def problems(self, mine: Sequence[int]) -> Iterator[str]:
        """The lines with `mine` (@seen) against the program's own count."""
        lines = int(np.isin(self.table[:, 1], np.array(mine, np.uint64)).sum())
        if lines != self.printed:
            text = f"{commas(abs(self.printed - lines))} of {commas(self.printed)} sampled requests"
            what = "were lost" if lines < self.printed else "were not counted"
            yield f"{text} {what}: keys.parquet does not have all requests for its blocks"


@dataclass(frozen=True)
class Blocks:
    """Sampled blocks of some lines, which `line` is an index of. `block_bytes`: of each block."""

    line: NDArray[np.int64]
    key: Words
    block_bytes: NDArray[np.int64]


def mix(value: Words) -> Words:
    """As mix_key.bt."""
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x3C79AC492BA7B653)
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0x1C69B3F74AC4AE35)
    return value ^ (value >> np.uint64(27))


def blocks_of(lines: NDArray[np.uint64], one_in: int) -> Blocks:
    """The blocks of these lines that are in the sample. Raises ValueError for a line that should not be."""
    _, _, file, offset, length, shift, size = lines.T
    first = offset >> shift
    count = (((offset + length - np.uint64(1)) >> shift) - first + np.uint64(1)).astype(np.int64)
    line = np.repeat(np.arange(len(lines)), count)
    within = np.arange(line.size) - np.repeat(np.cumsum(count) - count, count)
    block = first[line] + within.astype(np.uint64)
    key = mix(file[line] ^ block)
    chosen = (key >> np.uint64(1)) <= np.uint64(last_key(one_in))
    if len(np.setdiff1d(np.flatnonzero(count <= MOST_BLOCKS), line[chosen])):
        raise ValueError("a sampled request has no sampled block")
    # What was asked for may end after the file; its first block is there by then, or an empty one.
    chosen &= (block == 0) | ((block << shift[line]) < size[line])
    line, key = line[chosen], key[chosen]
    sectors = np.maximum(-(-size.astype(np.int64) // _SECTOR_BYTES), 1)
    record = np.int64(1) << shift.astype(np.int64)
    return Blocks(line, key, np.minimum(sectors * _SECTOR_BYTES, record)[line])
