"""How far apart the first I/Os of clients are that start together with a log of every I/O: figures as JSON.

python -m tests.bench.start_skew LOADS CLIENTS      needs fio; this machine is all clients
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from kit.config.fio_job import read_job
from kit.core.clock import Clock
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.load.launch import PhaseLoad
from kit.load.phase_load import LoadSpec, Worker
from kit.store.run_directory import RunDir

JOB = """\
[read]
ioengine=psync
rw=randread
bs=512
directory=${HSP_DIRECTORY}
filename=x
size=${HSP_SIZE}
time_based
runtime=${HSP_RUNTIME}
rate_iops=5000
"""


def measured(place: Path, clients: int) -> tuple[float, float]:
    """Skew in ms, and seconds until they have started."""
    (place / "job.fio").write_text(JOB)
    (place / "x").write_bytes(bytes(1 << 20))
    (place / "raw").mkdir()
    spec = LoadSpec("p", read_job(place / "job.fio"), str(place / "work"), 500_000_000, Clock())
    hosts = [LocalHost(f"client{number}") for number in range(clients)]
    load = PhaseLoad([Worker(host, host.name, str(place), 1 << 20) for host in hosts], spec, Clocks(hosts[0]))
    begun_s = time.monotonic()
    load.prepare()
    load.start()
    started_s = time.monotonic() - begun_s
    while load.running():
        time.sleep(0.02)
    load.finish(False)
    firsts = [result.latencies.first_ns for result in load.collect(RunDir(place))]
    assert len(firsts) == clients and not load.problems, load.problems
    return (max(firsts) - min(firsts)) / 1e6, started_s


loads, clients = int(sys.argv[1]), int(sys.argv[2])
rows = []
for _ in range(loads):
    with tempfile.TemporaryDirectory() as place:
        rows.append(measured(Path(place), clients))
skews, starts = zip(*rows, strict=True)
print(json.dumps({
    "loads": loads, "clients": clients, "skew_ms_median": statistics.median(skews), "skew_ms_max": max(skews),
    "start_s_median": statistics.median(starts),
}))  # fmt: skip
