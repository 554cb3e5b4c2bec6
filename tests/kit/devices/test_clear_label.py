"""kit.devices.clear_label and partition: only the run's own device is changed, under the lock of udev."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.devices import clear_label, partition
from kit.recovery import storage_undos
from kit.recovery.journal import LeftAlone
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import one_device
from tests.loops import host_with_serials, loop_device

PATH = "/dev/disk/by-id/ata-S1"
LABEL = "LABEL 0\n    version: 5000\n    name: 'hsp-abcdef'\n    state: 2\n    pool_guid: 7\n    guid: 9\n"


def disk(*serials: str, **changes: Any) -> ScriptedHost:
    """With the label of the run's destroyed pool. `serials`: what lsblk says, time after time."""
    facts = one_device(PATH, "sda", 1 << 30, "S1", **{"label": LABEL, "signature": "zfs_member", **changes})
    return ScriptedHost(
        {
            "python3 -I -": facts,
            "lsblk --nodeps": list(serials) or "S1\n",
            f"zdb -l {PATH}-part1": (1, "failed to unpack label 0\n", ""),
            f"zdb -l {PATH}": changes.get("label", LABEL),
        }
    )


def changes_of(host: ScriptedHost) -> list[tuple[str, ...]]:
    argvs = [command.argv for command in host.commands]
    return [argv for argv in argvs if argv[:2] == ("zpool", "labelclear") or "wipefs" in argv[4:6]]


def wiped(path: str, types: str) -> tuple[str, ...]:
    return tuple(clear_label.wipe_command(path, "hsp-abcdef", types))


def test_each_removal_is_locked_and_follows_a_check_of_the_serial() -> None:
    host = disk()
    clear_label.clear(host, PATH, "S1", "hsp-abcdef", "7")
    changes = changes_of(host)
    assert changes == [("zpool", "labelclear", PATH), wiped(PATH, "zfs_member")]
    assert {"--lock", "--backup"} < set(changes[1])
    argvs = [command.argv for command in host.commands]
    for change in changes:
        before = [argv for argv in argvs[: argvs.index(change)] if argv[0] != "mkdir"]
        assert before[-1][:2] == ("lsblk", "--nodeps")


def test_a_disk_exchanged_during_the_undo_is_not_wiped() -> None:
    host = disk("S1\n", "OTHER\n")
    with pytest.raises(SafetyRefusal, match="serial 'OTHER', the run used 'S1'"):
        clear_label.clear(host, PATH, "S1", "hsp-abcdef")
    assert changes_of(host) == []


# What the disk has, what is said of it, and whether it is the owner's now.
REUSED: dict[str, tuple[dict[str, Any], str, bool]] = {
    "a file system": ({"signature": "ext4"}, "signature of ext4", True),
    "an array": ({"signature": "linux_raid_member"}, "signature of linux_raid_member", True),
    "only the last copies": ({"label": LABEL + "    labels = 2 3 \n"}, "only the copies 2 3", True),
    "a part of a volume": ({"holders": ["dm-0"]}, "part of /dev/dm-0", True),
    "another pool of that name": (
        {"label": LABEL.replace("guid: 7", "guid: 8")},
        "another pool named",
        False,
    ),
    "opened": ({"alone": "Device or resource busy"}, "in use", False),
    "unreadable": ({"alone": "Input/output error"}, "could not be determined", False),
}


@pytest.mark.parametrize("case", REUSED)
def test_a_disk_that_was_reused_is_left_alone_and_one_that_is_in_use_stays_to_be_undone(case: str) -> None:
    changes, text, is_foreign = REUSED[case]
    host = disk(**changes)
    with pytest.raises(SafetyRefusal, match=text) as caught:
        clear_label.clear(host, PATH, "S1", "hsp-abcdef", "7")
    assert isinstance(caught.value, clear_label.Foreign) == is_foreign
    assert changes_of(host) == []
    undo = storage_undos.UndoDevice(path=PATH, serial="S1", pool="hsp-abcdef", guid="7")
    with pytest.raises(LeftAlone if is_foreign else SafetyRefusal):
        undo.undo(disk(**changes))


ZDB = f"""#!/bin/sh
printf '%s' "{LABEL}"
"""
ZPOOL = """#!/bin/sh
case $1 in list | import) exit 0 ;; esac
exit 1
"""


