"""kit.devices.listing: the output of `hsp host disks`, and the table for a testbed."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.config.testbed_devices import Device
from kit.core.text import safe_text
from kit.devices.listing import ListedDisk, describe, device_block, list_devices, proposed_roles
from kit.devices.locks import lock_names
from kit.devices.refusal_reasons import Code, Reason
from tests.fakes import ScriptedHost
from tests.kit.devices.facts import recorded, spec_of

LISTED = list_devices(ScriptedHost(default=recorded("pools")))


def told(disk: ListedDisk) -> list[Reason]:
    """Without a link a disk is not also told to be named by one."""
    codes = {reason.code for reason in disk.reasons}
    return [each for each in disk.reasons if Code.NO_ID not in codes or each.code is not Code.KERNEL_NAME]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_hostile_names_are_inert(model: str, serial: str) -> None:
    facts = recorded("pools")
    lsblk = json.loads(facts["tools"]["lsblk"]["out"])
    for entry in lsblk["blockdevices"]:
        entry["model"], entry["serial"] = model, serial
    facts["tools"]["lsblk"]["out"] = json.dumps(lsblk)
    for disk in list_devices(ScriptedHost(default=facts)):
        shown = describe(disk, all_=True)
        assert all(safe_text(line) == line for line in shown.splitlines())
        assert len(shown.splitlines()) == 2 + (1 if disk.available else 1 + len(told(disk)))
        block = device_block(disk)
        assert block.isascii() and all(char.isprintable() or char == "\n" for char in block)
        (device,) = tomllib.loads(block)["device"]
        assert device["serial"] == disk.node.serial.encode("utf-16", "replace").decode("utf-16", "replace")
        assert json.dumps(disk.as_json()).isascii()
        assert all("/" not in name for name in lock_names(disk.node))


def test_the_listing_has_a_table_for_the_testbed() -> None:
    facts = recorded("pools")
    log = '{"critical_warning": 0, "temperature": 323, "percent_used": 0}'
    facts["disks"]["nvme0n1"]["nvme"] = {"argv": ["nvme"], "code": 0, "out": log, "err": ""}
    listed = {disk.node.kernel_name: disk for disk in list_devices(ScriptedHost(default=facts))}
    assert tomllib.loads(device_block(listed["sdc"]))["device"] == [
        {"name": "sdc", "role": "data", "path": spec_of("sd2").path, "serial": "HSPSD2", "size": "128MiB"}
    ]
    shown = describe(listed["nvme0n1"])
    assert "QEMU NVMe Ctrl, serial HSPNVME0, 128MiB, nvme" in shown and "wear 0 %, 50 C" in shown
    assert "available: no, because" in shown and "pool 'broken'" in shown


GIB = 1 << 30


@pytest.mark.parametrize(
    ("disks", "roles"),
    [
        # Rotational, size.
        ([(True, 4000), (True, 4000), (False, 960), (False, 100)], ["data", "data", "cache", "log"]),
        ([(True, 4000), (False, 16)], ["data", "log"]),
        ([(True, 4000), (False, 960)], ["data", "cache"]),
        ([(False, 960), (False, 960)], ["data", "data"]),
        ([(True, 4000)], ["data"]),
        ([], []),
    ],
)
def test_roles_are_proposed_by_kind_and_size(disks: list[tuple[bool, int]], roles: list[str]) -> None:
    (disk,) = [each for each in LISTED if each.node.kernel_name == "sdc"]
    listed = [
        replace(disk, node=replace(disk.node, kernel_name=f"sd{n}", rotational=turns, size_bytes=gib * GIB))
        for n, (turns, gib) in enumerate(disks)
    ]
    proposed = proposed_roles(listed)
    tables = tomllib.loads(
        "\n".join(device_block(each, "", *proposed[each.node.kernel_name]) for each in listed)
    )
    assert [table["role"] for table in tables.get("device", [])] == roles
    assert all("a proposal: " in device_block(each, "", *proposed[each.node.kernel_name]) for each in listed)


@given(
    st.integers(min_value=64 << 20, max_value=1 << 60) | st.integers(64, 1 << 40).map(lambda mib: mib << 20)
)
def test_a_testbed_takes_the_table_of_a_disk_of_any_size(size_bytes: int) -> None:
    (disk,) = [each for each in LISTED if each.node.kernel_name == "sdc"]
    block = device_block(replace(disk, node=replace(disk.node, size_bytes=size_bytes)))
    (table,) = tomllib.loads(block)["device"]
    assert Device.model_validate_json(json.dumps(table)).size == size_bytes
