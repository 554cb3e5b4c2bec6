"""Disks that are not what they seem, in the answers of a host's tools."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kit.core.errors import SafetyRefusal
from kit.devices.check import check, judge, refuse_any
from kit.devices.refusal_reasons import Code, DeviceSpec, reasons
from kit.devices.wipe import plan_wipe
from kit.remote import probe_devices
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import codes, parse, recorded, spec_of


def with_identity(facts: Any, name: str, **values: str | None) -> Any:
    """The facts of a host whose lsblk reports these values of the disk `name`."""
    listed = json.loads(facts["tools"]["lsblk"]["out"])
    (entry,) = (entry for entry in listed["blockdevices"] if entry["kname"] == name)
    entry |= values
    facts["tools"]["lsblk"]["out"] = json.dumps(listed)
    return facts


# --- Two paths to one disk, not joined by multipath: sdc (unused) and sdb are one disk with two ports. ---

WWN = "0x5000c500a1b2c3d4"


def two_paths(kind: str = "used", second: str = "sdb", **values: str | None) -> Any:
    same = {"serial": "HSPSD2", "wwn": WWN} | values
    return with_identity(with_identity(recorded(kind), "sdc", wwn=WWN), second, **same)


def mounted(facts: Any, number: str, node: str) -> Any:
    facts["mounts"].append(["1", facts["own"], f"50 1 {number} / /srv rw - ext4 {node} rw"])
    return facts


UNUSED = DeviceSpec(spec_of("sd2").path, "HSPSD2", spec_of("sd2").size_bytes)


def test_a_use_of_one_path_is_a_use_of_the_other() -> None:
    alone = parse("server", recorded("pools"))
    assert codes(alone, UNUSED) == set()
    for facts, code, text in (
        (mounted(two_paths("used"), "8:16", "/dev/sdb"), Code.MOUNTED, "mounted at /srv"),
        (two_paths("pools", "sda"), Code.POOL_LABEL, "belongs to the pool 'away'"),
        (two_paths("used", "vde"), Code.SWAP, "is swap space"),
        (two_paths("used", "vdf"), Code.LVM, "is part of /dev/dm-"),
        # What is unknown of one path makes no other disk of it.
        (two_paths("used", "vde", serial=None), Code.SWAP, "is swap space"),
        (two_paths("used", "vde", wwn=None), Code.SWAP, "is swap space"),
    ):
        listed = reasons(parse("server", facts), UNUSED)
        (reason,) = (r for r in listed if r.code is code and text in r.text)
        assert "another path to it: both have serial 'HSPSD2'" in reason.text and reason.remedy


@pytest.mark.parametrize("values", [{"serial": "OTHER"}, {"serial": None, "wwn": None, "model": "OTHER"}])
def test_disks_that_differ_in_serial_or_model_are_two(values: dict[str, str | None]) -> None:
    inventory = parse("server", two_paths("used", "vde", **{"wwn": None, **values}))
    assert not {Code.SWAP, Code.UNDETERMINED} & codes(inventory, UNUSED)


# What the other path says of the same disk.
SPELLINGS: dict[str, dict[str, str | None]] = {
    "another WWN": {"wwn": "0x5000c500a1b2c3d5"},
    "a serial in small letters": {"serial": "hspsd2"},
    "a serial with blanks": {"serial": "  HSP SD2 "},
    "a WWN without its prefix": {"serial": "OTHER", "wwn": "5000C500A1B2C3D4"},
    "a WWN of another kind": {"serial": None, "wwn": "naa.5000c500a1b2c3d4"},
    "neither serial nor WWN": {"serial": None, "wwn": None},
    "a host protected area": {"size": str(64 << 20)},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_whether_two_paths_are_one_disk_is_undetermined_where_they_differ(spelling: str) -> None:
    values = SPELLINGS[spelling]
    facts = two_paths("used", "vde", **{"wwn": "0x5000c500a1b2c3d4", "model": "QEMU HARDDISK", **values})
    for entry in (facts["devices"]["vde"],) if "size" in values else ():
        entry["sectors"] = str((64 << 20) // 512)
    facts = with_identity(facts, "sdc", wwn="0x5000c500a1b2c3d4")
    (reason,) = (
        reason for reason in reasons(parse("server", facts), UNUSED) if reason.code is Code.UNDETERMINED
    )
    assert "whether /dev/vde is another path to it" in reason.text


def test_namespaces_are_two_disks_even_if_nothing_but_their_number_differs() -> None:
    """The same namespace at two controllers is one disk; an unknown number may be the same one."""
    for first, second, is_one in (("1", "2", False), ("1", "1", True), (None, "2", True)):
        facts = with_identity(with_identity(recorded(), "nvme0n1", wwn=None), "nvme0n2", wwn=None)
        facts["devices"]["nvme0n1"]["nsid"], facts["devices"]["nvme0n2"]["nsid"] = first, second
        facts["devices"]["nvme0n1"]["controller"] = "/sys/devices/other/nvme1"
        assert (Code.MOUNTED in codes(parse("server", facts), spec_of("ns2"))) == is_one


def test_a_testbed_does_not_mirror_a_disk_with_itself() -> None:
    facts = two_paths("pools", "vdh", serial="HSPSD2")
    pair = [UNUSED, DeviceSpec(spec_of("vd5").path, "HSPSD2", UNUSED.size_bytes)]
    with pytest.raises(SafetyRefusal, match="is another path to the same disk") as caught:
        refuse_any("server", judge(parse("server", facts), pair))
    assert caught.value.message.count("another path to the same disk") == 2


def test_a_disk_in_use_by_its_other_path_is_not_wiped() -> None:
    facts = two_paths("used", "sdb")
    path = spec_of("sd1").path
    spec = DeviceSpec(path, "HSPSD2", UNUSED.size_bytes)
    assert plan_wipe(ScriptedHost(default=facts), spec).commands
    for number, node in (("8:32", "/dev/sdc"), ("8:32", "/dev/root")):
        used = ScriptedHost(default=mounted(two_paths("used", "sdb"), number, node))
        with pytest.raises(SafetyRefusal, match="is mounted at /srv"):
            plan_wipe(used, spec)


def test_the_other_paths_of_a_disk_are_examined_with_it() -> None:
    lsblk = two_paths()["tools"]["lsblk"]
    assert probe_devices.with_other_paths({"sdc"}, lsblk) == {"sdc", "sdb"}
    assert probe_devices.with_other_paths({"sda"}, lsblk) == {"sda"}
    incomplete = '{"blockdevices": [{"type": "disk", "kname": 1}]}'
    for output in ("", "{}", "[]", '{"blockdevices": [{}]}', incomplete):
        assert probe_devices.with_other_paths({"sdc"}, {"out": output}) == {"sdc"}


def test_a_path_that_was_not_examined_is_a_reason() -> None:
    facts = two_paths("pools", "sdb")
    del facts["disks"]["sdb"]
    (checked,) = check(ScriptedHost(default=facts), [UNUSED])
    assert "it was not examined" in " ".join(reason.text for reason in checked.reasons)


# --- What may be wiped is a closed list ---

FOREIGN = (
    "isw_raid_member ddf_raid_member lsi_mega_raid_member promise_fasttrack_raid_member bcache drbd vdo "
    "ceph_bluestore stratis VMFS VMFS_volume_member oracleasm btrfs DM_integrity DM_snapshot_cow jbd gfs2 "
    "DM_verity_hash BitLocker xfs_external_log swsuspend ocfs2 cs_fvault2 apfs hfsplus f2fs LVM1_member "
    "lvm2_member EXT4 some_type_of_next_year"
).split()


def signed(kind: str, name: str = "sdc") -> Any:
    facts = recorded("pools")
    listed = json.loads(facts["tools"]["wipefs"]["out"])
    listed["signatures"].append({"device": name, "offset": "0x1000", "type": kind, "label": None})
    facts["tools"]["wipefs"]["out"] = json.dumps(listed)
    return facts


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_may_be_a_member_of_something_is_not_wiped(kind: str) -> None:
    with pytest.raises(SafetyRefusal, match=f"there is a signature on /dev/sdc: {kind}") as caught:
        plan_wipe(ScriptedHost(default=signed(kind)), UNUSED)
    assert "other disks may depend on it" in caught.value.hint
    # Nor beside something that may be wiped, in a partition.
    host = ScriptedHost(default=signed(kind, "vdh1"))
    with pytest.raises(SafetyRefusal, match=f"there is a signature on /dev/vdh1: {kind}"):
        plan_wipe(host, spec_of("vd5"))


@pytest.mark.parametrize(
    "kind", ["ext2", "ext4", "xfs", "vfat", "exfat", "ntfs", "swap", "dos", "gpt", "PMBR"]
)
def test_what_is_complete_on_one_disk_may_be_wiped(kind: str) -> None:
    assert plan_wipe(ScriptedHost(default=signed(kind)), UNUSED).commands


@pytest.mark.parametrize(
    "kind",
    [
        "af9b60a0-1431-4f62-bc68-3311714a69ad",  # Windows, dynamic disk
        "5808c8aa-7e8f-42e0-85d2-e1e90434cfb3",  # its database
        "e75caf8f-f680-4cee-afa3-b001e56efc2d",  # Storage Spaces
        "AA31E02A-400F-11DB-9590-000C2911D1B8",  # VMFS
        "4fbd7e29-9d25-41b8-afd0-062c0ceff05d",  # Ceph
        "a19d880f-05fc-4d3b-a006-743f0f84911e",  # Linux RAID
        "0x42", "0xfd", "0xfb", "0x8e", None,
    ],
)  # fmt: skip
def test_a_partition_of_another_system_is_not_wiped_though_it_has_no_signature(kind: str | None) -> None:
    facts = with_identity(recorded("pools"), "vdh9", parttype=kind)
    with pytest.raises(SafetyRefusal, match="/dev/vdh9 is a partition of"):
        plan_wipe(ScriptedHost(default=facts), spec_of("vd5"))


# --- Who has a disk open ---


def test_a_hostile_process_name_is_shown_without_its_escapes() -> None:
    facts = recorded("pools")
    facts["open"] = [["sdc", "4711", "\x1b[2Jqemu\u202e"], ["sdb", "12", "other"]]
    (reason,) = reasons(parse("server", facts), UNUSED)
    assert reason.code is Code.OPEN and reason.text == "process 4711 (?[2Jqemu?) has /dev/sdc open"


def test_a_process_of_a_partition_or_of_another_path_counts() -> None:
    facts = recorded("pools")
    facts["open"] = [["vdh9", "1", "x"]]
    assert Code.OPEN in codes(parse("server", facts), spec_of("vd5"))
    facts = two_paths("pools", "sdb")
    facts["open"] = [["sdb", "1", "x"]]
    assert Code.OPEN in codes(parse("server", facts), UNUSED)


def test_processes_that_cannot_be_read_make_every_disk_undetermined() -> None:
    facts = recorded("pools")
    facts["unread_files"] = ["1: Permission denied"]
    (reason,) = reasons(parse("server", facts), UNUSED)
    assert reason.code is Code.UNDETERMINED and "open files of process 1: Permission denied" in reason.text
    for missing in ("open", "unread_files"):
        facts = recorded("pools")
        del facts[missing]
        with pytest.raises(ValueError, match=missing):
            parse("server", facts)


def test_what_never_answers_ends_at_the_deadline() -> None:
    assert probe_devices.in_child(lambda: [1, 2], 30) == [1, 2]
    assert probe_devices.in_child(lambda: time.sleep(600), 0.2) is None
