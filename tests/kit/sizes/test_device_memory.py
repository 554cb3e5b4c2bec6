"""kit.sizes.device_memory: the DRAM of devices, and the sets that are larger."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import WORKLOADS
from kit.core.errors import ConfigError
from kit.core.units import parse_size_bytes
from kit.plan.plan import make_plan
from kit.sizes import device_memory
from kit.sizes.workload_sizes import planned_tiers

GIB = 1 << 30
NAS = Path(__file__).parents[3] / "docs" / "examples" / "mynas.toml"


@pytest.mark.parametrize(
    ("old", "new", "name", "size"),
    [
        ("", "", "data0", "256MiB"),
        ("", "", "cache0", "1GiB"),
        ("", "", "log0", "0B"),
        ("ata-WDC_WD4003FFBX", "ata-Samsung_SSD_870", "data0", "1GiB"),
        ("ata-WDC_WD4003FFBX", "ata-UNKNOWN", "data0", "256MiB"),
        ("ata-WDC_WD4003FFBX", "wwn-0x5000", "data0", "256MiB"),
        ("nvme-SAMSUNG_MZQL2960HCJR-00A07", "nvme-INTEL_SSDPE21K375GA", "cache0", "0B"),
        ('endurance = "1752TB"', 'dram = "2GiB"', "cache0", "2GiB"),
        ('"960197124096B"', '"8GiB"', "cache0", "128MiB"),
    ],
)
def test_what_a_device_has(tmp_path: Path, old: str, new: str, name: str, size: str) -> None:
    path = tmp_path / "nas.toml"
    path.write_text(NAS.read_text().replace(old, new))
    device = next(each for each in read_testbed(path).device if each.name == name)
    assert device_memory.dram_of(device)[0] == parse_size_bytes(size)


@pytest.mark.parametrize(
    ("record", "more"),
    [
        ("512", ""),
        ("128KiB", ""),
        ("16KiB", 'pool.data = "stripe"\n'),
        ("4KiB", "tunables.zfs_arc_min = 0\n"),
    ],
)
def test_gigabytes_of_each_tier_that_devices_answer(tmp_path: Path, record: str, more: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'format = 1\nname = "own"\ntitle = "own"\nbase = "top-speeds"\n'
        f'dataset.properties.recordsize = "{record}"\n{more}'.replace('"512"', "512")
        + f'job.bs = "{record.replace("KiB", "k")}"\n'
    )
    plan = make_plan(read_workload(path), read_testbed(NAS), path, NAS)
    held = planned_tiers(plan.workload, plan.testbed)
    # A record may be missing.
    assert held and held.l2arc > 3.9 * GIB and held.disk > 0.99 * GIB
    assert min(held.dram, held.l2arc, held.disk) > plan.workload.file_set.size / 10
    warmup = plan.workload.warmup
    assert warmup and warmup.read_first == plan.workload.file_set.size
    feed = parse_size_bytes(str(plan.workload.tunables["l2arc_write_max"]))
    assert warmup.deadline / 1e9 * feed > (plan.workload.pool.cache_size or 0)


def test_of_a_stripe_each_disk_has_enough(tmp_path: Path) -> None:
    path, bed = tmp_path / "own.toml", read_testbed(NAS)
    path.write_text('format = 1\nname = "own"\ntitle = "own"\nbase = "top-speeds"\npool.data = "stripe"\n')
    plan = make_plan(read_workload(path), bed, path, NAS)
    held = planned_tiers(plan.workload, plan.testbed)
    assert held and held.disk / 2 > 0.99 * GIB


def test_the_lab_keeps_its_sizes() -> None:
    path = WORKLOADS / "top-speeds.toml"
    plan = make_plan(read_workload(path), read_testbed(LAB_TESTBED), path, LAB_TESTBED)
    assert plan.workload.tunables["l2arc_write_max"] == "4MiB"
    assert plan.workload.file_set.size == 72 << 20


BED = 'name = "nas"\n[server]\nhost = "ssh://root@nas"\n[[client]]\nhost = "ssh://root@client1"\n'


def devices(role: str, count: int, size: str, dram: str) -> str:
    return "".join(
        f'[[device]]\nname = "{role}{n}"\nrole = "{role}"\npath = "/dev/disk/by-id/ata-X-{role}{n}"\n'
        f'serial = "{role}{n}"\nsize = "{size}"\n' + (f'dram = "{dram}"\n' if dram else "")
        for n in range(count)
    )


@pytest.mark.parametrize(
    ("data", "caches", "layout"),
    [
        ((2, "9GB", ""), (1, "960GB", ""), "mirror"),
        ((2, "4GB", ""), (1, "960GB", ""), "mirror"),
        ((2, "9GB", ""), (8, "960GB", ""), "mirror"),
        ((2, "4TB", "15MiB"), (1, "960GB", "0B"), "mirror"),
        ((2, "4TB", "8MiB"), (1, "960GB", "8MiB"), "mirror"),
        ((2, "1GB", ""), (1, "960GB", "0B"), "mirror"),
        ((24, "18TB", ""), (1, "8GB", ""), "stripe"),
        ((24, "18TB", ""), (2, "960GB", ""), "raidz2"),
    ],
)
def test_what_is_chosen_is_not_refused(
    tmp_path: Path, data: tuple[int, str, str], caches: tuple[int, str, str], layout: str
) -> None:
    path, bed = tmp_path / "own.toml", tmp_path / "bed.toml"
    log = devices("log", 1, "375GB", "")
    bed.write_text(BED + devices("data", *data) + devices("cache", *caches) + log)
    path.write_text(f'format = 1\nname = "own"\ntitle = "own"\nbase = "top-speeds"\npool.data = "{layout}"\n')
    plan = make_plan(read_workload(path), read_testbed(bed), path, bed)
    held = planned_tiers(plan.workload, plan.testbed)
    assert held and min(held.dram, held.l2arc, held.disk) > 0
    for each in plan.testbed.devices("data"):
        # As much as there is room for.
        has_room = each.size > 10**12
        assert not has_room or held.disk >= 4 * device_memory.dram_of(each)[0]


@pytest.mark.parametrize("more", ["", devices("log", 1, "375GB", "")])
def test_without_a_cache_device_the_plan_says_so(tmp_path: Path, more: str) -> None:
    bed = tmp_path / "bed.toml"
    bed.write_text(BED + devices("data", 2, "4TB", "") + more)
    path = WORKLOADS / "top-speeds.toml"
    with pytest.raises(ConfigError, match="tier l2arc, but there is no cache device"):
        make_plan(read_workload(path), read_testbed(bed), path, bed)
