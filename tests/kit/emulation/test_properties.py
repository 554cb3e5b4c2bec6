"""Properties of every model, with random devices and requests."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.emulation.loads import random_device
from tests.kit.emulation.model_library import NEVER_NS, ModelDevice, Op, requests

ONE = st.tuples(
    st.integers(0, 3_000_000),  # ns after the one before
    st.sampled_from([Op.READ, Op.WRITE, Op.WRITE, Op.WRITE, Op.FLUSH, Op.DISCARD, Op.WRITE_ZEROES]),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 4100),
    st.booleans(),
)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), asked=st.lists(ONE, min_size=1, max_size=60), loss=st.integers(0, 60))
def test_done_after_arrival_again_the_same_and_data_is_safe_or_not(
    seed: int, asked: list[tuple[int, int, float, int, bool]], loss: int
) -> None:
    kind = random_device(seed)
    rows = requests(len(asked))
    arrival_ns = 0
    for row, (after_ns, op, where, count, fua) in zip(rows, asked, strict=True):
        arrival_ns += after_ns
        sector = int(where * kind.sectors)
        row["arrival_ns"], row["op"], row["sector"] = arrival_ns, op, sector
        row["sectors"], row["fua"] = min(count, kind.sectors - sector), fua
    first, second = (ModelDevice(kind.text, kind.sectors * 512) for _ in range(2))
    answers = first.submit_many(rows.copy())
    assert (answers["done_ns"] >= rows["arrival_ns"]).all()
    assert not answers["error"].any()
    # One at a time, with questions in between that must not change anything.
    done = dict[int, int]()
    for tag, row in enumerate(rows):
        second.is_volatile(int(row["arrival_ns"]), int(row["sector"]))
        request = (int(row[name]) for name in ("arrival_ns", "op", "sector", "sectors"))
        done[tag] = second.begin(*request, tag, fua=row["fua"])
    while second.next_ns != NEVER_NS:
        done |= second.collect(second.next_ns)
    assert [done[tag] for tag in range(len(rows))] == answers["done_ns"].tolist()
    flushed_ns, _ = first.submit(max(arrival_ns, int(answers["done_ns"].max())), Op.FLUSH)
    if "flush ignored" not in kind.text:
        assert not any(first.is_volatile(flushed_ns, sector) for sector in range(kind.sectors))
    first.power_loss(flushed_ns)
    second.power_loss(arrival_ns + loss * 50_000)
    for one in (first, second):
        assert not any(one.is_volatile(2 * flushed_ns + 10**9, sector) for sector in range(kind.sectors))


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), writes=st.integers(0, 500))
def test_pages_are_neither_lost_nor_made(seed: int, writes: int) -> None:
    """After a flush the flash holds exactly the pages that were written, whatever was collected."""
    kind = random_device(seed)
    if kind.model != "ssd" or "flush ignored" in kind.text or "protection 1" in kind.text:
        return
    device = ModelDevice(kind.text, kind.sectors * 512)
    draw = np.random.default_rng(seed)
    rows = requests(writes + 1)
    rows["op"] = Op.WRITE
    rows["sector"] = draw.integers(0, kind.sectors, writes + 1)
    rows["sectors"] = np.minimum(draw.integers(1, 40, writes + 1), kind.sectors - rows["sector"])
    rows["op"][-1] = Op.FLUSH
    device.submit_many(rows, closed_loop=True)
    pages = {
        page
        for row in rows[:-1]
        for page in range(
            int(row["sector"]) // kind.page_sectors,
            int(row["sector"] + row["sectors"] - 1) // kind.page_sectors + 1,
        )
    }
    counters = device.counters()
    assert counters["flash_pages_mapped"] == len(pages)
    assert counters["flash_pages_programmed"] - counters["gc_pages_copied"] >= len(pages)
    assert counters["host_bytes_written"] == 512 * int(rows["sectors"][:-1].sum())