@pytest.mark.parametrize("make", ["mkfs.ext4 -q -F", "mkswap"])
def test_a_new_file_system_over_the_label_stays_whole(tmp_path: Path, make: str) -> None:
    with loop_device(tmp_path) as loop:
        subprocess.run([*make.split(), loop.node], check=True, capture_output=True)
        before = loop.content()
        serials = {loop.kernel_name: loop.serial}
        host = host_with_serials(tmp_path, serials, {"zdb": ZDB, "zpool": ZPOOL, "udevadm": "#!/bin/sh\n"})
        undo = storage_undos.UndoDevice(path=str(loop.link), serial=loop.serial, pool="hsp-abcdef", guid="7")
        with pytest.raises(LeftAlone, match=f"signature of {'swap' if make == 'mkswap' else 'ext4'}"):
            undo.undo(host)
        assert loop.content() == before


def test_a_partition_that_the_owner_has_made_since_stays(tmp_path: Path) -> None:
    with loop_device(tmp_path) as loop:
        helper = [sys.executable, "-I", str(partition.HELPER)]
        sizes = Path(f"/sys/class/block/{loop.kernel_name}/{loop.kernel_name}p1/size")
        subprocess.run([*helper, "add", loop.node, str(8 << 20), str(4 << 20)], check=True)
        host = host_with_serials(tmp_path, {}, {"udevadm": "#!/bin/sh\n"})
        node = Path(f"{loop.node}p1")
        for size_bytes in (4 << 20, 16 << 20):
            undo = storage_undos.Partition(device_path=loop.node, size_bytes=size_bytes)
            with pytest.raises(LeftAlone, match=f"{4 << 20} bytes at {8 << 20}"):
                undo.undo(host)
            assert node.exists() and sizes.read_text() == f"{(4 << 20) // 512}\n"
        subprocess.run([*helper, "del", loop.node, str(8 << 20), str(4 << 20)], check=True)
        subprocess.run([*helper, "add", loop.node, str(1 << 20), str(4 << 20)], check=True)
        storage_undos.Partition(device_path=loop.node, size_bytes=4 << 20).undo(host)
        assert not node.exists()


def test_a_partition_of_a_table_stays() -> None:
    entry = "PART_ENTRY_TYPE=0x83\nPART_ENTRY_UUID=1234-01\n"
    host = ScriptedHost({"lsblk --nodeps": "S1\n", "blkid": entry})
    with pytest.raises(partition.Repartitioned, match="type 0x83, id 1234-01"):
        partition.remove(host, PATH, "S1", 1 << 30)
    assert not any("del" in command.argv for command in host.commands)


@pytest.mark.parametrize(("answer", "error"), [("OTHER\n", SafetyRefusal), ((32, "", "gone"), HostError)])
def test_the_partition_of_another_disk_stays(
    answer: str | tuple[int, str, str], error: type[Exception]
) -> None:
    host = ScriptedHost({"lsblk --nodeps": answer})
    with pytest.raises(error):
        partition.remove(host, PATH, "S1", 1 << 30)
    assert not any("del" in command.argv for command in host.commands)
    partition.remove(host, PATH, "", 1 << 30)  # an emulated device has no serial
    assert any("del" in command.argv for command in host.commands)


CACHE_LABEL = """\
LABEL 0
    version: 5000
    state: 4
    guid: 862923464577455445
    labels = 0 1 2 3
L2ARC device header
    magic: 6504978260106102853
    version: 1
    pool_guid: 8301348999092846956
"""


def test_a_whole_cache_device_is_given_back_bare_though_its_label_names_no_pool() -> None:
    no_label = (1, "failed to unpack label 0\n", "")
    host = disk(label=None, signature=None)
    host.answers |= {f"zdb -l {PATH}-part1": CACHE_LABEL, f"zdb -l {PATH}": no_label}
    clear_label.clear(host, PATH, "S1", "hsp-abcdef", "8301348999092846956")
    assert changes_of(host) == [
        ("zpool", "labelclear", f"{PATH}-part1"),
        wiped(f"{PATH}-part1", "zfs_member"),
    ]


@pytest.mark.parametrize(
    ("label", "guid"),
    [
        (CACHE_LABEL, "8301348999092846957"),
        (CACHE_LABEL, ""),
        (CACHE_LABEL.replace("state: 4", "state: 3"), "8301348999092846956"),
        # Two copies of the header that differ, and a label without one.
        (CACHE_LABEL + "    pool_guid: 1\n", "8301348999092846956"),
        (CACHE_LABEL.partition("L2ARC")[0], "862923464577455445"),
    ],
)
def test_the_cache_device_of_another_pool_is_not_changed_and_is_listed(label: str, guid: str) -> None:
    host = disk(label=None, signature=None)
    host.answers |= {f"zdb -l {PATH}-part1": label}
    with pytest.raises(SafetyRefusal, match="of an unknown pool") as caught:
        clear_label.clear(host, PATH, "S1", "hsp-abcdef", guid)
    assert f"zpool labelclear {PATH}-part1" in caught.value.hint
    assert changes_of(host) == []
