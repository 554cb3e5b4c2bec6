"""kit.devices.refusal_reasons: each use of a disk has its reason, from the recorded answers of a guest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kit.devices.refusal_reasons import WIPEABLE, Code, DeviceSpec, reasons
from tests.kit.devices.facts import (
    BY_ID,
    DISKS,
    REASONS_OF_USES,
    SIZE,
    codes,
    one_device,
    parse,
    recorded,
    spec_of,
)


def test_each_use_has_its_reason() -> None:
    inventory = parse("server", recorded())
    assert inventory.problems == ()
    assert {disk: codes(inventory, spec_of(disk)) for disk in DISKS} == REASONS_OF_USES
    of_root = codes(inventory, DeviceSpec("/dev/vda", "x", 1))
    assert of_root >= {Code.ROOT_DISK, Code.KERNEL_NAME, Code.MOUNTED}


def test_each_membership_in_a_pool_has_its_reason() -> None:
    inventory = parse("server", recorded("pools"))
    assert inventory.problems == ()
    for disk in ("vd0", "vd1", "vd2", "vd3"):
        assert codes(inventory, spec_of(disk)) >= {Code.POOL_IMPORTED, Code.BUSY, Code.PARTITIONS}
    for disk in ("vd4", "sd0", "sd1", "ns1"):
        assert Code.POOL_LABEL in codes(inventory, spec_of(disk))
    assert codes(inventory, spec_of("vd5")) == WIPEABLE
    assert codes(inventory, spec_of("sd2")) == set()


def test_one_source_of_information_is_enough() -> None:
    """Each of several witnesses is enough: without the exclusive open, and without the tables of mounts."""
    facts = recorded("pools")
    for disk in facts["disks"].values():
        disk["alone"] = ""
    assert all(
        codes(parse("server", facts), spec_of(disk)) >= {Code.POOL_IMPORTED} for disk in ("vd0", "vd3")
    )
    facts = recorded()
    facts["mounts"], facts["swaps"] = [], "Filename Type"
    observed = parse("server", facts)
    assert Code.BUSY in codes(observed, spec_of("vd1")) and Code.BUSY in codes(observed, spec_of("vd2"))


def test_names_serials_sizes() -> None:
    inventory = parse("server", recorded())
    assert codes(inventory, spec_of("sd1", path="/dev/sdb")) >= {Code.KERNEL_NAME}
    (first,) = [r for r in reasons(inventory, spec_of("sd1", path="/dev/sdb")) if r.code is Code.KERNEL_NAME]
    assert first.remedy == f'write path = "{spec_of("sd1").path}"'
    texts = " ".join(r.text for r in reasons(inventory, spec_of("sd1", serial="S2", size_bytes=5)))
    assert "is 'HSPSD1', the testbed says 'S2'" in texts and f"{SIZE} bytes, the testbed says 5" in texts
    assert Code.SERIAL in codes(inventory, spec_of("sd1", serial=None))
    assert Code.SERIAL in codes(inventory, spec_of("sd1", serial=""))
    for path in (BY_ID, f"{BY_ID}nothing", f"{BY_ID}../../sdb", "/dev/disk/by-path/x", "", "sdb"):
        assert codes(inventory, spec_of("sd1", path=path)) & {Code.NOT_FOUND, Code.KERNEL_NAME}


def test_duplicates() -> None:
    inventory = parse("server", recorded("pools"))
    disk = spec_of("vd4")
    part = DeviceSpec(f"{disk.path}-part1", disk.serial, SIZE)
    alias = DeviceSpec("/dev/vdg", disk.serial, SIZE)
    assert Code.DUPLICATE in codes(inventory, disk, [part])
    assert codes(inventory, part, [disk]) >= {Code.DUPLICATE, Code.NOT_WHOLE}
    assert Code.DUPLICATE in codes(inventory, disk, [alias])
    assert Code.DUPLICATE in codes(inventory, disk, [disk])
    assert Code.DUPLICATE not in codes(inventory, disk, [spec_of("vd5"), spec_of("ns1")])


def test_a_sibling_of_the_same_testbed_is_allowed() -> None:
    inventory = parse("server", recorded())
    assert codes(inventory, spec_of("ns2"), [spec_of("ns1")]) == set()
    assert Code.SIBLING in codes(inventory, spec_of("ns2"), [spec_of("sd1")])


def test_namespaces_of_different_controllers_are_not_siblings() -> None:
    facts = recorded()
    facts["devices"]["nvme0n1"]["controller"] = "/sys/devices/other/nvme1"
    assert codes(parse("server", facts), spec_of("ns2")) == set()


@pytest.mark.parametrize(
    "changes",
    [{"removable": "1"}, {"removable": None}, {"ro": None}, {"slaves": ["sda"]}, {"holders": ["bcache0"]}],
)
def test_flags_of_the_kernel(changes: dict[str, Any]) -> None:
    facts = recorded("pools")
    assert codes(parse("server", facts), spec_of("sd2")) == set()
    facts["devices"]["sdc"] |= changes
    assert codes(parse("server", facts), spec_of("sd2"))


def test_a_link_that_several_namespaces_claim_is_refused() -> None:
    facts = recorded()
    plain = spec_of("ns1", path=f"{BY_ID}nvme-QEMU_NVMe_Ctrl_HSPNVME0")
    (reason,) = (r for r in reasons(parse("server", facts), plain) if r.code == Code.SHARED_ID)
    assert spec_of("ns1").path in reason.remedy
    # Of a controller with one namespace it is as good as any.
    facts["devices"]["nvme0n2"]["controller"] = "/sys/devices/other/nvme1"
    assert Code.SHARED_ID not in codes(parse("server", facts), plain)


def test_the_document_names_every_code() -> None:
    text = (Path(__file__).parents[3] / "docs" / "formats" / "output.md").read_text()
    part = text.partition("## Disks of a server")[2].partition("\n## ")[0]
    assert {code for code in Code if f"`{code.value}`" in part} == set(Code)


def test_both_sides_of_a_multipath_disk_say_what_to_do() -> None:
    size = 4_000_787_030_016
    joined = one_device(f"{BY_ID}scsi-3", "dm-0", size, slaves=["sdb"], dm=["mpatha", "mpath-3"])
    path = one_device(
        "", "sdb", size, serial="S1", dev="8:16", holders=["dm-0"], alone="Device or resource busy"
    )
    joined["devices"] |= path["devices"]
    joined["disks"] = path["disks"]
    joined["open"] = [["sdb", "3578", "multipathd"]]
    listed = [json.loads(each["tools"]["lsblk"]["out"])["blockdevices"][0] for each in (joined, path)]
    listed[0] |= {"type": "mpath"}
    listed[1] |= {"fstype": "mpath_member"}
    joined["tools"]["lsblk"]["out"] = json.dumps({"blockdevices": listed})
    inventory = parse("server", joined)
    (of_joined,) = reasons(inventory, DeviceSpec(f"{BY_ID}scsi-3", "S1", size))
    # Busy, without a link, open by multipathd, a member: all follow from that it is joined.
    (of_path,) = reasons(inventory, DeviceSpec("/dev/sdb", "S1", size))
    assert (of_path.code, of_path.remedy) == (Code.MULTIPATH, of_joined.remedy)
    assert "multipath.conf" in of_joined.remedy and "multipath disk itself" not in of_joined.remedy


def test_a_disk_of_520_byte_sectors_has_no_size_for_linux() -> None:
    inventory = parse("server", one_device(f"{BY_ID}scsi-5", "sdc", 0, serial="S5"))
    found = {each.code: each for each in reasons(inventory, DeviceSpec(f"{BY_ID}scsi-5", "S5"))}
    assert "520" in found[Code.TOO_SMALL].text and "--size=512" in found[Code.TOO_SMALL].remedy


def test_a_directory_is_not_looked_for_as_a_disk() -> None:
    inventory = parse("server", one_device(f"{BY_ID}x", "sda", 1 << 30))
    codes = {each.code: each.remedy for each in reasons(inventory, DeviceSpec("/dev/disk/by-id", "S"))}
    assert "no directory" in codes[Code.NOT_FOUND]


def test_the_path_that_udev_has_no_link_for_names_that_of_the_other() -> None:
    link = f"{BY_ID}scsi-35000"
    both, other = (one_device(link, name, 1 << 40, serial="S1") for name in ("sda", "sdb"))
    both["devices"] |= {"sdb": {**other["devices"]["sdb"], "dev": "8:16"}}
    both["disks"] |= other["disks"]
    listed = [json.loads(each["tools"]["lsblk"]["out"])["blockdevices"][0] for each in (both, other)]
    both["tools"]["lsblk"]["out"] = json.dumps({"blockdevices": [each | {"wwn": "0x5"} for each in listed]})
    inventory = parse("server", both)
    found = {each.code: each for each in reasons(inventory, DeviceSpec("/dev/sdb", "S1", 1 << 40))}
    assert found[Code.NO_ID].remedy == f"it is another path to {link}: use that link"
    alone = parse("server", one_device("", "sdb", 1 << 40, serial="S1"))
    found = {each.code: each for each in reasons(alone, DeviceSpec("/dev/sdb", "S1", 1 << 40))}
    assert found[Code.NO_ID].remedy == "use another disk"
