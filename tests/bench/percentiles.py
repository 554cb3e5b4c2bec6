"""The kit's side of P2, in a process of its own: `python percentiles.py FILE...`.

Prints a line per second, as fiologparser_hist.py does: its end in ms, I/Os, and percentiles in ns. The last
line has the seconds of all but the imports.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import polars as pl

from kit.importers.run import Options, read_files
from reports.quantiles import limits_ns, percentiles_ns

QUANTILES = (0.5, 0.95, 0.99)

started = time.perf_counter()
frame = read_files([Path(name) for name in sys.argv[1:]], Options(host="all")).frame
if frame["op"].n_unique() > 1:
    frame = frame.group_by("time_ns", "lo_ns", "hi_ns").agg(pl.col("count").sum()).sort("time_ns", "lo_ns")
for second in frame.partition_by("time_ns", maintain_order=True):
    bins = list(
        zip(second["lo_ns"].to_list(), second["hi_ns"].to_list(), second["count"].to_list(), strict=True)
    )
    limits = limits_ns(bins, [])
    found = percentiles_ns(bins, QUANTILES, limits)
    end_ms = second["time_ns"][0] // 10**6 + 1000
    print(end_ms, second["count"].sum(), *found, sep=", ")
print("seconds", time.perf_counter() - started)
