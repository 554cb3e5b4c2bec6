"""kit.zfs.other_pools: what hits pools that are not the run's is refused while one is imported."""

from __future__ import annotations

import pytest

from kit.core.clock import Clock
from kit.core.errors import SafetyRefusal
from kit.zfs import other_pools, parameters
from kit.zfs.tunables import tunable
from tests.kit.zfs.test_tunables import Server

REAL = Clock("real")
# What they do: zfs(4).
UNSAFE = [
    "zil_nocacheflush", "zfs_nocacheflush", "zil_replay_disable", "zfs_recover", "zfs_max_missing_tvds",
    "zfs_free_leak_on_eio", "zfs_deadman_enabled", "zfs_deadman_synctime_ms", "zfs_deadman_ziotime_ms",
    "zfs_deadman_checktime_ms", "spa_load_verify_data", "spa_load_verify_metadata", "spa_load_verify_shift",
    "vdev_validate_skip", "zfs_no_scrub_io", "zfs_scan_ignore_errors", "zfs_removal_ignore_errors",
    "zfs_multihost_fail_intervals", "zfs_checksum_events_per_second", "zfs_send_corrupt_data",
]  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE)
def test_what_keeps_the_data_of_other_pools_is_not_changed(name: str) -> None:
    server, setting = Server(**{name: "5"}), [tunable(name, 1, REAL)]
    server.answers["zpool list -H -o name"] = "tank\nhome\n"
    with pytest.raises(SafetyRefusal, match=f"{name} = 1 is for all pools .*: tank, home; nothing") as caught:
        other_pools.refuse_settings(server, setting, agreed=False)
    assert "--beside-other-pools" in caught.value.hint
    (note,) = other_pools.refuse_settings(server, setting, agreed=True)
    assert name in note and not any(command.argv[0] == "tee" for command in server.commands)
    # As it is already, or alone on the server.
    assert other_pools.refuse_settings(server, [tunable(name, 5, REAL)], agreed=False) == []
    server.answers["zpool list -H -o name"] = ""
    assert other_pools.refuse_settings(server, setting, agreed=False) == []


def test_what_only_makes_a_pool_faster_or_slower_is_not_among_them() -> None:
    for name in ("zfs_txg_timeout", "l2arc_write_max", "zfs_dirty_data_max", "zfs_vdev_max_active"):
        assert not parameters.known()[name].keeps_data


def test_a_server_with_other_pools_keeps_its_power() -> None:
    server = Server()
    server.answers["zpool list -H -o name"] = "hsp-abcdef\ntank\n"
    with pytest.raises(SafetyRefusal, match=r"cuts the power of .*: tank; nothing was cut") as caught:
        other_pools.refuse_power_cut(server, "hsp-abcdef", agreed=False)
    assert "--cut-other-pools" in caught.value.hint and "beside" not in caught.value.hint
    assert other_pools.refuse_power_cut(server, "hsp-abcdef", agreed=True)
    server.answers["zpool list -H -o name"] = "hsp-abcdef\n"
    assert other_pools.refuse_power_cut(server, "hsp-abcdef", agreed=False) == []
