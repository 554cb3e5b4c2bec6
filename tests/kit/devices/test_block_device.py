"""kit.devices.block_device: a device that is in use or undetermined is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.devices.block_device import (
    check_same,
    find_unused,
    has_smart,
    parse_capacitor_health,
    parse_smart,
    read_written,
)
from tests.fakes import Answer, ScriptedHost
from tests.kit.devices.facts import one_device

PATH = "/dev/disk/by-id/ata-X"
GIB = 1 << 30


def bare(name: str = "sdb", size_bytes: int = GIB, serial: str = "S3", **changes: Any) -> dict[str, Any]:
    return one_device(PATH, name, size_bytes, serial, **changes)


def host_of(probe: Answer = "", **answers: Answer) -> ScriptedHost:
    """A host with one device: the answer of probe_devices.py, and of other programs."""
    return ScriptedHost({"python3": probe or bare(), **answers})


def refused(probe: Answer) -> str:
    with pytest.raises(SafetyRefusal) as caught:
        find_unused(host_of(probe), PATH, GIB)
    assert caught.value.exit_code == 4 and caught.value.hint
    return caught.value.message


def test_a_bare_device() -> None:
    device = find_unused(host_of(), PATH, GIB)
    assert device.identity() == {"path": PATH, "serial": "S3", "size_bytes": GIB}
    assert (device.kernel_name, device.discard_bytes, device.model) == ("sdb", 2147450880, "SSD")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"partition": "1", "parent": "sda"}, "it is not a whole disk but a partition of sda"),
        ({"dm": ["x", "mpath-x"]}, "it is not a whole disk but a multipath device"),
        ({"holders": ["dm-0"]}, "is part of /dev/dm-0"),
        ({"ro": "1"}, "read-only"),
        ({"size_bytes": GIB - 512}, "the testbed says 1073741824"),
        ({"alone": "Device or resource busy"}, "it is in use"),
        ({"signature": "ext4"}, "signature on /dev/sdb: ext4"),
        ({"signature": "gpt"}, "signature on /dev/sdb: gpt"),
        ({"label": "LABEL 0\n    state: 0\n    name: 'tank'\n"}, "belongs to the pool 'tank'"),
        ({"label": "LABEL 0\n    state: 1\n    name: 'tank'\n"}, "belongs to the pool 'tank'"),
        ({"label": "LABEL 0\n    state: 2\nLABEL 1\n    state: 0\n    name: 'tank'\n"}, "pool 'tank'"),
        ({"label": "garbage"}, "could not be determined"),
    ],
)
def test_reasons(changes: dict[str, Any], reason: str) -> None:
    message = refused(bare(**changes))
    assert reason in message and message.startswith(f"{PATH} on server is not touched: ")


@pytest.mark.parametrize("text", ["", "garbage", "{}", "[]", '{"format": 1}'])
def test_garbage_is_refused(text: str) -> None:
    assert "could not be determined" in refused(text or " ")


@pytest.mark.parametrize("state", [2, 3, 4])
def test_labels_of_unused_devices_are_allowed(state: int) -> None:
    label = f"LABEL 0\n    state: {state}\n    name: 'old'\n"
    find_unused(host_of(bare(label=label, signature="zfs_member")), PATH)


def test_a_swapped_device_is_detected() -> None:
    device = find_unused(host_of(), PATH)
    check_same(host_of(), device)
    # What lies on it by now is the kit's own.
    check_same(host_of(bare(signature="ext4")), device)
    for changes in ({"serial": "S4"}, {"size_bytes": 1 << 31}, {"name": "sdc"}, {"holders": ["md0"]}):
        with pytest.raises(SafetyRefusal):
            check_same(host_of(bare(**changes)), device)


def test_bytes_written_come_from_the_seventh_field() -> None:
    stat = "  100 0 800 5 200 0 4096 7 0 9 12 3 0 99999 1 0 0\n"
    device = find_unused(host_of(), PATH)
    assert read_written(host_of(cat=(0, stat, "")), device).kernel_bytes == 4096 * 512
    for garbage in ("", "1 2 3", "a b c d e f g"):
        with pytest.raises(HostError, match="/sys/class/block/sdb/stat"):
            read_written(host_of(cat=(0, garbage, "")), device)


def test_smart_units_are_of_512000_bytes() -> None:
    assert parse_smart('{"critical_warning": 0, "data_units_written": 3}') == (1_536_000, 0)
    assert parse_smart('{"critical_warning": 4, "data_units_written": "36893488147419103232"}')[1] == 4
    assert parse_smart('{"critical_warning": {"value": 2}, "data_units_written": 1}') == (512_000, 2)
    for garbage in ("", "[]", "{}", "null", '{"data_units_written": null}', "[" * 100_000):
        assert parse_smart(garbage) == (None, 0)


def test_smart_is_read_of_nvme_only() -> None:
    log = (0, '{"critical_warning": 0, "data_units_written": 3}', "")
    nvme = find_unused(host_of(bare("nvme0n1")), PATH)
    assert has_smart(host_of(sh=log), nvme)
    assert not has_smart(host_of(sh=(127, "", "")), nvme)
    assert not has_smart(host_of(sh=log), find_unused(host_of(), PATH))
    both = read_written(host_of(sh=log, cat=(0, "0 0 0 0 0 0 8 0", "")), nvme, with_smart=True)
    assert (both.kernel_bytes, both.smart_bytes, both.smart_warning) == (4096, 1_536_000, 0)


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ('{"Percent free blocks": 100, "Capacitor health": 98, "PLP start count": 4}', 98),
        ('{"Capacitor Health": "101"}', 101),  # other versions of nvme-cli
        ('{"Capacitor health": 65535}', None),  # the device has none
        ('{"Capacitor health": -1}', None),
        ('{"Capacitor health": {}}', None),
        ("{}", None),
        ("[]", None),
        ("", None),
        ("NVMe status: Invalid Log Page", None),
        ("[" * 100_000, None),
    ],
)
def test_the_log_of_capacitors(text: str, percent: int | None) -> None:
    assert parse_capacitor_health(text) == percent
