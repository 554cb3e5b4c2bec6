"""kit.plan.plan: phases on devices, in the dataset and over NFS in one workload."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import ConfigError
from kit.plan.names import planned_names
from kit.plan.plan import Plan, make_plan
from kit.plan.steps import listed

HEAD = """\
format = 1
name = "mixed"
title = "Mixed"
base = "top-speeds"
precondition.method = "none"
"""
DEVICE = """\
[[phase]]
name = "bare"
title = "Writes on the log device"
target = "device:log"
job = "bare.fio"
tiers = []
duration = "1s"
"""
DATASET = """\
[[phase]]
name = "local"
title = "Writes in the dataset"
target = "dataset"
job = "local.fio"
tiers = ["slog"]
duration = "1s"
"""
NFS = '[[phase]]\nname = "write-slog"\n'
EXPECT = '[[expect]]\nphase = "bare"\nop = "write"\ntier = "all"\nlayer = "device"\n'
OPTIONS = "ioengine=psync\nrw=randwrite\nbs=4k\nsize=${HSP_SIZE}\ntime_based\nruntime=${HSP_RUNTIME}\n"
BARE = f"[job]\n{OPTIONS}filename=${{HSP_DEVICE}}\ndirect=1\n"
LOCAL = (
    f"[job]\n{OPTIONS.replace('4k', '512')}directory=${{HSP_DIRECTORY}}\nfilename=working-set\nsync=dsync\n"
)


def plan(folder: Path, text: str, local: str = LOCAL) -> Plan:
    path = folder / "mixed.toml"
    path.write_text(HEAD + text)
    (folder / "bare.fio").write_text(BARE)
    (folder / "local.fio").write_text(local)
    return make_plan(read_workload(path), read_testbed(LAB_TESTBED), path, LAB_TESTBED)


def refused(folder: Path, text: str, local: str = LOCAL) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(folder, text, local)
    return str(caught.value).replace(f"{folder}/", "")


def commands(made: Plan) -> list[tuple[str, str, str]]:
    return [(each["host"], each["step"], each["argv"][0]) for each in listed(made, planned_names(made))]


def test_phases_on_devices_are_measured_before_there_is_a_pool(tmp_path: Path) -> None:
    made = plan(tmp_path, DEVICE + DATASET + NFS + EXPECT)
    order = [step for _, step, _ in commands(made)]
    assert order.index("phase bare") < order.index("create pool") < order.index("phase local")
    assert {(host, step) for host, step, word in commands(made) if word == "fio"} >= {
        ("server", "phase bare"),
        ("server", "phase local"),
    }
    assert [phase.devices for phase in made.workload.phase] == [("log0",), (), ()]
    assert made.is_traced and made.testbed.client


def test_without_a_phase_over_nfs_there_are_no_clients(tmp_path: Path) -> None:
    made = plan(tmp_path, DATASET)
    assert not made.testbed.client and not made.is_traced
    assert not {step for _, step, _ in commands(made)} & {"export", "mount", "start the tracer"}
    # The tier of a single I/O is not known there.
    assert made.workload.expect == ()
    # Shares by tier come from the pool's list of reads.
    assert "set zfs_read_history" in [step for _, step, _ in commands(made)]


@pytest.mark.parametrize(
    ("text", "local", "expected"),
    [
        (NFS + DEVICE, LOCAL, "mixed.toml:11: phase[1].target: the devices are part of the pool by then"),
        (DATASET, f"{LOCAL}direct=1\n", "local.fio:11: [job] direct=1: in the dataset it passes the ARC"),
        (
            DATASET + '[nfs]\nengine = "libnfs"\noptions = ["hard"]\n',
            LOCAL,
            'mixed.toml:9: phase[0].target: "dataset": with nfs.engine = "libnfs" all loads go',
        ),
        (
            DEVICE + DATASET + EXPECT.replace('layer = "device"', 'layer = "client"'),
            LOCAL,
            "mixed.toml:24: expect[0].layer: phase 'bare' goes to devices",
        ),
        (
            DEVICE
            + DATASET
            + EXPECT.replace("bare", "local").replace('"device"', '"client"')
            + "share_min = 2\n",
            LOCAL,
            "mixed.toml:25: expect[0].share_min",
        ),
        (
            DATASET
            + EXPECT.replace("bare", "local").replace('tier = "all"\nlayer = "device"', 'tier = "slog"'),
            LOCAL,
            'does not go over NFS: write layer = "client" and tier = "all"',
        ),
        (
            DEVICE.replace("device:log", "device:cache") + 'devices = ["log0"]\n' + DATASET,
            LOCAL,
            "mixed.toml:13: phase[0].devices: the testbed 'lab' has no cache device 'log0'",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(
    tmp_path: Path, text: str, local: str, expected: str
) -> None:
    assert expected in refused(tmp_path, text, local)
