"""Faults and events at set times of a phase, for real: each at its time, judged, undone."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED
from kit.lab.image.image import Image
from tests.lab.conftest import finish, hsp
from tests.lab.workloads import JOB, head

PROTECTS = ("kit/run/schedule.py", "kit/remote/run_schedule.py", "kit/emulation/models")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]

BED = LAB_TESTBED.parent / "soak-testbed.toml"
COMMAND = '[[command]]\nname = "touch"\nrun = ["touch", "/tmp/hsp-fault"]\nundo = ["rm", "/tmp/hsp-fault"]\n'
PHASE = """\
[[phase]]
name = "soak"
title = "soak"
job = "write.fio"
tiers = ["slog"]
duration = "31s"
interval = "200ms"          # 39 quiet ones before the first fault: a band needs 30
during = ["snapshots"]
[[fault]]
at = "8s"
device = "log"
what = "stall"
for = "300ms"
recover_within = "3500ms"
[[fault]]
at = "12s"
device = "data1"
what = "offline"
for = "1s"
expect = "degraded"
[[fault]]
at = "21s"
what = "nfsd-restart"
for = "1s"
expect = "unaffected"
[[fault]]
at = "24s"
what = "command"
command = "touch"
for = "500ms"
expect = "degraded"
[[event]]
at = "28s"
what = "scrub"
"""


def test_each_is_done_at_its_time_judged_and_undone(image: Image, tmp_path: Path) -> None:
    job = JOB.replace("512", "4k") + "rw=write\nsync=dsync\nsize=${HSP_SIZE}\nrate_iops=20\n"
    tmp_path.joinpath("write.fio").write_text(job)
    path = tmp_path / "small.toml"
    path.write_text(head("small", "4KiB", more='[pool]\ndata = "mirror"\n') + PHASE)
    xml, bed = tmp_path / "junit.xml", tmp_path / "bed.toml"
    bed.write_text(BED.read_text() + COMMAND)
    words = ("--testbed", str(bed), "--junit", str(xml))
    done = finish(hsp("run", str(path), *words, results=tmp_path), tmp_path, "small")
    assert done.code == 1, done.stderr
    # Of all that was declared one alone does not hold, and it is named.
    (reason,) = done.summary["reasons"]
    assert reason.startswith("soak: fault at 0:00:21 (nfsd is restarted, 1s without it): ")
    rows = {row["what"]: row for row in done.summary["faults"]}
    assert {what: row["ok"] for what, row in rows.items()} == {
        "stall": True, "offline": True, "snapshots": True, "nfsd-restart": False, "scrub": True,
        "command": True,
    }  # fmt: skip
    for row in rows.values():
        # To a hundredth of a second of the guest's own clock, however slow this machine is.
        assert row["at_s"] - 0.01 <= row["begin_s"] < row["at_s"] + 0.05, row
    assert 0.3 <= rows["stall"]["end_s"] - rows["stall"]["begin_s"] < 0.4
    assert 200_000 < rows["stall"]["longest_us"] < 400_000 and rows["nfsd-restart"]["longest_us"] > 900_000
    assert rows["snapshots"]["times"] == 20
    (checks,) = done.summary["fault_checks"]
    assert (checks["client_errors"], checks["data_errors"]) == (0, 0)
    (phase,) = done.manifest["phases"]
    kinds = [event["kind"] for event in phase["events"]]
    assert kinds.count("fault") == 4 and kinds.count("expected") == 2 and {"scrub"} <= {*kinds}
    journal = [json.loads(line) for line in (done.run / "journal.jsonl").read_text().splitlines()]
    undos = {each["kind"]: each["undo"] for each in journal if "kind" in each}
    undone = {each["undone"] for each in journal if "undone" in each}
    assert {undos["online"], undos["nfsd-threads"], undos["fault-command"]} <= undone
    failed = [case.get("name") for case in ET.parse(xml).iter("testcase") if case.find("failure") is not None]
    assert failed == ["FAULT-AFFECTED: the fault at 0:00:21 (nfsd is restarted, 1s without it)"]
