"""The simulation beside the model of kit.sizes, whose constants were measured in the lab.

Both are of random reads of a whole working set, so slow that the feed comes to every block.
"""

from __future__ import annotations

import numpy as np
import pytest

from kit.session.sizing.size import AskedSizes, cache_server
from kit.sizes.tier_sizes import Sizes, l2arc_room, tiers
from kit.zfs.openzfs_version import parse
from reports.size.simulate import simulate
from reports.size.trace import BlockTrace, mixed

RECORD, BLOCKS, ONE_IN, READS = 8192, 4096, 16, 60_000


@pytest.mark.parametrize("version", ["2.1.16", "2.3.9"])
@pytest.mark.parametrize("with_l2arc", [False, True])
def test_uniform_reads_are_answered_as_the_model_says(version, with_l2arc):
    """Within two points: one is chance (60 000 reads), and the model rounds what it leaves out."""
    random = np.random.default_rng(1)
    trace = BlockTrace(
        random.integers(0, BLOCKS, READS), np.ones(READS, bool), np.arange(READS) * 100_000_000,
        np.full(BLOCKS, RECORD), mixed(random.integers(0, 2**63, BLOCKS).astype(np.uint64), 1),
        np.arange(READS) / READS, float(ONE_IN),
    )  # fmt: skip
    everything = BLOCKS * ONE_IN * RECORD
    arc, l2arc = everything // 4, everything // 2 * with_l2arc
    server, _ = cache_server(trace, AskedSizes(), {}, arc, l2arc, version, 0)
    total = simulate(trace, server, arc, l2arc, None).total
    room = l2arc_room(l2arc, server.feed.write_bytes, server.feed.boost_bytes) if l2arc else 0
    said = tiers(Sizes(RECORD, everything, arc, room, version=parse(version)))
    assert total[0] / total.sum() == pytest.approx(said.dram / everything, abs=0.02)
    assert total[1] / total.sum() == pytest.approx(said.l2arc / everything, abs=0.02)
