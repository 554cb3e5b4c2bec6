"""One side of a measurement, in a process of its own: `python importing.py SIDE FILE [OUT]`.

Prints the seconds of the work alone (imports are before it) and the highest memory of the whole process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

DUCKDB_QUERY = """
SELECT c0 // 1000 AS second, c2 AS direction,
       CASE WHEN c1 < 32 THEN c1
            ELSE ((floor(log2(c1))::BIGINT - 5) << 5) + (c1 >> (floor(log2(c1))::BIGINT - 5)) END AS bin,
       count(*) AS ios
FROM read_csv(?, header = false, delim = ',', columns = {
    'c0': 'BIGINT', 'c1': 'BIGINT', 'c2': 'BIGINT', 'c3': 'BIGINT', 'c4': 'BIGINT'})
GROUP BY ALL
"""
Rows = list[tuple[int, int, int, int]]


def kit(path: Path, out: Path | None) -> Rows:
    """The kit: to the rows of latency.parquet, and to the file where `out` names a directory."""
    frame = read_files([path], Options()).frame
    if out:
        out.mkdir(exist_ok=True)
        write_latency(RunDir(out), frame)
    bins = bin_index(frame["lo_ns"].to_numpy()).tolist()
    seconds = (frame["time_ns"] // 10**9).to_list()
    directions = [("read", "write").index(op) for op in frame["op"]]
    return list(zip(seconds, directions, bins, frame["count"].to_list(), strict=True))


def duckdb_rows(path: Path, out: Path | None) -> Rows:
    """DuckDB with the same GROUP BY."""
    return duckdb.connect().execute(DUCKDB_QUERY, [str(path)]).fetchall()


def fio_plot_rows(path: Path, out: Path | None) -> Any:
    """fio-plot's log reader, and nothing of what fio-plot does with the rows."""
    return readLogData({"type": ["lat"], "filter": ["read", "write"]}, {"filename": str(path)})


side = sys.argv[1]
work: Callable[[Path, Path | None], Any]
if side == "kit":
    from kit.bins import bin_index
    from kit.importers.run import Options, read_files
    from kit.store import RunDir, write_latency

    work = kit
elif side == "duckdb":
    import duckdb

    work = duckdb_rows
else:
    from fio_plot.fiolib.dataimport import readLogData

    work = fio_plot_rows

target = Path(sys.argv[3]) if len(sys.argv) > 3 else None
started = time.perf_counter()
result = work(Path(sys.argv[2]), target)
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
told = {
    "seconds": seconds,
    "peak_bytes": peak,
    "rows": len(result),
    "ios": sum(r[3] for r in result) if side != "fio-plot" else len(result),
    "digest": hash(tuple(sorted(result))) if side != "fio-plot" else None,
}
print(json.dumps(told))
