"""Worker of test_counting: a load of fio's null engine, counted by histograms; figures as JSON.

Arguments: an empty directory, seconds, I/Os a second, jobs.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path

from kit.config.fio_job import read_job
from kit.core.clock import Clock
from kit.hosts.clock_offset import Clocks
from kit.hosts.local import LocalHost
from kit.instruments import client_windows, histograms
from kit.load import fio_server
from kit.load.fio_windows import ClientWindows
from kit.load.phase_load import LoadSpec
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
    "p", job, str(directory / "work"), str(directory), 1 << 30, seconds * SECOND, Clock(),
    histograms_ns=SECOND, raw=directory / "run" / "raw",
)  # fmt: skip
run_dir = RunDir(directory / "run")
run_dir.raw.mkdir(parents=True)
host = LocalHost("client")
load = fio_server.load_on([host], spec, Clocks(host))
before = peak_bytes()
load.prepare()
load.start()
while load.running():
    time.sleep(0.05)
ended = time.monotonic()
load.finish(False)
(result,) = load.collect(run_dir)
assert not load.problems and isinstance(result.latencies, ClientWindows)
grid = histograms.Grid(0, result.latencies.first_ns, SECOND, Clock())
cells = client_windows.cells(result.latencies, grid)
write_latency(run_dir, histograms.frame(cells, "p", "client", "client"))
figures = {
    "fio_ios": sum(result.ios.values()),
    "stored_ios": int(cells["count"].sum()),
    "seconds": time.monotonic() - ended,
    "above_start_bytes": peak_bytes() - before,
    "time_error_ns": client_windows.client_log([("client", result.latencies)], grid).time_error_ns,
}
print(json.dumps(figures))
