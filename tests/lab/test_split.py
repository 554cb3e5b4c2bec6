"""Where the time of requests goes, against the kernel's own counters of the devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kit.lab.image.image import Image
from tests.lab.conftest import ROOT, finish, hsp
from tests.lab.workloads import JOB, OF_MIRROR, READ_PHASE, UNCACHED, head

PROTECTS = ("kit/trace",)
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]

# A FLUSH of the log device takes this long by itself, a write a twentieth of it.
FLUSH_US = 1000
# The kernel prints the time of a device in whole milliseconds of its own clock, and the lab's runs four times
# slower (`dilation` of the testbed): a difference of two readings is true to one such step.
STEP_NS = 1_000_000 // 4
DEVICE = f'preset = "nvme-consumer"\nset = {{ flush_command = "{FLUSH_US}us" }}'
TUNED = '[tunables]\nzfs_txg_timeout = "60s"\nspa_asize_inflation = 2\n'
TABLES = OF_MIRROR.replace("[tunables]\n", TUNED) + "properties = { ashift = 12 }\n"
PHASES = f"""\
[[phase]]
name = "one"
title = "one thread"
job = "write.fio"
tiers = ["slog"]
duration = "1500ms"
interval = "100ms"
[[phase]]
name = "eight"
base = "one"
title = "eight threads"
duration = "500ms"
options = {{ numjobs = 8 }}
{READ_PHASE}\
[[phase]]
name = "one-why"
split_of = "one"
[[phase]]
name = "eight-why"
split_of = "eight"
[[phase]]
name = "read-why"
split_of = "read"
"""


def used_ns(phase: dict[str, Any], names: tuple[str, ...], counter: str) -> int:
    """What the kernel counted in a phase, over these devices."""
    samples = [each["samples"] for each in phase["devices"] if each["device"] in names]
    return sum(each[-1][counter] - each[0][counter] for each in samples)


def assert_counted(part_ns: int, counter_ns: int, readings: int) -> None:
    """A part is within a tenth of what the kernel counted: differences of readings, each true to a step."""
    assert abs(part_ns - counter_ns) <= 0.1 * counter_ns + readings * STEP_NS, (part_ns, counter_ns)


def test_the_parts_are_what_the_kernel_counts_and_add_up(image: Image, tmp_path: Path) -> None:
    job = JOB.replace("512", "4k") + "size=${HSP_SIZE}\n"
    tmp_path.joinpath("write.fio").write_text(job + "rw=write\nsync=dsync\n")
    tmp_path.joinpath("read.fio").write_text(job + "rw=randread\n")
    path, bed = tmp_path / "split.toml", tmp_path / "bed.toml"
    path.write_text(head("split", "4KiB", "8MiB", TABLES, UNCACHED) + PHASES)
    alike = (ROOT / "tests" / "bench" / "alike-testbed.toml").read_text()
    assert 'preset = "ssd-2009-write"' in alike
    bed.write_text(alike.replace('preset = "ssd-2009-write"', DEVICE))
    done = finish(hsp("run", str(path), "--testbed", str(bed), results=tmp_path), tmp_path, "split")
    assert done.code == 0, (done.stderr, done.summary["reasons"])
    phases = {phase["name"]: phase for phase in done.manifest["phases"]}
    rows = {name: phase["split"]["rows"] for name, phase in phases.items() if "split" in phase}
    for name, of_phase in rows.items():
        # To the nanosecond: a run whose parts do not add up would not be valid.
        sums = [each["sum_ns"] for each in phases[name]["sums"] if each["layer"] == "nfs-server"]
        assert sum(sum(each["parts"].values()) for each in of_phase) == sum(sums), name
        ios = sum(each["ios"] for each in of_phase)
        assert sum(each["unjoined"] for each in of_phase) <= 0.05 * ios and ios > 50, (name, of_phase)
    [one] = rows["one-why"]
    # The kernel counts a FLUSH as a write without bytes, too.
    log = {name: used_ns(phases["one-why"], ("log0",), f"{name}_ns") for name in ("write", "flush")}
    assert_counted(one["parts"]["log_write"], log["write"] - log["flush"], readings=2)
    assert_counted(one["parts"]["flush"], log["flush"], readings=1)
    # The parameter of the model is in the FLUSH, and not in the write.
    assert one["parts"]["flush"] / one["ios"] > FLUSH_US * 1000 > 4 * one["parts"]["log_write"] / one["ios"]
    # One thread waits for no block before its own; eight do.
    assert one["parts"].get("log_wait", 0) < 0.02 * one["sum_ns"]
    assert sum(each["parts"].get("log_wait", 0) for each in rows["eight-why"]) > 0
    [read] = [each for each in rows["read-why"] if each["tier"] == "disk"]
    assert_counted(
        read["parts"]["read"], used_ns(phases["read-why"], ("data0", "data1"), "read_ns"), readings=2
    )
    saving = {each["phase"]: each["savings"][0] for each in done.summary["split"]}
    assert saving["one-why"]["device"] == "log device" and saving["read-why"]["device"] == "pool disk"
    assert saving["read-why"]["own_share"] > 0.9 > 0.5 < saving["one-why"]["own_share"]
    assert all(each["own_share"] <= each["share"] < 1 for each in saving.values())
    said = " ".join(done.stdout.split())
    assert "Writes wait for the log device: a faster one saves at most " in said
    assert "is its own time" in said and "without the wait for an nfsd thread" in said
