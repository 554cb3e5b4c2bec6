"""DRAM of emulated disks that the plan does not know of: the probe finds it, and the run is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import EXIT_UNKNOWN
from kit.lab.image.image import Image
from tests.lab.conftest import ROOT, finish, hsp
from tests.lab.workloads import JOB, OF_MIRROR, READ_PHASE, UNCACHED, head

PROTECTS = ("kit/setup",)
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600, func_only=True)]

MIB = 1 << 20
# The working set of 8 MiB on each disk fits into the disk's 64 MiB, so its DRAM answers all of it.
KNOWN, HIDDEN = 'track_buffer = "1MiB"', 'track_buffer = "64MiB"'


def test_what_the_plan_does_not_know_of_is_found(image: Image, tmp_path: Path) -> None:
    job = JOB.replace("512", "4k") + "size=${HSP_SIZE}\nrw=randread\n"
    tmp_path.joinpath("read.fio").write_text(job)
    path, bed = tmp_path / "dram.toml", tmp_path / "bed.toml"
    path.write_text(head("dram", "4KiB", "8MiB", OF_MIRROR, UNCACHED) + READ_PHASE)
    text = (ROOT / "tests" / "bench" / "alike-testbed.toml").read_text()
    disk = 'preset = "disk-10k"\n'
    assert text.count(disk) == text.count(KNOWN) == 2
    bed.write_text(text.replace(disk, f"{disk}probe_dram = true\n").replace(KNOWN, HIDDEN))
    done = finish(hsp("run", str(path), "--testbed", str(bed), results=tmp_path), tmp_path, "dram")
    assert done.code == EXIT_UNKNOWN, (done.stderr, done.summary["reasons"])
    causes = [each for each in done.summary["outcomes"] if each["id"] == "DEVICE-DRAM"]
    assert len(causes) == 2, done.summary["reasons"]
    assert all("answers reads from DRAM of its own (32 MiB or more" in each["text"] for each in causes)
    devices = {each["name"]: each.get("dram_probe") for each in done.manifest["testbed"]["devices"]}
    for name in ("data0", "data1"):
        found = devices[name]
        # Of a set of 64 MiB the read-ahead at its end pushes out what it begins with.
        assert (found["answered_bytes"], found["beyond_bytes"]) == (32 * MIB, 64 * MIB), found
        # A platter has to turn; DRAM has not.
        assert found["again_p50_ns"] * 4 < found["whole_p50_ns"], found
    assert devices["log0"] is None
