"""A stored run to its report, in a process of its own: `python reporting.py RUN`.

Prints the seconds from the files to the page, imports included, those of all processors together, and the
highest memory of the process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

begin = time.perf_counter()

import reports  # noqa: E402
from kit.store.run_directory import RunDir  # noqa: E402

reports.analyse(RunDir(Path(sys.argv[1])))
seconds = time.perf_counter() - begin
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": seconds, "processor_seconds": used.ru_utime + used.ru_stime,
                  "peak_mb": used.ru_maxrss * 1024 / 1e6}))  # fmt: skip
