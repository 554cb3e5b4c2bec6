"""The model of an SSD with several reads in flight, against what the kernel of a guest saw of it.

data/l2arc-queue.json says how the run was made. The same check runs on a new run in
tests/lab/test_l2arc_queue.py.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.emulation.seen_reads import SeenReads

STORED = json.loads((Path(__file__).parent / "data" / "l2arc-queue.json").read_text())["phases"]
SEEN = [SeenReads(**phase) for phase in STORED]


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: seen.phase)
def test_the_model_waits_as_long_as_the_kernel_saw(seen: SeenReads) -> None:
    seen.check()


def test_the_figures_tell_a_model_without_a_queue() -> None:
    assert SEEN[-1].queue > 9
    assert SEEN[-1].device_us > 1.1 * SEEN[-1].model_us(queue=1)
