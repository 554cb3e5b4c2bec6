"""kit.zfs.parameters: names and limits of the module parameters of OpenZFS."""

from __future__ import annotations

import re

import pytest

from kit.config.workload import TUNABLE
from kit.zfs import parameters
from kit.zfs.parameters import Memory, guest_memory, known, name_problem, range_problems
from kit.zfs.tunables import READ_HISTORY, TIME_TUNABLES_NS

MIB = 1 << 20


def refused(memory: Memory | None = None, **values: int) -> dict[str, str]:
    return {str(key[1]): text for key, text in range_problems(values, memory)}


def test_every_parameter_can_be_in_a_journal() -> None:
    assert len(known()) > 400
    assert all(re.fullmatch(TUNABLE, name) for name in known())


def test_what_the_kit_sets_itself_is_there() -> None:
    assert all(name_problem(name) == "" for name in (*READ_HISTORY, *TIME_TUNABLES_NS))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("zfs_arc_mx", "did you mean 'zfs_arc_max'?"),
        ("zfs_txg_timout", "did you mean 'zfs_txg_timeout'?"),
        ("unheard_of", "zfs(4) has them all"),
        ("spl_hostid", "of the module spl"),
        ("zvol_major", "read only"),
        ("zfs_fletcher_4_impl", "takes a word"),
    ],
)
def test_what_cannot_be_set_is_refused(name: str, reason: str) -> None:
    assert reason in name_problem(name)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("zfs_arc_max", 64 * MIB, 2**63 - 1),
        ("zfs_arc_min", 32 * MIB, 2**63 - 1),
        ("spa_slop_shift", 1, 31),
        ("zfs_vdev_max_auto_ashift", 9, 16),
        ("zfs_arc_lotsfree_percent", 0, 100),
        ("zfs_prefetch_disable", 0, 2**31 - 1),
        ("l2arc_meta_percent", 0, 2**32 - 1),
    ],
)
def test_a_value_has_limits(name: str, low: int, high: int) -> None:
    assert not refused(**{name: low}) and not refused(**{name: high})
    assert "the most that OpenZFS takes" in refused(**{name: high + 1})[name]
    if low > 1:
        assert "the least that OpenZFS takes" in refused(**{name: low - 1})[name]


def test_zero_leaves_the_arc_as_it_is() -> None:
    assert not refused(guest_memory(4 << 30), zfs_arc_max=0, zfs_arc_min=0)
    assert not refused(zfs_arc_max=0, zfs_arc_min=32 * MIB)


def test_a_minimum_is_below_its_maximum() -> None:
    assert not refused(zfs_arc_min=32 * MIB, zfs_arc_max=64 * MIB)
    assert list(refused(zfs_arc_min=64 * MIB, zfs_arc_max=64 * MIB)) == ["zfs_arc_min"]
    assert not refused(zfs_vdev_scrub_min_active=2, zfs_vdev_scrub_max_active=2)
    assert list(refused(zfs_vdev_scrub_min_active=3, zfs_vdev_scrub_max_active=2)) == [
        "zfs_vdev_scrub_min_active"
    ]
    # One alone is held against the default of the other.
    assert "= 10, its default" in refused(zfs_vdev_sync_write_max_active=9)["zfs_vdev_sync_write_max_active"]
    assert "= 10, its default" in refused(zfs_vdev_sync_write_min_active=11)["zfs_vdev_sync_write_min_active"]
    assert not refused(zfs_vdev_sync_write_max_active=10)


def test_the_memory_of_the_server_limits_the_arc() -> None:
    memory = Memory(4 << 30, 128 * MIB)
    assert 'add zfs_arc_min = "32MiB"' in refused(memory, zfs_arc_max=128 * MIB)["zfs_arc_max"]
    assert not refused(memory, zfs_arc_max=128 * MIB, zfs_arc_min=32 * MIB)
    assert not refused(memory, zfs_arc_max=129 * MIB)
    assert "not below the memory of the server" in refused(memory, zfs_arc_max=4 << 30)["zfs_arc_max"]


def test_what_a_server_lacks_says_where_it_is() -> None:
    text = parameters.missing_problem("zfs_arc_meta_balance", "2.1.11-1")
    assert "OpenZFS 2.1.11-1 of the server has no such module parameter, it is of 2.2 to 2.4" in text
    assert "it is of 2.1: " in parameters.missing_problem("zfs_arc_meta_limit", "2.3.2-1")
