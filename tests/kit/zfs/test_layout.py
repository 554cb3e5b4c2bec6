"""kit.zfs.layout: the vdevs of a layout, and what is stored on them."""

from __future__ import annotations

import pytest

from kit.zfs.layout import VdevLayout, copies, data_vdevs, possible_groups, special_vdevs

MIB = 1 << 20


def layout(
    kind: str, devices: int, groups: int = 1, record: int = 128 << 10, sector: int = 512
) -> VdevLayout:
    return VdevLayout(kind, devices, groups, record, sector)


@pytest.mark.parametrize(
    ("kind", "groups", "vdevs"),
    [
        ("stripe", 1, ["a", "b", "c", "d", "e", "f"]),
        ("mirror", 1, ["abcdef"]),
        ("mirror", 3, ["ab", "cd", "ef"]),
        ("raidz1", 2, ["abc", "def"]),
    ],
)
def test_vdevs_are_in_the_order_of_the_devices(kind: str, groups: int, vdevs: list[str]) -> None:
    assert ["".join(vdev) for vdev in data_vdevs(kind, "abcdef", groups)] == vdevs


@pytest.mark.parametrize(
    ("kind", "data", "groups", "vdevs"),
    [
        ("stripe", 3, 1, ["a", "b", "c", "d"]), ("mirror", 2, 1, ["ab", "cd"]), ("mirror", 4, 1, ["abcd"]),
        ("mirror", 6, 2, ["abc"]), ("raidz1", 5, 1, ["ab", "cd"]), ("raidz2", 5, 1, ["abc"]),
        ("raidz3", 5, 1, ["abcd"]), ("mirror", 5, 1, []),
    ],
)  # fmt: skip
def test_special_vdevs_may_lose_as_many_devices_as_those_of_data(
    kind: str, data: int, groups: int, vdevs: list[str]
) -> None:
    found = special_vdevs(kind, data, groups, "abcd")
    assert ["".join(vdev) for vdev in found] == vdevs
    assert all(len(vdev) == copies(kind, data, groups) for vdev in found)


@pytest.mark.parametrize(
    ("kind", "devices", "groups"),
    [
        ("stripe", 6, [1]), ("mirror", 6, [1, 2, 3]), ("raidz1", 6, [1, 2, 3]), ("raidz2", 6, [1, 2]),
        ("raidz3", 6, [1]), ("mirror", 7, [1]), ("mirror", 1, []), ("raidz3", 3, []),
    ],
)  # fmt: skip
def test_each_group_has_the_devices_of_its_layout(kind: str, devices: int, groups: list[int]) -> None:
    assert possible_groups(kind, devices) == groups


@pytest.mark.parametrize(
    ("made", "usable", "written", "device"),
    [
        # Room of devices of 100 MiB; of 12 MiB of data, what is written to all devices and to each of them.
        (layout("stripe", 4), 400, 12, 3),
        (layout("mirror", 4), 100, 48, 12),
        (layout("mirror", 4, 2), 200, 24, 6),
        (layout("raidz1", 4), 300, 16, 4),  # 256 sectors, and 86 of parity
        (layout("raidz1", 4, 2), 200, 24, 6),  # as mirrors
        (layout("raidz2", 6, 1), 400, 18, 3),
        (layout("raidz2", 6, 2), 200, 36, 6),
        # A record of one sector has its P parity sectors whatever the width.
        (layout("raidz1", 4, record=512), 200, 24, 6),
        (layout("raidz2", 6, record=4096, sector=4096), 200, 36, 6),
        # Three sectors and two of parity are five, and take the room of six.
        (layout("raidz2", 6, record=1536), 300, 20, 10 / 3),
    ],
)
def test_room_and_bytes_follow_from_the_layout(
    made: VdevLayout, usable: float, written: float, device: float
) -> None:
    assert made.usable_bytes(100 * MIB) / MIB == pytest.approx(usable, rel=0.02)
    assert made.written_bytes(12 * MIB) / MIB == pytest.approx(written, rel=0.02)
    assert made.device_bytes(12 * MIB) / MIB == pytest.approx(device, rel=0.02)
    # What pads takes room and is not written.
    assert made.usable_bytes(100 * MIB) * made.written_bytes(MIB) <= made.devices * 100 * MIB * MIB


def test_sectors_of_raidz_are_those_of_openzfs() -> None:
    """vdev_raidz_asize: of 8 KiB on 5 disks of 4 KiB sectors 2 + 1, rounded up to 4 sectors."""
    made = layout("raidz1", 5, record=8192, sector=4096)
    assert made.usable_bytes(5 * 16384) == 5 * 5 * 16384 * 8192 // 16384
    assert made.written_bytes(8192) == 3 * 4096


@pytest.mark.parametrize("kind", ["stripe", "mirror", "raidz1", "raidz3"])
@pytest.mark.parametrize(("devices", "groups"), [(0, 1), (1, 1), (2, 9)])
def test_a_layout_that_cannot_be_is_no_error(kind: str, devices: int, groups: int) -> None:
    """Sizes are looked for before the plan refuses it."""
    made = layout(kind, devices, groups)
    assert made.usable_bytes(MIB) >= 0 and made.device_bytes(MIB) >= 0
