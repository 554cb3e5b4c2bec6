"""An emulated SSD that makes itself slower because of heat: exactly the phases in which it does are unknown.

Between phases it has a pause, in which it gets cool.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import EXIT_UNKNOWN
from kit.lab.image.image import Image
from tests.lab.conftest import finish, hsp
from tests.lab.workloads import JOB

PROTECTS = ("kit/instruments/drives", "kit/emulation/models")
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]

_BED = """\
name = "warm"
[server]
host = "lab"
[[client]]
host = "lab"
[[device]]
name = "log0"
role = "log"
size = "64MiB"
preset = "nvme-datacentre"
set = { throttle = { after = "16MiB", factor = 4, cool = "20ms" } }
"""
_HEAD = """\
format = 1
name = "warm"
title = "Warm"
precondition = "none"
"""
_PHASE = """\
[[phase]]
name = "{0}"
title = "{0}"
target = "device:log"
job = "device.fio"
duration = "{1}"
interval = "50ms"
"""
# 100 I/Os of 64 KiB: too few to get warm.
_FEW = "options = { rate_iops = 500 }\n"


def test_exactly_the_phases_with_transitions_are_unknown(image: Image, tmp_path: Path) -> None:
    job = JOB.replace("directory=${HSP_DIRECTORY}\nfilename=working-set", "filename=${HSP_DEVICE}")
    tmp_path.joinpath("device.fio").write_text(
        job.replace("bs=512\n", "rw=write\nbs=64k\nsize=${HSP_SIZE}\n")
    )
    path, bed = tmp_path / "warm.toml", tmp_path / "bed.toml"
    phases = (_PHASE.format("before", "200ms"), _FEW, _PHASE.format("hot", "300ms"))
    path.write_text("".join([_HEAD, *phases, _PHASE.format("after", "200ms"), _FEW]))
    bed.write_text(_BED)
    done = finish(hsp("run", str(path), "--testbed", str(bed), results=tmp_path), tmp_path, "warm")
    assert done.code == EXIT_UNKNOWN, (done.stderr, done.summary["reasons"])
    (before,), (hot,), (after,) = (each["drives"] for each in done.manifest["phases"])
    assert (before["transitions"], hot["transitions"], after["transitions"]) == (0, 1, 0)
    assert before["throttled_ms"] == after["throttled_ms"] == 0 < hot["throttled_ms"]
    failed = [each for each in done.summary["outcomes"] if each["holds"] is False]
    assert {(each["id"], each["phase"]) for each in failed} == {("DRIVE-THROTTLED", "hot")}, failed
    assert "slowdowns of log0 because of heat" in done.summary["reasons"][0]
    events = [{event["kind"] for event in each["events"]} for each in done.manifest["phases"]]
    assert ["drive-throttling" in kinds for kinds in events] == [False, True, False]
