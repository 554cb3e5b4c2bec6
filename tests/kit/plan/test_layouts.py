"""Layouts of pools in plans: vdevs, a mirrored log, what is refused, and what is written to the devices."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kit.config.testbed import read_testbed
from kit.config.workload import Pool, read_workload
from kit.core.errors import ConfigError
from kit.plan.estimate import seconds, written
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed
from kit.sizes.workload_sizes import data_room

DATA = Path(__file__).parents[1] / "data" / "plan"
MIB = 1 << 20
RAID_10 = 'data = "mirror"\ngroups = 3\nlog = "mirror"'


def plan(
    folder: Path, layout: str, testbed: str = "six-disks.toml", size: str = "72MiB", more: str = ""
) -> Plan:
    """Of a pool whose table has `layout` for its key data; `more`: of the testbed."""
    for file in DATA.iterdir():
        shutil.copy(file, folder)
    workload, bed = folder / "top-speeds.toml", folder / testbed
    text = workload.read_text().replace('data = "stripe"', layout).replace('"72MiB"', f'"{size}"')
    workload.write_text(text)
    bed.write_text(bed.read_text() + more)
    return make_plan(read_workload(workload), read_testbed(bed), workload, bed)


def pool_commands(made: Plan, verb: str) -> list[list[str]]:
    """Arguments of `zpool VERB` after the name of the pool."""
    argvs = [entry["argv"] for entry in listed(made, planned_names(made))]
    return [argv[argv.index("hsp-ID") + 1 :] for argv in argvs if argv[:2] == ["zpool", verb]]


@pytest.mark.parametrize(
    ("layout", "words", "log"),
    [
        ('data = "stripe"', "{0} {1} {2} {3} {4} {5} log {6} {7}", "{6} {7}"),
        ('data = "mirror"', "mirror {0} {1} {2} {3} {4} {5} log {6} {7}", "{6} {7}"),
        (RAID_10, "mirror {0} {1} mirror {2} {3} mirror {4} {5} log mirror {6} {7}", "mirror-3"),
        (
            'data = "raidz1"\ngroups = 2',
            "raidz1 {0} {1} {2} raidz1 {3} {4} {5} log {6} {7}",
            "{6} {7}",
        ),
        (
            'data = "raidz2"\nlog = "mirror"',
            "raidz2 {0} {1} {2} {3} {4} {5} log mirror {6} {7}",
            "mirror-1",
        ),
        ('data = "stripe"\nlog = "mirror"', "{0} {1} {2} {3} {4} {5} log mirror {6} {7}", "mirror-6"),
    ],
)
def test_vdevs_are_created_and_the_log_is_removed(tmp_path: Path, layout: str, words: str, log: str) -> None:
    made = plan(tmp_path, layout)
    paths = [f"/dev/{device.name}" for role in ("data", "log") for device in made.testbed.devices(role)]  # type: ignore[arg-type]
    assert pool_commands(made, "create") == [[*words.format(*paths).split(), "cache", "/dev/cache0"]]
    assert pool_commands(made, "remove") == [log.format(*paths).split()]
    undone = [entry["argv"] for entry in listed(made, planned_names(made)) if entry["step"] == "undo"]
    assert ["zpool", "destroy", "hsp-ID"] in undone


def test_a_cache_device_is_removed_by_its_path(tmp_path: Path) -> None:
    made = plan(tmp_path, RAID_10)
    workload = made.workload.model_copy(
        update={"phase": (made.workload.phase[0].model_copy(update={"remove": "cache"}),)}
    )
    bare = Plan(
        workload, made.testbed, made.jobs, made.tunables, made.workload_file, made.testbed_file, made.sources
    )
    assert pool_commands(bare, "remove") == [["/dev/cache0"]]


SIX, ONE = "six-disks.toml", "testbed.toml"
REFUSED = [
    ('data = "stripe"\ngroups = 6', SIX, 13, "pool.groups", "is a vdev of its own: write groups = 1"),
    (
        'data = "mirror"\ngroups = 4', SIX, 13, "pool.groups",
        "6 data devices cannot be divided into 4 groups of equal size: write groups = 3",
    ),
    (
        'data = "mirror"\ngroups = 6', SIX, 13, "pool.groups",
        "a mirror needs 2 data devices in each group, 6 in 6 groups are 1 each: write groups = 3",
    ),
    (
        'data = "raidz2"\ngroups = 3', SIX, 13, "pool.groups",
        "a raidz2 needs 3 data devices in each group, 6 in 3 groups are 2 each: write groups = 2",
    ),
    ('data = "raidz3"\ngroups = 1000000000', SIX, 13, "pool.groups", "write groups = 1"),
    (
        'data = "mirror"\ngroups = 2', ONE, 12, "pool.data",
        "a mirror needs 2 data devices, the testbed 'lab' has 1: add devices",
    ),
    (
        'data = "stripe"\nlog = "mirror"', ONE, 13, "pool.log",
        "the testbed 'lab' has 1: add devices of role log to it, or write log = \"stripe\"",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "testbed", "line", "key", "text"), REFUSED)
def test_what_cannot_be_is_refused(
    tmp_path: Path, layout: str, testbed: str, line: int, key: str, text: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        plan(tmp_path, layout, testbed)
    message = refused.value.message
    assert message.startswith(f"{tmp_path / 'top-speeds.toml'}:{line}: {key}: ") and text in message


@pytest.mark.parametrize(
    ("key", "value"), [("groups", "0"), ("groups", "true"), ("groups", '"2"'), ("log", '"raidz1"')]
)
def test_no_value_of_the_key(tmp_path: Path, key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"top-speeds\.toml:13: pool\.{key}: "):
        plan(tmp_path, f'data = "mirror"\n{key} = {value}')


SPECIAL = (
    '[[device]]\nname = "{role}{n}"\nrole = "{role}"\nsize = "64MiB"\nmodel = "null_blk"\nlatency = "1ms"\n'
)


@pytest.mark.parametrize(
    ("layout", "counts", "text"),
    [
        (
            'data = "mirror"\ngroups = 3',
            (3, 0),
            "needs special vdevs that may lose as many devices: mirrors of 2",
        ),
        ('data = "raidz2"', (2, 0), "3; the testbed 'six-disks' has 2 special devices: add 1, or remove 2"),
        ('data = "raidz1"', (2, 1), "needs dedup vdevs that may lose as many devices: mirrors of 2"),
        ('data = "raidz1"', (2, 2), ""),
        ('data = "stripe"', (1, 3), ""),
    ],
)
def test_special_vdevs_are_as_redundant_as_those_of_data(
    tmp_path: Path, layout: str, counts: tuple[int, int], text: str
) -> None:
    numbers = {role: range(count) for role, count in zip(("special", "dedup"), counts, strict=True)}
    devices = [(role, n) for role, each in numbers.items() for n in each]
    more = "\n" + "".join(SPECIAL.format(n=n, role=role) for role, n in devices)
    if text:
        with pytest.raises(ConfigError) as refused:
            plan(tmp_path, layout, more=more)
        assert text in refused.value.message
    else:
        assert "special" in pool_commands(plan(tmp_path, layout, more=more), "create")[0]


# --- Room, and what is written ---


@pytest.mark.parametrize(
    ("layout", "room"),
    [
        # Six devices of 512 MiB; of records of one sector raidz1 has one parity sector for each.
        ('data = "stripe"', 6 * 512), ('data = "mirror"', 512), (RAID_10, 3 * 512),
        ('data = "raidz1"', 3 * 512), ('data = "raidz2"\ngroups = 2', 2 * 512),
    ],
)  # fmt: skip
def test_the_working_set_must_fit_twice(tmp_path: Path, layout: str, room: int) -> None:
    made = plan(tmp_path, layout)
    assert data_room(made.workload, made.testbed) == room * MIB
    for size, fits in ((room // 2, True), (room // 2 + 1, False)):
        # The cache device is too small for any of these sizes.
        with pytest.raises(ConfigError, match=r"working_set\.size") as refused:
            plan(tmp_path, layout, size=f"{size}MiB")
        assert ("does not fit twice into the data devices" in refused.value.message) is not fits


def test_larger_records_leave_more_room_to_raidz(tmp_path: Path) -> None:
    made = plan(tmp_path, 'data = "raidz1"')
    properties = {**made.workload.dataset.properties, "recordsize": "128KiB"}
    dataset = made.workload.dataset.model_copy(update={"properties": properties})
    large = made.workload.model_copy(update={"dataset": dataset})
    assert data_room(large, made.testbed) / MIB == pytest.approx(5 * 512, rel=0.01)
    properties["recordsize"] = "a few"
    assert data_room(large, made.testbed) / MIB == pytest.approx(5 * 512, rel=0.01), "refused elsewhere"


@pytest.mark.parametrize(
    ("layout", "copies"),
    [('data = "stripe"', 1), ('data = "mirror"', 6), (RAID_10, 2), ('data = "raidz1"', 2)],
)
def test_copies_and_parity_are_written_by_all_devices_at_once(
    tmp_path: Path, layout: str, copies: int
) -> None:
    made = plan(tmp_path, layout)
    entry = next(entry for entry in written(made) if entry.device == "data devices")
    assert entry.min_bytes == entry.max_bytes == copies * 72 * MIB
    fast, slow = seconds(made)
    # At 1 GB/s and at 100 MB/s a device.
    assert slow - fast == pytest.approx(entry.min_bytes / 6 * (1e-8 - 1e-9))


@pytest.mark.parametrize(
    ("layout", "share"),
    [('data = "stripe"', 12), ('data = "mirror"', 72), (RAID_10, 24), ('data = "raidz1"', 24)],
)
def test_the_share_of_a_device_is_compared_with_its_dram(tmp_path: Path, layout: str, share: int) -> None:
    for file in DATA.iterdir():
        shutil.copy(file, tmp_path)
    # Disks whose buffer has all of their share; data0 comes first.
    disks = (
        'preset = "disk-7200"\nset = {{ track_buffer = "{}MiB", read_ahead = "64KiB" }}\nsize = "512MiB"\n'
    )
    old = 'model = "null_blk"\nsize = "512MiB"\nlatency = "5ms"\n'
    original = (DATA / "six-disks.toml").read_text()
    for buffer_mib, is_refused in ((share, True), (share - 1, False)):
        (tmp_path / "own.toml").write_text(original.replace(old, disks.format(buffer_mib)))
        if is_refused:
            with pytest.raises(ConfigError, match=f"puts {share} MiB on the device 'data0'"):
                plan(tmp_path, layout, "own.toml")
        else:
            plan(tmp_path, layout, "own.toml")


# --- Runs of before ---


def test_a_pool_without_the_keys_is_stored_as_before_there_were_any(tmp_path: Path) -> None:
    """An interrupted run goes on only if its plan has the same digest."""
    made = plan(tmp_path, 'data = "mirror"').as_json()
    assert set(made["workload"]["pool"]) == {"data", "cache_size", "properties"}
    same = plan(tmp_path, 'data = "mirror"\ngroups = 1\nlog = "stripe"').as_json()
    assert same["digest"] == made["digest"]
    other = plan(tmp_path, RAID_10).as_json()
    assert other["digest"] != made["digest"]
    assert json.loads(json.dumps(other["workload"]["pool"])) | {"properties": {}} == {
        "data": "mirror", "groups": 3, "log": "mirror", "cache_size": None, "properties": {},
    }  # fmt: skip
    stored = Pool.model_validate({"data": "mirror", "cache_size": None, "properties": {}})
    assert (stored.groups, stored.log) == (1, "stripe")
