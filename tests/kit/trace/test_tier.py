"""kit.trace.tier: each class of requests has the tier of the slowest thing it needed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.store.tables import TIERS
from kit.trace.tier import Vdevs, places_of_read, tier_of

LOG = Vdevs(frozenset({3, 7}), frozenset({5, 9}))


@pytest.mark.parametrize(
    ("op", "seen", "vdev", "tier"),
    [
        ("read", 0, 0, "dram"),
        ("read", 1, 0, "disk"),
        ("read", 2, 0, "l2arc"),
        ("read", 1 | 2, 0, "disk"),  # L2ARC read that failed and went to the pool
        ("read", 4, 0, "shared"),
        ("read", 4 | 1, 0, "disk"),
        ("read", 4 | 2, 0, "l2arc"),
        ("read", 8, 0, "direct"),
        ("read", 8 | 1 | 16, 0, "direct"),
        ("read", 16, 0, "indirect"),
        ("read", 32, 0, "indirect"),
        ("read", 17, 0, "indirect"),  # as recorded: read,17,0, read,18,0 and read,33,0
        ("read", 18, 0, "indirect"),
        ("read", 33, 0, "indirect"),
        # Of a read the vdev of its data, and above it that of its metadata.
        ("read", 1, 5, "special"),
        ("read", 1, 9 | 5 << 12, "special"),
        ("read", 17, 9 | 5 << 12, "special"),
        ("read", 17, 5 << 12, "disk"),
        ("read", 17, 9, "indirect"),
        ("read", 16, 5 << 12, "special"),
        ("read", 18, 5 << 12, "special"),
        ("read", 33, 5, "indirect"),
        ("write", 64 | 128, 5, "special"),
        ("commit", 64 | 128, 9, "special"),
        ("write", 64 | 128, 3, "slog"),  # as recorded: write,192
        ("write", 64 | 128, 7, "slog"),
        ("write", 64 | 128, 0, "pool"),
        ("write", 64 | 128, 4, "pool"),
        ("write", 128, 3, "slog"),
        ("write", 64, 3, "shared"),  # another thread wrote the log block
        ("write", 64 | 128 | 256, 3, "pool"),  # the data went to the pool in place
        ("write", 64 | 256, 3, "pool"),
        ("write", 64 | 128 | 16, 3, "indirect"),
        ("write", 64 | 128 | 32, 3, "indirect"),
        ("write", 64 | 128 | 1, 3, "slog"),
        ("write", 8 | 64 | 128, 3, "direct"),
        ("write", 0, 0, "dram"),
        ("write", 1, 0, "disk"),
        ("write", 2, 0, "l2arc"),
        ("write", 4, 0, "shared"),
        ("commit", 64 | 128, 3, "slog"),
        ("commit", 64 | 128, 0, "pool"),
        ("commit", 64 | 256, 0, "pool"),
        ("commit", 64, 0, "shared"),
        ("commit", 0, 0, "dram"),
    ],
)
def test_each_class(op: str, seen: int, vdev: int, tier: str) -> None:
    assert tier_of(op, seen, vdev, LOG) == tier


@given(st.sampled_from(["read", "write", "commit"]), st.integers(0, 511), st.integers(0, 8))
def test_every_class_has_a_tier_that_can_be_stored(op: str, seen: int, vdev: int) -> None:
    assert tier_of(op, seen, vdev, LOG) in set(TIERS) - {"all"}


@given(st.sampled_from(["write", "commit"]), st.integers(0, 511), st.integers(0, 8))
def test_without_a_log_device_nothing_is_slog(op: str, seen: int, vdev: int) -> None:
    assert tier_of(op, seen, vdev, Vdevs()) != "slog"


@given(st.integers(0, 511), st.integers(0, 8))
def test_a_read_is_never_the_logs(seen: int, vdev: int) -> None:
    assert tier_of("read", seen, vdev, LOG) not in ("slog", "pool")


@pytest.mark.parametrize(
    ("seen", "vdev", "places"),
    [
        (0, 5, ("", "")), (1, 0, ("disk", "")), (1, 5, ("special", "")), (2, 5, ("l2arc", "")),
        (17, 5, ("special", "disk")), (17, 5 << 12, ("disk", "special")), (16, 9 << 12, ("", "special")),
        (33, 5, ("special", "l2arc")), (48, 5 << 12, ("", "special")), (3, 0, ("disk", "")),
    ],
)  # fmt: skip
def test_a_read_says_where_its_data_and_its_metadata_were(
    seen: int, vdev: int, places: tuple[str, str]
) -> None:
    assert places_of_read(seen, vdev, LOG) == places
