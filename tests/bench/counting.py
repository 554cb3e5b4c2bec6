"""Worker of test_counting: a load of fio's null engine, counted by histograms; figures as JSON.

Arguments: an empty directory, seconds, I/Os a second and jobs of each client, network namespaces that are the
clients (none: this machine is one).
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path

import polars as pl

from kit.config.fio_job import read_job
from kit.core.clock import Clock
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.hosts.wrapped import NetnsHost
from kit.instruments import client_windows, histograms
from kit.load.fio_windows import ClientWindows
from kit.load.launch import PhaseLoad
from kit.load.phase_load import LoadSpec, Worker
from kit.store.run_directory import RunDir
from kit.store.tables import write_latency

SECOND = 10**9


def peak_bytes() -> int:
    """Not ru_maxrss: that also has what the process was before it became this one."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


directory, seconds, rate, jobs = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
text = (
    "[read]\ndirectory=${HSP_DIRECTORY}\nsize=${HSP_SIZE}\nfilename=x\nrw=randread\nbs=4k\nnorandommap\n"
    f"time_based\nruntime=${{HSP_RUNTIME}}\nioengine=psync\nnumjobs={jobs}\nrate_iops={rate // jobs}\n"
)
(directory / "job.fio").write_text(text)
job = read_job(directory / "job.fio")
# A workload may not have it: it does nothing.
job = dataclasses.replace(job, text=job.text.replace("ioengine=psync", "ioengine=null"))
spec = LoadSpec(
    "p", job, str(directory / "work"), seconds * SECOND, Clock(),
    histograms_ns=SECOND, raw=directory / "run" / "raw",
)  # fmt: skip
run_dir = RunDir(directory / "run")
run_dir.raw.mkdir(parents=True)
here = LocalHost("client")
hosts: list[Host] = [NetnsHost(here, name) for name in sys.argv[5:]] or [here]
workers = [Worker(host, host.name, str(directory), 1 << 30) for host in hosts]
load = PhaseLoad(workers, spec, Clocks(here))
before = peak_bytes()
load.prepare()
load.start()
while load.running():
    time.sleep(0.05)
ended = time.monotonic()
load.finish(False)
results = load.collect(run_dir)
assert not load.problems and len(results) == len(hosts), load.problems
counted = [(r.worker.name, r.latencies) for r in results if isinstance(r.latencies, ClientWindows)]
grid = histograms.IntervalGrid(0, min(windows.first_ns for _, windows in counted), SECOND, Clock())
cells = {name: client_windows.cells(windows, grid) for name, windows in counted}
write_latency(run_dir, pl.concat(histograms.frame(c, "p", "client", name) for name, c in cells.items()))
figures = {
    "fio_ios": {r.worker.name: sum(r.ios.values()) for r in results},
    "stored_ios": {name: int(c["count"].sum()) for name, c in cells.items()},
    "seconds": time.monotonic() - ended,
    "above_start_bytes": peak_bytes() - before,
    "time_error_ns": client_windows.client_log(counted, grid).time_error_ns,
    "start_skew_ns": max(w.first_ns for _, w in counted) - grid.phase_origin_ns,
}
print(json.dumps(figures))
