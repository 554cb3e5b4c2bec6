"""One side of a measurement, in a process of its own: `python importing.py SIDE FILE [OUT]`.

Prints the seconds of the work alone (imports are before it), those of all processors together, and the
highest memory of the whole process.
"""

from __future__ import annotations

import json
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


def kit(path: Path, out: Path | None) -> Any:
    """The kit: to the rows of latency.parquet, and to the file where `out` names a directory."""
    frame = read_files([path], Options()).frame
    if out:
        out.mkdir(exist_ok=True)
        write_latency(RunDir(out), frame)
    return frame


def kit_rows(frame: Any) -> Rows:
    """The kit's counts as DuckDB's query names them."""
    bins = bin_index(frame["lo_ns"].to_numpy()).tolist()
    seconds = (frame["time_ns"] // 10**9).to_list()
    directions = [("read", "write").index(op) for op in frame["op"]]
    return list(zip(seconds, directions, bins, frame["count"].to_list(), strict=True))


def by_duckdb(path: Path, out: Path | None) -> Any:
    """DuckDB with the same GROUP BY, to NumPy arrays."""
    return duckdb.connect().execute(DUCKDB_QUERY, [str(path)]).fetchnumpy()


def duckdb_rows(columns: Any) -> Rows:
    return list(zip(*(column.tolist() for column in columns.values()), strict=True))


def by_fio_plot(path: Path, out: Path | None) -> Any:
    """fio-plot's log reader, and nothing of what fio-plot does with the rows."""
    return readLogData({"type": ["lat"], "filter": ["read", "write"]}, {"filename": str(path)})


side = sys.argv[1]
work: Callable[[Path, Path | None], Any]
as_rows: Callable[[Any], Rows] | None = None
if side == "kit":
    from kit.core.bins import bin_index
    from kit.importers.base import Options
    from kit.importers.format_detection import read_files
    from kit.store.run_directory import RunDir
    from kit.store.tables import write_latency

    work, as_rows = kit, kit_rows
elif side == "duckdb":
    import duckdb

    work, as_rows = by_duckdb, duckdb_rows
else:
    from fio_plot.fiolib.dataimport import readLogData

    work = by_fio_plot

target = Path(sys.argv[3]) if len(sys.argv) > 3 else None
started, started_cpu = time.perf_counter(), time.process_time()
result = work(Path(sys.argv[2]), target)
seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
# Not ru_maxrss: that also has what the process was before it became this one, a copy of the test's.
status = Path("/proc/self/status").read_text()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
rows = as_rows(result) if as_rows else None
told = {
    "seconds": seconds,
    "cpu_seconds": cpu_seconds,
    "peak_bytes": peak,
    "ios": sum(row[3] for row in rows) if rows is not None else len(result),
    "digest": hash(tuple(sorted(rows))) if rows is not None else None,
}
print(json.dumps(told))
