"""The kit's side of P2, in a process of its own: `python percentiles.py FILE...`.

Prints a line per second, as fiologparser_hist.py does: its end in ms, I/Os, and percentiles in ns. The last
line has the seconds of all but the imports.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kit.importers.base import Options
from kit.importers.format_detection import read_files
from reports.statistics.quantiles import over_time

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

started = time.perf_counter()
frame = read_files([Path(name) for name in sys.argv[1:]], Options(host="all")).frame
found = over_time(frame, QUANTILES)
columns = [f"{name}_ns" for name in QUANTILES]
for start_ns, ios, *values in found.select("time_ns", "ios", *columns).iter_rows():
    print(start_ns // 10**6 + 1000, ios, *values, sep=", ")
print("seconds", time.perf_counter() - started)
