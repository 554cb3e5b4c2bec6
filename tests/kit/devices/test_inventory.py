"""kit.devices.inventory: the link of a disk with its serial and namespace."""

from __future__ import annotations

from kit.devices.inventory import preferred_link
from kit.devices.refusal_reasons import Code
from tests.kit.devices.facts import DISKS, codes, parse, recorded, spec_of


def test_the_preferred_link_has_the_serial_and_the_namespace() -> None:
    inventory = parse("server", recorded())
    for disk in DISKS:
        node = inventory.find(spec_of(disk).path)
        assert node and preferred_link(node) == spec_of(disk).path


def test_a_namespace_is_identified_by_its_link_not_by_its_kernel_name() -> None:
    facts = recorded()
    numbered = "/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_HSPNVME0"
    facts["links"] |= {f"{numbered}_1": "/dev/nvme0n2", f"{numbered}_2": "/dev/nvme0n1"}
    inventory = parse("server", facts)
    for disk in ("ns1", "ns2"):
        node = inventory.find(spec_of(disk).path)
        assert node and preferred_link(node) == spec_of(disk).path
        assert Code.SHARED_ID not in codes(inventory, spec_of(disk))
