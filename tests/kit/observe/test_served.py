"""What an observed server has: file systems by number, log devices of pools."""

from __future__ import annotations

import pytest

from kit.core.errors import ConfigError, HostError
from kit.observe.served import Served, file_systems, pool_of, unsynced
from kit.zfs.vdev_listing import devices_of

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
    assert devices_of(LISTING, "logs") == ("/dev/disk/by-id/nvme-a-part1", "/dev/nvme1n1p1")
    assert devices_of(LISTING.partition("logs")[0], "logs") == ()


SPECIAL = """\
dedup\t-\t-\t-\t-\t-\t-\t-\t-\t-
\t/dev/sde1\t14G\t-\t-\t-\t-\t-\t-\t-\tONLINE
special                   -      -      -        -         -      -      -      -  -
\tmirror-4\t14G\t0\t14G\t-\t-\t0%\t0.00%\t-\tONLINE
\t/dev/sdc1\t14G\t-\t-\t-\t-\t-\t-\t-\tONLINE
\t/dev/sdd1\t14G\t-\t-\t-\t-\t-\t-\t-\tONLINE
"""


def test_special_vdevs_are_those_behind_their_heading_and_must_stay() -> None:
    assert devices_of(LISTING + SPECIAL, "special", "dedup") == ("/dev/sde1", "/dev/sdc1", "/dev/sdd1")
    assert devices_of(LISTING, "special", "dedup") == ()
    assert devices_of(LISTING + SPECIAL, "logs") == devices_of(LISTING, "logs")
    before = Served({45: "tank/a"}, {}, special={"tank": frozenset({4})})
    assert before.vdevs("tank/a").special == {4} and not before.vdevs("plain").special
    _, problems = before.joined(Served({45: "tank/a"}, {}, special={"tank": frozenset({4, 5})}))
    assert problems == ["the special vdevs of tank changed meanwhile: which of them answered is not known"]


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
    assert [served.vdevs(name).log for name in ("tank", "tank/a b", "tank/a b@s", "plain")] == [
        {1}, None, None, set()
    ]  # fmt: skip
    both, problems = served.joined(Served(served.file_systems, logs))
    assert problems == ["sync of tank/a b was changed meanwhile: which writes waited is not known"]
    assert both.vdevs("tank/a b").log is None and served.joined(served)[1] == []
