"""kit.blockdevice: what is in use, or cannot be found out, is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.blockdevice import check_same, find_unused, has_smart, parse_lsblk, parse_smart, read_written
from kit.errors import HostError, SafetyRefusal
from kit.hosts.base import Result

PATH = "/dev/disk/by-id/ata-X"
ENTRY: dict[str, Any] = {
    "name": "sdb", "kname": "sdb", "type": "disk", "size": 1 << 30, "serial": "S3 ", "model": "SSD  ",
    "ro": False, "mountpoints": [None], "log-sec": 512, "disc-max": 2147450880, "tran": "sata",
}  # fmt: skip


def lsblk(**changes: Any) -> str:
    return json.dumps({"blockdevices": [{**ENTRY, **changes}]})


class Machine:
    name = "server"

    def __init__(self, **answers: tuple[int, str, str]) -> None:
        self.answers = {"lsblk": (0, lsblk(), ""), "blkid": (2, "", ""), **answers}

    def run(self, argv: Sequence[str], check: bool = True, **_: Any) -> Result:
        code, out, err = self.answers.get(argv[0].rsplit("/", 1)[-1], (0, "", ""))
        return Result(self.name, tuple(argv), code, out, err)


def refused(**answers: tuple[int, str, str]) -> str:
    with pytest.raises(SafetyRefusal) as caught:
        find_unused(Machine(**answers), PATH, 1 << 30)  # type: ignore[arg-type]
    assert caught.value.exit_code == 4 and caught.value.hint
    assert caught.value.message.startswith(f"{PATH} on server is not touched: ")
    return caught.value.message


def test_a_bare_device() -> None:
    device = find_unused(Machine(), PATH, 1 << 30)  # type: ignore[arg-type]
    assert device.identity() == {"path": PATH, "serial": "S3", "size_bytes": 1 << 30}
    assert (device.kernel_name, device.discard_bytes, device.model) == ("sdb", 2147450880, "SSD")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": "part"}, "no whole device but of the kind 'part'"),
        ({"type": "mpath"}, "of the kind 'mpath'"),
        ({"children": [{"name": "sdb1"}]}, "there is something on it: sdb1"),
        ({"mountpoints": [None, "/srv"]}, "in use: /srv"),
        ({"mountpoints": ["[SWAP]"]}, "in use: [SWAP]"),
        ({"ro": True}, "read-only"),
        ({"ro": "1"}, "read-only"),
        ({"size": (1 << 30) - 512}, "the testbed says 1073741824"),
        ({"size": 0}, "what no device can be"),
        ({"size": "x"}, "cannot be understood"),
        ({"kname": "../sda"}, "what no device can be"),
        ({"log-sec": None}, "cannot be understood"),
    ],
)
def test_reasons(changes: dict[str, Any], reason: str) -> None:
    assert reason in refused(lsblk=(0, lsblk(**changes), ""))


@pytest.mark.parametrize("text", ["", "garbage", "{}", "[]", '{"blockdevices": []}', '{"blockdevices": [1]}'])
def test_garbage_of_lsblk_is_refused(text: str) -> None:
    assert "cannot be understood" in refused(lsblk=(0, text, ""))


def test_lsblk_that_fails_is_refused() -> None:
    assert "not a block device" in refused(lsblk=(32, "", "lsblk: not a block device"))


@given(
    st.dictionaries(st.sampled_from([*ENTRY, "children"]), st.none() | st.integers() | st.text(), max_size=4)
)
def test_whatever_lsblk_says_is_a_device_or_a_refusal(changes: dict[str, Any]) -> None:
    try:
        device = parse_lsblk(lsblk(**changes), PATH, Machine())  # type: ignore[arg-type]
    except SafetyRefusal:
        return
    assert device.size_bytes > 0 and "/" not in device.kernel_name


def test_signatures() -> None:
    assert "signature on it: ext4" in refused(blkid=(0, "TYPE=ext4\nUUID=1\n", ""))
    assert "signature on it: gpt partition table" in refused(blkid=(0, "PTTYPE=gpt\n", ""))
    assert "could not be determined (blkid: 8)" in refused(blkid=(8, "", "ambivalent"))
    assert "could not be determined (blkid: 127)" in refused(blkid=(127, "", "not found"))
    assert "could not be determined" in refused(blkid=(0, "", ""))


@pytest.mark.parametrize(
    ("label", "free"),
    [
        ("    state: 2\n    name: 'old'\n", True),
        ("    state: 4\n", True),
        ("    state: 0\n    name: 'tank'\n", False),
        ("    state: 1\n    name: 'tank'\n", False),
        ("", False),
        ("    state: 2\n    state: 0\n    name: 'tank'\n", False),
    ],
)
def test_only_labels_of_nobody_are_free(label: str, free: bool) -> None:
    answers = {"blkid": (0, "TYPE=zfs_member\n", ""), "zdb": (0, label, "")}
    if free:
        find_unused(Machine(**answers), PATH)  # type: ignore[arg-type]
    else:
        told = refused(**answers)
        assert "belongs to tank" in told or "could not be determined" in told


def test_what_the_kernel_gives_to_somebody_else_is_refused() -> None:
    busy = (1, "", "Traceback\nOSError: [Errno 16] Device or resource busy: '/dev/sdb'\n")
    assert "somebody uses it (OSError: [Errno 16]" in refused(python3=busy)


def test_a_device_that_was_swapped_is_noticed() -> None:
    device = find_unused(Machine(), PATH)  # type: ignore[arg-type]
    check_same(Machine(), device)  # type: ignore[arg-type]
    for changes in ({"serial": "S4"}, {"size": 1 << 31}, {"kname": "sdc"}):
        with pytest.raises(SafetyRefusal):
            check_same(Machine(lsblk=(0, lsblk(**changes), "")), device)  # type: ignore[arg-type]


def test_bytes_written_are_the_seventh_number() -> None:
    stat = "  100 0 800 5 200 0 4096 7 0 9 12 3 0 99999 1 0 0\n"
    device = find_unused(Machine(), PATH)  # type: ignore[arg-type]
    assert read_written(Machine(cat=(0, stat, "")), device).kernel_bytes == 4096 * 512  # type: ignore[arg-type]
    for garbage in ("", "1 2 3", "a b c d e f g"):
        with pytest.raises(HostError, match="/sys/class/block/sdb/stat"):
            read_written(Machine(cat=(0, garbage, "")), device)  # type: ignore[arg-type]


def test_smart_units_are_of_512000_bytes() -> None:
    assert parse_smart('{"critical_warning": 0, "data_units_written": 3}') == (1_536_000, 0)
    assert parse_smart('{"critical_warning": 4, "data_units_written": "36893488147419103232"}')[1] == 4
    assert parse_smart('{"critical_warning": {"value": 2}, "data_units_written": 1}') == (512_000, 2)
    for garbage in ("", "[]", "{}", "null", '{"data_units_written": null}'):
        assert parse_smart(garbage) == (None, 0)


def test_smart_is_read_of_nvme_only() -> None:
    log = (0, '{"critical_warning": 0, "data_units_written": 3}', "")
    nvme = find_unused(Machine(lsblk=(0, lsblk(kname="nvme0n1"), "")), PATH)  # type: ignore[arg-type]
    assert has_smart(Machine(sh=log), nvme)  # type: ignore[arg-type]
    assert not has_smart(Machine(sh=(127, "", "")), nvme)  # type: ignore[arg-type]
    assert not has_smart(Machine(sh=log), find_unused(Machine(), PATH))  # type: ignore[arg-type]
    both = read_written(Machine(sh=log, cat=(0, "0 0 0 0 0 0 8 0", "")), nvme, with_smart=True)  # type: ignore[arg-type]
    assert (both.kernel_bytes, both.smart_bytes, both.smart_warning) == (4096, 1_536_000, 0)
