"""S3: what the tracers of a run and of an observation cost reads from DRAM, by 1, 4 and 16 threads;
and with a sample of blocks (`keys`), of one in 64 and of all.

512 B NFS reads in the lab's virtual time, where a figure does not depend on the machine, with the tracer in a
phase and with none running, in turn. Latencies are fio's, of every I/O. The guest has one CPU: with several
threads they wait for it, and the ratio is that of the CPU time of a read.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kit.core.clock import Clock
from kit.hosts.base import Host
from kit.trace import nfsd_tracer, support
from kit.trace.output import parse_trace
from kit.zfs import openzfs_version
from kit.zfs.tunables import write_tunable
from tests.bench.conftest import Tell
from tests.lab.conftest import RunningLab, image, running_lab
from tests.lab.pools import dataset
from tests.lab.pools import mounted as mounted_over_nfs

__all__ = ["image", "running_lab"]

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800, func_only=True)]

CLOCK = Clock("virtual", 4)
INTERVAL_NS = 200_000_000
THREADS = (1, 4, 16)
# Bits of @seen: the others are phase and file system.
_OF_TIERS = 0x1FF
# The program of each tracer, and the most that it may cost. A sample of all blocks has no limit.
TRACERS: dict[str, tuple[dict[str, Any], float | None]] = {
    "run": ({}, 1.04),
    "observe": ({"observe": True}, 1.03),
    "keys": ({"observe": True, "one_in": 64}, 1.06),
    "all keys": ({"observe": True, "one_in": 1}, None),
}
# A without the tracer, B with it.
ORDER = ("A", "BB", "AA", "B")


@contextmanager
def phase_of(tracer: nfsd_tracer.Tracer, *, observe: bool) -> Iterator[None]:
    tracer.begin(CLOCK.to_host_ns(INTERVAL_NS))
    yield
    text, problems = tracer.end()
    trace = parse_trace(text, observed=observe)
    assert (problems, trace.problems, trace.lost_events) == ([], [], 0)
    counts = [(seen, sum(bins.values())) for (_, seen, _), bins in trace.snapshots[-1].counts.items()]
    from_dram = sum(reads for seen, reads in counts if not seen & _OF_TIERS)
    assert from_dram > 0.99 * sum(reads for _, reads in counts), "all from DRAM"


@contextmanager
def running(guest: Host, kind: str) -> Iterator[nfsd_tracer.Tracer]:
    """`kind`: see TRACERS; that of `hsp observe` counts file systems, clients and operations."""
    place, zfs = nfsd_tracer.TracerFiles("/run/cost"), openzfs_version.read(guest)
    tracing = support.find_tracing(guest, zfs)
    assert tracing.program == support.program(zfs)
    tracing = replace(tracing, program=support.program(zfs, **TRACERS[kind][0]))
    process = nfsd_tracer.start(guest, place, CLOCK, [INTERVAL_NS], tracing)
    tracer = nfsd_tracer.Tracer(guest, place, process)
    yield tracer
    assert tracer.stop() == []


def p50_us(client: Host, threads: int) -> float:
    """The exact median of 0.25 s of reads, in us of the experiment."""
    argv = [
        "fio", "--name=cost", "--filename=/mnt/cost/file", "--size=1m", "--rw=randread", "--bs=512",
        "--direct=1", "--norandommap", "--ioengine=psync", "--runtime=1", "--time_based", "--randseed=7",
        "--thread", f"--numjobs={threads}", "--write_lat_log=/run/cost-log",
    ]  # fmt: skip
    client.run(["sh", "-c", "rm -f /run/cost-log*"])
    client.run(argv, deadline_s=600)
    log = client.run(["sh", "-c", "cut -d, -f2 /run/cost-log_lat.*.log"]).stdout
    latency_ns = np.array(log.split(), dtype=np.int64)
    assert latency_ns.size > 5000
    return float(np.median(latency_ns)) / CLOCK.dilation / 1e3


@pytest.mark.parametrize("kind", TRACERS)
@pytest.mark.parametrize("answered", ["dbuf cache", "ARC"])
def test_the_tracer_adds_little(running_lab: RunningLab, answered: str, kind: str, tell: Tell) -> None:
    guest, observe = running_lab.guest, kind != "run"
    of_kind = [*TRACERS].index(kind)
    name, number = f"cost{answered[:2].lower()}{of_kind}", 8 + 4 * (answered == "ARC") + of_kind
    with (
        dataset(guest, name, latency="10us", file="bs=64k count=16") as (_, path),
        mounted_over_nfs(guest, path, number, "/mnt/cost") as client,
    ):
        if answered == "ARC":
            write_tunable(guest, "dbuf_cache_max_bytes", "65536")
        p50_us(client.host, 1)
        observed: dict[tuple[str, int], list[float]] = {}
        for block in ORDER:
            with running(guest, kind) if block[0] == "B" else nullcontext() as tracer:
                for side in block:
                    for threads in THREADS:
                        with phase_of(tracer, observe=observe) if tracer else nullcontext():
                            observed.setdefault((side, threads), []).append(p50_us(client.host, threads))
    for threads in THREADS:
        without, beside = (statistics.median(observed[side, threads]) for side in "AB")
        what = f"512 B read, {answered}, {threads} threads, p50 at the client, tracer of {kind} / none"
        tell("S3", what, beside / without, "x", at_most=TRACERS[kind][1])
        tell("", "the same without a tracer", without, "us")
