"""kit.rules.appliance_limits, and a plan for an appliance: what is left of a workload without its server."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.config.workload_base import WORKLOADS
from kit.core.errors import ConfigError
from kit.plan.plan import Plan, make_plan
from kit.rules.appliance_limits import left_out

TESTBED = """\
name = "nas"
[server]
host = "none"
export = "nas:/pool/export"
[[client]]
host = "local"
"""


def plan(tmp_path: Path, text: str = "", testbed: str = TESTBED) -> Plan:
    for job in WORKLOADS.glob("*.fio"):
        tmp_path.joinpath(job.name).write_text(job.read_text())
    path, bed = tmp_path / "w.toml", tmp_path / "nas.toml"
    path.write_text(text or (WORKLOADS / "top-speeds.toml").read_text())
    bed.write_text(testbed)
    return make_plan(read_workload(path), read_testbed(bed), path, bed)


def test_the_main_job_on_an_appliance(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert made.tunables == ()
    limits = left_out(made.workload)
    assert list(limits.skipped) == ["write-pool"] and "log device" in limits.skipped["write-pool"]
    text = " ".join(limits.not_done)
    for asked in (
        "recordsize=512",
        "ashift=9",
        "zfs_arc_max=64MiB",
        "preconditioned",
        "32 MiB",
        "5 expectations",
    ):
        assert asked in text, asked
    assert any("which tier" in sentence for sentence in limits.not_seen)


def test_phases_after_a_removal_are_skipped(tmp_path: Path) -> None:
    text = (WORKLOADS / "top-speeds.toml").read_text()
    phases = text.split("[[phase]]")
    swapped = "[[phase]]".join([phases[0], phases[3].split("[[expect]]")[0], phases[1], phases[2]])
    with pytest.raises(ConfigError, match="no phase can be measured on an appliance"):
        plan(tmp_path, swapped)


def test_power_losses_of_an_appliance_are_refused(tmp_path: Path) -> None:
    text = (WORKLOADS / "top-speeds.toml").read_text()
    with pytest.raises(ConfigError, match="power_loss"):
        plan(tmp_path, text + "\n[power_loss]\nmoments = 3\n")


def test_a_workload_without_server_settings_leaves_nothing_undone(tmp_path: Path) -> None:
    text = """
format = 1
name = "w"
title = "w"
reference = "sun-7410-2009"
[dataset]
properties = {}
[working_set]
file = "working-set"
size = "1MiB"
[[phase]]
name = "read"
title = "read"
job = "top-speeds-read.fio"
tiers = ["dram"]
duration = "1s"
"""
    limits = left_out(plan(tmp_path, text).workload)
    assert limits.not_done == () and not limits.skipped and limits.not_seen
