"""What an observed server has: file systems by number, log devices of pools."""

from __future__ import annotations

import pytest

from kit.core.errors import ConfigError, HostError
from kit.observe.served import Served, file_systems, has_special, log_devices, pool_of, unsynced

MOUNTINFO = """\
22 27 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
27 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
61 27 0:45 / /tank rw,noatime shared:31 - zfs tank rw,xattr,noacl
62 61 0:46 / /tank/a\\040b rw shared:32 - zfs tank/a\\040b rw,xattr
63 27 0:46 / /srv/bind rw shared:32 - zfs tank/a\\040b rw,xattr
64 61 0:47 / /tank/.zfs/snapshot/s rw shared:33 - zfs tank@s ro
65 27 0:48 / /mnt rw - nfs 10.0.0.1:/x rw
"""
# zpool list -v -H -P of a pool with everything.
LISTING = """\
tank\t1.81T\t600G\t1.2T\t-\t-\t0%\t32%\t1.00x\tONLINE\t-
\tmirror-0\t1.81T\t600G\t1.2T\t-\t-\t0%\t32%\t-\tONLINE
\t/dev/sda1\t1.82T\t-\t-\t-\t-\t-\t-\t-\tONLINE
\t/dev/sdb1\t1.82T\t-\t-\t-\t-\t-\t-\t-\tONLINE
logs                      -      -      -        -         -      -      -      -  -
\tmirror-2\t14G\t0\t14G\t-\t-\t0%\t0.00%\t-\tONLINE
\t/dev/disk/by-id/nvme-a-part1\t14G\t-\t-\t-\t-\t-\t-\t-\tONLINE
\t/dev/nvme1n1p1\t14G\t-\t-\t-\t-\t-\t-\t-\tONLINE
cache\t-\t-\t-\t-\t-\t-\t-\t-\t-
\t/dev/nvme2n1p1\t14G\t-\t-\t-\t-\t-\t-\t-\tONLINE
"""


def test_file_systems_of_zfs_have_their_minor_number() -> None:
    assert file_systems(MOUNTINFO) == {45: "tank", 46: "tank/a b", 47: "tank@s"}
    assert pool_of("tank@s") == pool_of("tank/a b") == "tank"
    with pytest.raises(HostError, match="has the line 'nonsense'"):
        file_systems("nonsense\n")


def test_log_devices_are_those_behind_their_heading() -> None:
    assert log_devices(LISTING) == ("/dev/disk/by-id/nvme-a-part1", "/dev/nvme1n1p1")
    assert log_devices(LISTING.partition("logs")[0]) == ()


def test_pools_with_special_vdevs_are_said_to_be_called_disk() -> None:
    special = "special\t-\t-\t-\t-\t-\t-\t-\t-\t-\n\tmirror-4\t14G\t-\t-\t-\t-\t-\t-\t-\tONLINE\n"
    assert has_special(LISTING + special) and has_special(LISTING + special.replace("special", "dedup"))
    assert not has_special(LISTING) and log_devices(LISTING + special) == log_devices(LISTING)
    served = Served({45: "tank/a", 47: "plain"}, {}, special=frozenset({"tank", "unmounted"}))
    [note] = served.joined(served)[0].notes()
    assert note.startswith("tank has special or dedup vdevs: what they answer is called disk here")
    assert not [*served.of(["plain"]).notes()]


def test_a_number_that_another_file_system_has_later_is_said() -> None:
    before = Served({45: "tank", 46: "tank/a"}, {"tank": frozenset({1})})
    both, problems = before.joined(Served({45: "tank", 46: "tank/b", 49: "tank/new"}, {"tank": frozenset()}))
    assert [text.split()[0] for text in problems] == ["tank/a", "the"] and both.file_systems[49] == "tank/new"
    assert before.joined(before) == (before, [])


def test_only_what_is_asked_for_and_all_below_it() -> None:
    served = Served({45: "tank", 46: "tank/a", 47: "tank/ab", 48: "other"}, {})
    mine = served.of(["tank/a"])
    assert (mine.file_systems, mine.others) == ({46: "tank/a"}, {45: "tank", 47: "tank/ab", 48: "other"})
    assert set(served.of(["tank"]).file_systems) == {45, 46, 47} and served.of([]) is served
    with pytest.raises(ConfigError) as refused:
        served.of(["tank/b"])
    assert refused.value.hint == "mounted are: other, tank, tank/a, tank/ab"


def test_where_sync_is_disabled_no_write_waits_for_a_log() -> None:
    found = unsynced("tank\tstandard\ntank/a b\tdisabled\nplain\talways\n")
    logs = {"tank": frozenset({1}), "plain": frozenset[int]()}
    served = Served({45: "tank", 46: "tank/a b", 47: "plain"}, logs, found)
    assert [served.log_vdevs(name) for name in ("tank", "tank/a b", "tank/a b@s", "plain")] == [
        {1}, None, None, set()
    ]  # fmt: skip
    both, problems = served.joined(Served(served.file_systems, logs))
    assert problems == ["sync of tank/a b was changed meanwhile: which writes waited is not known"]
    assert both.log_vdevs("tank/a b") is None and served.joined(served)[1] == []
