"""kit.sizes.auto_sizes: sizes for the tiers that the phases ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import WORKLOADS
from kit.core.units import AUTO
from kit.plan.plan import Plan, make_plan
from kit.sizes.tier_sizes import MIB
from kit.sizes.workload_sizes import planned_tiers


def plan(folder: Path, text: str, testbed: Path = LAB_TESTBED) -> Plan:
    path = folder / "own.toml"
    path.write_text(f'format = 1\nname = "own"\ntitle = "own"\nbase = "top-speeds"\n{text}')
    return make_plan(read_workload(path), read_testbed(testbed), path, testbed)


def of_record(record: str, tiers: str = '"dram", "l2arc", "disk"', more: str = "") -> str:
    read = f'[[phase]]\nname = "read"\ntiers = [{tiers}]\n'
    block = "512" if record == "512B" else record
    return f'dataset.properties.recordsize = "{record}"\njob.bs = "{block}"\n{more}{read}'


def test_the_main_job_has_the_sizes_that_were_chosen_by_hand() -> None:
    path = WORKLOADS / "top-speeds.toml"
    workload = make_plan(read_workload(path), read_testbed(LAB_TESTBED), path, LAB_TESTBED).workload
    assert (workload.working_set.size, workload.pool.cache_size) == (72 * MIB, 64 * MIB)
    assert workload.tunables["zfs_arc_max"] == "64MiB"
    assert workload.warmup is not None
    assert (workload.warmup.read_first, workload.warmup.l2arc_min) == (32 * MIB, 32 * MIB)


@pytest.mark.parametrize("record", ["512B", "1KiB", "4KiB", "8KiB", "16KiB", "64KiB", "128KiB"])
def test_three_tiers_share_the_reads_at_any_record_size(tmp_path: Path, record: str) -> None:
    made = plan(tmp_path, of_record(record))
    held = planned_tiers(made.workload, made.testbed)
    assert held is not None
    size = made.workload.working_set.size
    assert min(held.dram, held.l2arc, held.disk) > size / 5
    assert size <= 192 * MIB
    assert AUTO not in made.workload.model_dump()["pool"].values()


@pytest.mark.parametrize("record", ["512B", "4KiB", "128KiB"])
def test_a_working_set_that_the_l2arc_has_whole(tmp_path: Path, record: str) -> None:
    made = plan(tmp_path, of_record(record, '"l2arc"'))
    held = planned_tiers(made.workload, made.testbed)
    assert held is not None and held.disk == 0
    assert held.l2arc > 0.35 * made.workload.working_set.size
    assert made.workload.warmup and made.workload.warmup.read_first == made.workload.working_set.size


def test_dram_alone_and_disks_alone(tmp_path: Path) -> None:
    made = plan(tmp_path, of_record("4KiB", '"dram"'))
    held = planned_tiers(made.workload, made.testbed)
    assert held is not None and held.dram == made.workload.working_set.size
    text = 'dataset.properties.primarycache = "metadata"\n'
    made = plan(tmp_path, of_record("4KiB", '"disk"', text))
    held = planned_tiers(made.workload, made.testbed)
    assert held is not None and held.disk == made.workload.working_set.size


def test_writes_alone_have_no_warm_up_and_a_small_set(tmp_path: Path) -> None:
    made = plan(tmp_path, '[[phase]]\nname = "write-slog"\n')
    assert made.workload.warmup is None
    assert made.workload.working_set.size == 16 * MIB


def test_the_arc_has_a_quarter_of_a_given_set(tmp_path: Path) -> None:
    text = LAB_TESTBED.read_text().replace('"384MiB"', '"8GiB"').replace('"128MiB"', '"4GiB"')
    bed = tmp_path / "bed.toml"
    bed.write_text(text.replace('memory = "4GiB"', 'memory = "128GiB"'))
    made = plan(tmp_path, of_record("16KiB", more='working_set.size = "2GiB"\n'), bed)
    held = planned_tiers(made.workload, made.testbed)
    assert held is not None
    assert held.dram / (2 << 30) == pytest.approx(0.25, abs=0.02)
    assert min(held.l2arc, held.disk) > 0.3 * (2 << 30)
