"""A read from L2ARC that failed is the disk's; a request that ends after its phase is in no figure.

The program is real, and so are its events: requests.c calls the functions that it probes. This needs root,
bpftrace, a C compiler and uprobes, but neither a lab nor OpenZFS.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.core.bins import bin_index
from kit.trace import support
from kit.trace.output import Trace, parse_trace
from kit.trace.tier import Vdevs, tier_of
from kit.zfs.openzfs_version import ZfsVersion

REQUESTS = Path(__file__).with_name("requests.c")
EXPECTED = [0, 2, 3, 2, 2, 2, 2, 3, 2, 2, 48, 3, 3, 1, 1, 0]
UPROBES = Path("/sys/bus/event_source/devices/uprobe")

needs_bpftrace = pytest.mark.skipif(
    os.geteuid() != 0 or not (shutil.which("bpftrace") and shutil.which("cc") and UPROBES.exists()),
    reason="needs root, bpftrace, cc and uprobes",
)


def command(tmp_path: Path, minor: int, mode: str = "") -> list[str | Path]:
    """argv of bpftrace on the compiled program, which does `mode` of its main()."""
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
    return ["bpftrace", "-f", "json", "-c", f"{requests} {mode}".strip(), program, "1", "10"]


@needs_bpftrace
@pytest.mark.parametrize("minor", [1, 2, 3])
def test_a_read_that_failed_and_went_to_a_disk_has_both_bits(minor: int, tmp_path: Path) -> None:
    argv = command(tmp_path, minor)
    traced = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True)
    # A phase at a time, as the tracer gives them to the reader.
    phases = re.split(r'(?=\{"type": "printf", "data": "hsp-trace phase )', traced.stdout)[1:]
    traces = [parse_trace(phase) for phase in phases]
    assert [trace.problems for trace in traces] == [[]] * len(EXPECTED), traced.stderr
    seen = [[bits for _, bits, _ in trace.snapshots[-1].counts] for trace in traces]
    assert seen == [[bits] for bits in EXPECTED]


def in_the_outermost_bins(trace: Trace) -> bool:
    """Whether each class has extremes, and they are of counted requests."""
    counts = trace.snapshots[-1].counts
    edges = {key: (min(bins), max(bins)) for key, bins in counts.items()}
    extremes = {
        key: tuple(bin_index([trace.lowest[key], high]).tolist()) for key, high in trace.highest.items()
    }
    return extremes == edges


@needs_bpftrace
def test_a_request_after_the_mark_of_the_end_is_not_counted(tmp_path: Path) -> None:
    """The thread has the begin of an earlier request still."""
    argv = [*command(tmp_path, 3, "after-the-mark")[:-1], "100"]
    traced = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True)
    trace = parse_trace(traced.stdout)
    assert (trace.started, trace.done, trace.problems) == ({"read": 1}, {"read": 1}, [])
    assert in_the_outermost_bins(trace)


@needs_bpftrace
def test_a_request_that_ends_while_the_last_counts_are_printed_has_no_extreme(tmp_path: Path) -> None:
    ends = tmp_path / "ends"
    with subprocess.Popen(command(tmp_path, 3, str(ends)), stdout=subprocess.PIPE, bufsize=0) as traced:
        assert traced.stdout
        fcntl.fcntl(traced.stdout, fcntl.F_SETPIPE_SZ, 4096)
        read = b""
        while b"hsp-trace end " not in read and (some := traced.stdout.read(100)):
            read += some
        # The rest does not fit into the pipe, so bpftrace waits in the middle of its counts.
        ends.touch()
        while ends.exists():
            os.sched_yield()
        trace = parse_trace((read + traced.stdout.read()).decode())
    # How far bpftrace is when the pipe is full, is up to its buffers: before the counts both are known.
    assert trace.problems in ([], ["the tracer saw 401 write requests start and 400 end"])
    assert in_the_outermost_bins(trace)


def test_the_tiers_of_these_bits() -> None:
    tiers = {bits: tier_of("read", bits, 0, Vdevs()) for bits in EXPECTED}
    assert tiers == {0: "dram", 1: "disk", 2: "l2arc", 3: "disk", 48: "indirect"}
