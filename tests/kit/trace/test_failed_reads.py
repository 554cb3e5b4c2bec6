"""A read from L2ARC that failed is the disk's.

The program is real, and so are its events: requests.c calls the functions that it probes. This needs root,
bpftrace, a C compiler and uprobes, but neither a lab nor OpenZFS.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.trace import support
from kit.trace.output import parse_trace
from kit.trace.tier import tier_of
from kit.zfs.openzfs_version import ZfsVersion

REQUESTS = Path(__file__).with_name("requests.c")
EXPECTED = [0, 2, 3, 2, 2, 2, 2, 3, 2, 2, 48, 3, 3, 1, 1, 0]
UPROBES = Path("/sys/bus/event_source/devices/uprobe")

needs_bpftrace = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("bpftrace") and shutil.which("cc") and UPROBES.exists()),
    reason="needs root, bpftrace, cc and uprobes",
)


@needs_bpftrace
@pytest.mark.parametrize("minor", [1, 2, 3])
def test_a_read_that_failed_and_went_to_a_disk_has_both_bits(minor: int, tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    subprocess.run(["cc", "-O1", "-pthread", "-o", requests, REQUESTS], check=True, timeout=60)
    text = re.sub(
        r"^(?:k(ret)?probe|tracepoint:nfsd):",
        lambda match: f"u{match[1] or ''}probe:{requests}:",
        support.program(ZfsVersion(2, minor)).text,
        flags=re.MULTILINE,
    )
    program = tmp_path / "program.bt"
    program.write_text(text)
    traced = subprocess.run(
        ["bpftrace", "-f", "json", "-c", requests, program, "1", "10"],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip
    # A phase at a time, as the tracer gives them to the reader.
    phases = re.split(r'(?=\{"type": "printf", "data": "hsp-trace phase )', traced.stdout)[1:]
    traces = [parse_trace(phase) for phase in phases]
    assert [trace.problems for trace in traces] == [[]] * len(EXPECTED), traced.stderr
    seen = [[bits for _, bits, _ in trace.snapshots[-1].counts] for trace in traces]
    assert seen == [[bits] for bits in EXPECTED]


def test_the_tiers_of_these_bits() -> None:
    tiers = {bits: tier_of("read", bits, 0, frozenset()) for bits in EXPECTED}
    assert tiers == {0: "dram", 1: "disk", 2: "l2arc", 3: "disk", 48: "indirect"}
