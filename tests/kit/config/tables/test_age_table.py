"""kit.config.tables.age_table: blocks that can leave free space as fragmented as asked for."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kit.config.tables.age_table import Age, filled_to

TIB, MIB = 1 << 40, 1 << 20


@pytest.mark.parametrize(
    ("size_bytes", "percent"),
    # What ZFS keeps is 1/32 of a pool, of a small one 128 MiB, and half of a very small one.
    [(8 * TIB, 93), (4096 * MIB, 93), (1024 * MIB, 84), (384 * MIB, 64), (200 * MIB, 48), (0, 96)],
)
def test_how_far_a_pool_can_be_filled(size_bytes: int, percent: int) -> None:
    assert filled_to(size_bytes) == percent


@pytest.mark.parametrize(
    ("capacity", "fragmentation", "block_bytes"),
    # Of a large pool of which half is used 43 of 50 free parts are where blocks were freed.
    [(50, 0, 1 << 20), (50, 13, 1 << 20), (50, 15, 512 << 10), (50, 48, 32 << 10), (80, 40, 16 << 10)],
)
def test_the_block_is_the_largest_that_is_enough(capacity: int, fragmentation: int, block_bytes: int) -> None:
    age = Age(capacity=capacity, fragmentation=fragmentation)
    assert age.block_bytes(8 * TIB) == block_bytes
    assert age.text == f"{capacity} % used, fragmentation {fragmentation} %"


def test_of_a_full_pool_little_can_be_in_pieces() -> None:
    """Of which 90 % are used, and that is filled to 93 % before: 3 of 10 free parts."""
    age = Age(capacity=90, fragmentation=30)
    assert age.most_fragmented(8 * TIB) == 22 and age.block_bytes(8 * TIB) is None
    assert Age(capacity=90, fragmentation=22).block_bytes(8 * TIB) == 4 << 10


@pytest.mark.parametrize(
    "wrong", [{"capacity": 9}, {"capacity": 91}, {"capacity": 50, "fragmentation": -1}, {}]
)
def test_other_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Age.model_validate(wrong)
