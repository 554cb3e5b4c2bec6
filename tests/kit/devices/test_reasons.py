"""kit.devices.reasons: each use of a disk has its reason, from the recorded answers of a guest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.devices.reasons import WIPEABLE, Code, DeviceSpec, reasons
from tests.kit.devices.facts import BY_ID, DISKS, SIZE, codes, parse, recorded, spec_of


def test_each_use_has_its_reason() -> None:
    inventory = parse("server", recorded())
    assert inventory.problems == ()
    observed = {disk: codes(inventory, spec_of(disk)) for disk in DISKS}
    assert observed == {
        "vd0": {Code.HOLDER, Code.BUSY, Code.SIGNATURE},
        "vd1": {Code.MOUNTED, Code.BUSY, Code.SIGNATURE},
        "vd2": {Code.SWAP, Code.BUSY, Code.SIGNATURE},
        "vd3": {Code.LVM, Code.BUSY},
        "vd4": {Code.MD, Code.BUSY},
        "vd5": {Code.CRYPT, Code.BUSY},
        "sd0": {Code.MULTIPATH, Code.BUSY},
        "sd1": {Code.SIGNATURE},
        "sd2": {Code.READ_ONLY},
        "ns1": {Code.MOUNTED, Code.BUSY, Code.SIGNATURE},
        "ns2": {Code.SIBLING},
    }
    assert codes(inventory, DeviceSpec("/dev/vda", "x", 1)) >= {
        Code.ROOT_DISK,
        Code.KERNEL_NAME,
        Code.MOUNTED,
    }


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
    one = spec_of("vd4")
    part = DeviceSpec(f"{one.path}-part1", one.serial, SIZE)
    alias = DeviceSpec("/dev/vdg", one.serial, SIZE)
    assert Code.DUPLICATE in codes(inventory, one, [part])
    assert codes(inventory, part, [one]) >= {Code.DUPLICATE, Code.NOT_WHOLE}
    assert Code.DUPLICATE in codes(inventory, one, [alias])
    assert Code.DUPLICATE in codes(inventory, one, [one])
    assert Code.DUPLICATE not in codes(inventory, one, [spec_of("vd5"), spec_of("ns1")])


def test_a_sibling_of_the_same_testbed_is_allowed() -> None:
    inventory = parse("server", recorded())
    assert codes(inventory, spec_of("ns2"), [spec_of("ns1")]) == set()
    assert Code.SIBLING in codes(inventory, spec_of("ns2"), [spec_of("sd1")])


def test_namespaces_of_different_controllers_are_not_siblings() -> None:
    facts = recorded()
    facts["devices"]["nvme0n1"]["controller"] = "/sys/devices/other/nvme1"
    assert codes(parse("server", facts), spec_of("ns2")) == set()


@pytest.mark.parametrize(
    ("disk", "changes"),
    [
        ("sd2", {"removable": "1"}),
        ("sd2", {"removable": None}),
        ("sd2", {"ro": None}),
        ("sd2", {"slaves": ["sda"]}),
        ("sd2", {"holders": ["bcache0"]}),
    ],
)
def test_flags_of_the_kernel(disk: str, changes: dict[str, Any]) -> None:
    facts = recorded("pools")
    assert codes(parse("server", facts), spec_of(disk)) == set()
    facts["devices"]["sdc"] |= changes
    assert codes(parse("server", facts), spec_of(disk))


def test_a_link_that_several_namespaces_claim_is_refused() -> None:
    facts = recorded()
    plain = spec_of("ns1", path=f"{BY_ID}nvme-QEMU_NVMe_Ctrl_HSPNVME0")
    (reason,) = (r for r in reasons(parse("server", facts), plain) if r.code == Code.SHARED_ID)
    assert spec_of("ns1").path in reason.remedy
    # Of a controller with one namespace it is as good as any.
    facts["devices"]["nvme0n2"]["controller"] = "/sys/devices/other/nvme1"
    assert Code.SHARED_ID not in codes(parse("server", facts), plain)


def test_the_document_names_every_code() -> None:
    text = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
    part = text.partition("## Disks of a server")[2].partition("\n## ")[0]
    assert {code for code in Code if f"`{code.value}`" in part} == set(Code)
