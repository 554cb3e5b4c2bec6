"""One pair of cache sizes, simulated with a trace. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.size.arc import Arc, Costs, OldArc
from reports.size.l2arc import L2arc
from reports.size.trace import GROUPS, STRETCHES, WARM_PART, BlockTrace, CacheServer, Integers, mixed

# Reads by what answered them: DRAM, L2ARC and BELOW of reports.size.arc.
Counts = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Simulated:
    """Counted reads of the stretches x 3 tiers, and of each group of blocks, simulated alone, x 3.

    `settled`: the caches were full before the part that counts, so that what they had before is gone.
    `tiers`: of each counted read. `headers`: bytes of DRAM of blocks that the L2ARC alone has. `blocks`: room
    of the miniature ARC, in blocks. `starved`: more than one in a hundred blocks left the ARC before the feed
    came to them.
    """

    stretches: Counts
    groups: Counts
    tiers: npt.NDArray[np.int8]
    settled: bool
    headers: float
    blocks: float
    starved: bool

    @property
    def total(self) -> Counts:
        return np.asarray(self.stretches.sum(axis=0))


def simulate(
    trace: BlockTrace,
    server: CacheServer,
    arc: int,
    l2arc: int,
    groups: list[BlockTrace] | None,
    warm: bool = False,
) -> Simulated:
    """Both sizes in bytes; `l2arc`: of the device, 0: none. `groups`: of `groups_of`, None: not asked for.

    `warm`: memory of the server was short once (reports.size.l2arc.Feed).
    """
    tiers, settled, above, device = _simulated(trace, server, arc, l2arc, warm)
    stretches = np.zeros((STRETCHES, 3))
    np.add.at(stretches, (stretches_of(trace.place[trace.counts]), tiers), 1)
    of_groups = np.zeros((GROUPS, 3))
    for number, group in enumerate(groups or ()):
        of_groups[number] = np.bincount(_simulated(group, server, arc, l2arc, warm)[0], minlength=3)
    room = max(arc - server.overhead(arc, l2arc), 0) / trace.one_in
    return Simulated(
        stretches, of_groups, tiers, settled, above.l2_only * server.l2_header * trace.one_in,
        room / max(float(np.mean(trace.bytes_of)), 1),
        device is not None and device.missed > trace.block.size / 100,
    )  # fmt: skip


def groups_of(trace: BlockTrace) -> list[BlockTrace]:
    """Parts of the trace with blocks of their own, by hash."""
    group = groups_by_hash(trace)
    return [trace.only(group == number, GROUPS) for number in range(GROUPS)]


def groups_by_hash(trace: BlockTrace) -> Integers:
    """The group of each block."""
    return (mixed(trace.hashed, 2) % np.uint64(GROUPS)).astype(np.int64)


def stretches_of(place: npt.NDArray[np.float64]) -> Integers:
    """The stretch of each access in the part that counts."""
    stretch = ((place - WARM_PART) / (1 - WARM_PART) * STRETCHES).astype(np.int64)
    return np.clip(stretch, 0, STRETCHES - 1)


def _simulated(
    trace: BlockTrace, server: CacheServer, arc_bytes: int, l2arc_bytes: int, warm: bool
) -> tuple[npt.NDArray[np.int8], bool, Arc, L2arc | None]:
    """What answered the reads that count, whether the caches were full before, and the caches in the end."""
    data = [server.cost(int(each)) for each in trace.bytes_of]
    costs = Costs(data, server.header, server.l2_header, server.version >= (2, 2))
    device = None
    if size := server.device(l2arc_bytes):
        device = L2arc(server.feed, size / trace.one_in, trace.one_in, trace.span_ns, warm)
    overhead = server.overhead(arc_bytes, l2arc_bytes) / trace.one_in
    arc = (Arc if server.version >= (2, 2) else OldArc)(costs, arc_bytes / trace.one_in, overhead, device)
    if device:
        device.join(arc)
    begin = int(np.searchsorted(trace.place, WARM_PART))
    _replay(arc, device, trace, 0, begin)
    settled = arc.full and (device is None or device.wrapped)
    return _replay(arc, device, trace, begin, trace.block.size), settled, arc, device


def _replay(arc: Arc, device: L2arc | None, trace: BlockTrace, first: int, end: int) -> npt.NDArray[np.int8]:
    """What answered the reads among the accesses `first` to `end` of a trace."""
    part = slice(first, end)
    blocks, reads = trace.block[part].tolist(), trace.is_read[part].tolist()
    # Without times each access is a second use.
    times = np.arange(first, end) * 10**9 if trace.time_ns is None else trace.time_ns[part]
    tiers: list[int] = []
    for block, is_read, now_ns in zip(blocks, reads, times.tolist(), strict=True):
        if device:
            device.until(now_ns)
        if is_read:
            tiers.append(arc.read(block, now_ns))
        else:
            arc.write(block, now_ns)
    return np.array(tiers, dtype=np.int8)
