"""Sizes of sets and special vdevs, in the lab and on a server with large devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import find_workload
from kit.core.errors import ConfigError
from kit.plan.estimate import filled
from kit.plan.plan import Plan, make_plan
from kit.sizes.tier_sizes import MIB, special_device_bytes, special_room
from kit.sizes.workload_sizes import planned_tiers, sizes_of

SPECIAL_LAB = LAB_TESTBED.with_name("special-testbed.toml")
GIB = 1 << 30
OF_MIRRORS = """\
name = "large"
[server]
host = "ssh://root@server"
[[client]]
host = "ssh://root@client"
"""
DEVICE = """\
[[device]]
name = "{role}{n}"
role = "{role}"
path = "/dev/disk/by-id/{role}-{n}"
serial = "{role}{n}"
size = {size}
"""


def plan(folder: Path, name: str, testbed: Path = SPECIAL_LAB, more: str = "") -> Plan:
    path = find_workload(name)
    if more:
        path = folder / "own.toml"
        path.write_text(f'format = 1\nname = "own"\ntitle = "own"\nbase = "{name}"\n{more}')
    return make_plan(read_workload(path), read_testbed(testbed), path, testbed)


def large(folder: Path) -> Path:
    path = folder / "large.toml"
    sizes = {"data": '"4TB"', "special": '"400GB"'}
    devices = [DEVICE.format(role=role, n=n, size=size) for role, size in sizes.items() for n in range(2)]
    path.write_text(OF_MIRRORS + "".join(devices))
    return path


@pytest.mark.parametrize("is_large", [False, True])
def test_what_the_special_vdev_shall_answer_lies_there_wholly(tmp_path: Path, is_large: bool) -> None:
    made = plan(tmp_path, "special", large(tmp_path) if is_large else SPECIAL_LAB)
    held = planned_tiers(made.workload, made.testbed)
    assert held and held.disk == 0
    assert held.special > made.workload.file_set.size / (2 if is_large else 3)
    # Four times the DRAM that SSDs are assumed to have, and no more than that of a part of the device.
    assert not is_large or 4 * GIB < held.special < 8 * GIB
    assert not is_large or 5 * GIB < (made.workload.pool.special_size or 0) < 16 * GIB


@pytest.mark.parametrize("is_large", [False, True])
def test_of_a_full_special_vdev_both_have_half(tmp_path: Path, is_large: bool) -> None:
    made = plan(tmp_path, "special-full", large(tmp_path) if is_large else SPECIAL_LAB)
    held = planned_tiers(made.workload, made.testbed)
    assert held and held.special == pytest.approx(held.disk, rel=0.15)


def test_a_given_part_decides_the_set(tmp_path: Path) -> None:
    made = plan(tmp_path, "special-full", more='pool.special_size = "128MiB"')
    assert made.workload.pool.special_size == 128 * MIB
    held = planned_tiers(made.workload, made.testbed)
    assert held and held.special == pytest.approx(held.disk, rel=0.15)


def test_a_given_set_stays_as_it_is_and_too_few_devices_are_refused(tmp_path: Path) -> None:
    made = plan(tmp_path, "special", more='working_set.size = "90MiB"')
    assert made.workload.file_set.size == 90 * MIB
    # A mirror of three is needed, and there are two.
    with pytest.raises(ConfigError, match="a raidz2 needs 3 data devices"):
        plan(tmp_path, "special", more='pool.data = "raidz2"')


@pytest.mark.parametrize("value", ["abc", "4KiBx", "auto", "none"])
def test_a_wrong_value_is_refused_with_its_line(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"own\.toml:5: dataset\.properties\.special_small_blocks: "):
        plan(tmp_path, "special", more=f'dataset.properties.special_small_blocks = "{value}"')


def test_devices_of_a_special_vdev_have_one_size(tmp_path: Path) -> None:
    path = large(tmp_path)
    path.write_text(path.read_text().replace('"400GB"', '"480GB"', 1))
    words = r'special0 480GB and special1 400GB: .* special_size = "381469MiB"'
    with pytest.raises(ConfigError, match=words):
        plan(tmp_path, "special-as-log", path, 'pool.special_size = "600000MiB"')
    assert plan(tmp_path, "special", path), "of each a part"
    # "auto": as much of each as the smallest has.
    assert plan(tmp_path, "special-as-log", path).workload.pool.special_size == 381_469 * MIB


def test_the_reserve_of_metadata_is_that_of_the_workload(tmp_path: Path) -> None:
    reserve = 'tunables.zfs_special_class_metadata_reserve_pct = {}\npool.special_size = "192MiB"'
    rooms = []
    for percent in (0, 25, 50):
        made = plan(tmp_path, "special-full", more=reserve.format(percent))
        sizes = sizes_of(made.workload, made.testbed)
        assert sizes
        rooms.append(sizes.special)
    assert rooms[0] > rooms[1] > rooms[2] == pytest.approx(rooms[0] / 2, rel=0.1)


def test_what_is_written_is_written_to_the_special_devices(tmp_path: Path) -> None:
    made = {each.device: each for each in filled(plan(tmp_path, "special"))}
    assert {*made} == {"special devices"}
    both = {each.device: each.min_bytes for each in filled(plan(tmp_path, "special-full"))}
    assert both["special devices"] == pytest.approx(both["data devices"], rel=0.2)


def test_writes_alone_have_a_small_set_and_all_of_the_devices(tmp_path: Path) -> None:
    made = plan(tmp_path, "special-as-log")
    assert (made.workload.file_set.size, made.workload.pool.special_size) == (16 * MIB, None)
    assert [(each.op, each.tier, each.layer) for each in made.workload.expect] == [("write", "all", "client")]


@pytest.mark.parametrize(
    ("more", "testbed", "text"),
    [
        (
            "dataset.properties.special_small_blocks = 0", SPECIAL_LAB,
            "records of 4KiB lie on the data devices",
        ),
        (
            'dataset.properties.special_small_blocks = "2KiB"', SPECIAL_LAB,
            'write special_small_blocks = "4KiB" into dataset.properties',
        ),
        ("", LAB_TESTBED, "there is no special device: add a device of role special"),
        ('working_set.size = "160MiB"', SPECIAL_LAB, ""),
    ],
)  # fmt: skip
def test_reads_that_no_special_vdev_can_answer_are_refused(
    tmp_path: Path, more: str, testbed: Path, text: str
) -> None:
    if not text:
        # Three quarters of 184 MiB, less metadata: some lie on the disks, and the plan says so.
        made = plan(tmp_path, "special", testbed, more)
        held = planned_tiers(made.workload, made.testbed)
        assert held and held.disk > 0
        return
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, "special", testbed, more)
    assert text in refused.value.message


@pytest.mark.parametrize("data_mib", [40, 100, 1000, 100_000])
def test_a_device_of_that_size_has_that_room(data_mib: int) -> None:
    size = special_device_bytes(data_mib * MIB, 1.0, 2 * MIB)
    assert data_mib * MIB <= special_room([size], 1.0, 2 * MIB) <= 1.15 * data_mib * MIB
    assert special_room([size, size], 0.5, 0) == pytest.approx(special_room([size], 1.0, 0), rel=0.01)
    assert special_room([MIB], 1.0, 0) == 0
