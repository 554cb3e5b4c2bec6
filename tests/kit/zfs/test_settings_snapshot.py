"""kit.zfs.settings_snapshot: settings that differ after a run."""

from __future__ import annotations

from kit.zfs import settings_snapshot
from kit.zfs.tunables import parse_files
from tests.fakes import ScriptedHost


def test_changed_settings_are_reported() -> None:
    was = parse_files(
        "/sys/module/zfs/parameters/zfs_txg_timeout:5\n/proc/fs/nfsd/threads:8\n/a:x:y\n/b:1\n/b:2\n"
    )
    assert was["/a"] == "x:y" and was["/b"] == "1\n2"
    now = parse_files("/sys/module/zfs/parameters/zfs_txg_timeout:20\n/proc/fs/nfsd/threads:8\n/new:1\n")
    assert settings_snapshot.between(was, now) == [
        "/sys/module/zfs/parameters/zfs_txg_timeout was '5' and is '20'"
    ]
    assert settings_snapshot.between(was, was) == []


def test_a_scheduler_that_the_kernel_has_loaded_since_is_no_change() -> None:
    path = "/sys/class/block/sda/queue/scheduler"
    parameter = "/sys/module/zfs/parameters/zfs_vdev_raidz_impl:cycle [fastest] original\n"

    def read(schedulers: str) -> settings_snapshot.Settings:
        host = ScriptedHost(
            {"grep": f"{path}:{schedulers}\n{parameter}", "cat": "c_min 4 1\nc_max 4 67108864\n"}
        )
        return settings_snapshot.read(host, ())

    before = read("[none]")
    assert before[path] == "none" and "fastest" in before.values()
    assert not settings_snapshot.between(before, read("[none] mq-deadline"))
    (changed,) = settings_snapshot.between(before, read("none [mq-deadline]"))
    assert changed == f"{path} was 'none' and is 'mq-deadline'"


def test_a_server_without_openzfs_has_the_other_settings() -> None:
    """A run on bare devices needs no OpenZFS."""
    read = settings_snapshot.read(ScriptedHost({"grep": "/proc/fs/nfsd/threads:8\n"}), ())
    assert read == {"/proc/fs/nfsd/threads": "8"}
