"""What watching costs: 512 B NFS reads from DRAM without a tracer, with the kit's, with a printing one.

In the lab's virtual time, so a figure does not depend on the machine; latencies are what fio saw at
the client, in ns of the experiment.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from kit.core.clock import Clock
from kit.hosts.base import Host
from kit.trace import nfsd_tracer
from kit.trace.output import parse_trace
from kit.trace.support import find_tracing
from kit.zfs import openzfs_version
from tests.bench.conftest import Tell
from tests.lab.conftest import RunningLab, image, running_lab
from tests.lab.pools import dataset
from tests.lab.pools import mounted as mounted_over_nfs

__all__ = ["image", "running_lab"]

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800, func_only=True)]

CLOCK = Clock("virtual", 4)
LIMIT = 1.10
# What somebody would write first: a line for each request.
PRINTING = """\
tracepoint:nfsd:nfsd_read_start { @begin[tid] = nsecs; }
tracepoint:nfsd:nfsd_read_done
/@begin[tid]/
{ printf("%llu %llu\\n", nsecs, nsecs - @begin[tid]); delete(@begin, tid); }
"""


@contextmanager
def idle(guest: Host, interval_ns: int = 20_000_000) -> Iterator[nfsd_tracer.Tracer]:
    """The kit's tracer, between two phases."""
    place = nfsd_tracer.TracerFiles("/run/cost")
    tracing = find_tracing(guest, openzfs_version.read(guest))
    process = nfsd_tracer.start(guest, place, CLOCK, [interval_ns], tracing)
    tracer = nfsd_tracer.Tracer(guest, place, process)
    yield tracer
    assert tracer.stop() == []


@contextmanager
def ours(guest: Host) -> Iterator[None]:
    with idle(guest, 200_000_000) as tracer:
        tracer.begin(CLOCK.to_host_ns(200_000_000))
        yield
        text, problems = tracer.end()
        trace = parse_trace(text)
        assert (problems, trace.problems, trace.lost_events) == ([], [], 0)


@contextmanager
def printing(guest: Host) -> Iterator[None]:
    guest.put(b"#!/bin/sh\ntouch /run/printing && exec sleep infinity\n", "/run/hold")
    tracer = guest.start(["bpftrace", "-o", "/run/printed", "-c", "/bin/sh /run/hold", "-e", PRINTING])
    guest.run(["sh", "-c", "until test -e /run/printing; do sleep 0.1; done"], deadline_s=180)
    yield
    tracer.stop(60)
    guest.run(["rm", "-f", "/run/printing"])


@pytest.fixture
def mounted(running_lab: RunningLab) -> Iterator[tuple[Host, Host]]:
    """The guest, and a client that has a 1 MiB file of the guest's pool mounted."""
    guest = running_lab.guest
    with (
        dataset(guest, "cost", latency="10us", file="bs=64k count=16") as (_, path),
        mounted_over_nfs(guest, path, 8, "/mnt/cost") as client,
    ):
        yield guest, client.host


def median_ns(client: Host) -> float:
    """fio's own percentile (bins of 1.6 %) of 2 s of reads at queue depth 1, in ns of the experiment."""
    said = client.run(
        [
            "fio", "--name=cost", "--filename=/mnt/cost/file", "--size=1m", "--rw=randread", "--bs=512",
            "--direct=1",
            "--ioengine=psync", "--runtime=2", "--time_based", "--randseed=7", "--output-format=json",
        ],
        deadline_s=600,
    ).stdout  # fmt: skip
    read = json.loads(said)["jobs"][0]["read"]
    assert read["total_ios"] > 1000
    return float(read["clat_ns"]["percentile"]["50.000000"]) / CLOCK.dilation


def test_the_tracer_adds_little_to_the_latency(mounted: tuple[Host, Host], tell: Tell) -> None:
    guest, client = mounted
    ways: dict[str, Callable[[Host], AbstractContextManager[object]]] = {
        "no tracer": lambda _: nullcontext(),
        "the kit's": ours,
        "the kit's, between phases": idle,
        "a line per request": printing,
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for names in (list(ways), list(ways)[::-1]):
        for name in names:
            with ways[name](guest):
                found[name].append(median_ns(client))
    none, kits, between, lines = (statistics.median(found[name]) for name in ways)
    tell("P5", "512 B NFS read from DRAM, p50 at the client, the kit's tracer / none", kits / none, "x",
         at_most=LIMIT)  # fmt: skip
    tell("P5", "the same, the kit's tracer between two phases / none", between / none, "x")
    tell("P5", "the same, a line printed per request / none", lines / none, "x")
    tell("P5", "the same without a tracer", none / 1e3, "us")
    # The same twice: the clock counts instructions.
    for name, values in found.items():
        assert max(values) < 1.05 * min(values), name
