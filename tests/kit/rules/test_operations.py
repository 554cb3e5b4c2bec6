"""kit.rules.operations: phases that read and write, and asynchronous writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.plan.plan import Plan, make_plan
from kit.rules.operations import tiers_of
from kit.sizes.tier_sizes import MIB

RECORDS = 'dataset.properties.recordsize = "4KiB"\njob.bs = "4k"\n'
MIXED = 'options = { rw = "randrw", rwmixread = 70, sync = "dsync" }\n'
ASYNC = """\
[nfs]
engine = "libnfs"
[[phase]]
name = "write-slog"
options.sync = "none"
tiers = ["dram"]
"""


def plan(folder: Path, text: str) -> Plan:
    path = folder / "own.toml"
    path.write_text(f'format = 1\nname = "own"\ntitle = "own"\nbase = "top-speeds"\n{text}')
    return make_plan(read_workload(path), read_testbed(LAB_TESTBED), path, LAB_TESTBED)


def phase(tiers: str, more: str = MIXED) -> str:
    return f'[[phase]]\nname = "read"\ntiers = [{tiers}]\n{more}'


def test_sizes_and_warm_up_of_a_mixed_phase_are_those_of_its_reads(tmp_path: Path) -> None:
    reads = plan(tmp_path, RECORDS + phase('"dram", "l2arc", "disk"', "")).workload
    mixed = plan(tmp_path, RECORDS + phase('"dram", "l2arc", "disk", "slog"')).workload
    assert mixed.phase[0].tiers == ("dram", "l2arc", "disk", "slog")
    for key in ("working_set", "pool", "tunables", "warmup"):
        assert getattr(mixed, key) == getattr(reads, key)


def test_expectations_that_the_kit_makes_are_of_the_operation_of_their_tier(tmp_path: Path) -> None:
    mixed = plan(tmp_path, RECORDS + phase('"l2arc", "disk", "slog"')).workload
    assert [(each.op, each.tier) for each in mixed.expect] == [
        ("read", "l2arc"), ("read", "disk"), ("write", "slog"),
    ]  # fmt: skip
    made = plan(tmp_path, ASYNC).workload
    assert [(each.op, each.tier, each.min_count) for each in made.expect] == [("write", "dram", 368)]


def test_asynchronous_writes_need_neither_warm_up_nor_a_large_set(tmp_path: Path) -> None:
    made = plan(tmp_path, ASYNC)
    assert made.workload.warmup is None and made.workload.working_set.size == 16 * MIB
    job = made.jobs[made.workload.phase[0].load]
    assert job.is_async_write and job.op == "write"
    assert (tiers_of("write", job), tiers_of("read", job)) == (("dram",), ())


@pytest.mark.parametrize(
    ("op", "tier", "text"),
    [
        ("write", "disk", 'expect[0].tier: disk: the writes of phase .read. cannot .* write op = "read"'),
        ("read", "slog", 'expect[0].tier: slog: the reads of phase .read. cannot .* write op = "write"'),
    ],
)
def test_an_expected_tier_must_be_one_of_its_operation(tmp_path: Path, op: str, tier: str, text: str) -> None:
    tables = phase('"l2arc", "disk", "slog"') + f'[[expect]]\nphase = "read"\nop = "{op}"\ntier = "{tier}"\n'
    with pytest.raises(ConfigError, match=text.replace("[0]", r"\[0\]")):
        plan(tmp_path, RECORDS + tables)


def test_reads_and_asynchronous_writes_share_the_tier_dram(tmp_path: Path) -> None:
    nfs = '[nfs]\nengine = "libnfs"\n'
    made = plan(tmp_path, RECORDS + nfs + phase('"dram", "disk"', MIXED.replace("dsync", "none")))
    assert made.jobs[made.workload.phase[0].load].op == "mixed"
    with pytest.raises(ConfigError, match="no tier is one of its writes: add dram"):
        plan(tmp_path, RECORDS + nfs + phase('"l2arc", "disk"', MIXED.replace("dsync", "none")))
