"""Files to import: what tools wrote, and how a test puts its own beside them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from kit.core.errors import KitError
from kit.importers.base import Options
from kit.importers.format_detection import Imported, read_files

DATA = Path(__file__).with_name("data")
SUMMARIES = DATA.parent / "summaries" / "data"
KIT_DATA = DATA.parents[1] / "data"
ROW = "5, 1000, 0, 512, 0\n"


def put(tmp_path: Path, content: str | bytes, name: str) -> Path:
    """A file with that content."""
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def put_log(tmp_path: Path, content: str | bytes) -> Path:
    """The same, with the name of a fio log."""
    return put(tmp_path, content, "x_lat.1.log")


def imported(*paths: Path, **options: object) -> Imported:
    return read_files(list(paths), Options(**options))  # type: ignore[arg-type]


def counted(run: Imported, *columns: str) -> Counter[tuple[Any, ...]]:
    """I/Os by some columns of latency.parquet."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for *key, count in run.frame.select(*columns, "count").iter_rows():
        counts[tuple(key)] += count
    return counts


def survives(paths: list[Path], options: Options) -> None:
    """Read files of any content: an error for people, or a run whose sums close."""
    try:
        found = read_files(paths, options)
    except KitError as error:
        assert error.message
        return
    files = found.section["files"]
    assert found.frame["count"].sum() == sum(file["rows_counted"] for file in files)
    for file in files:
        assert file["rows_read"] == file["rows_counted"] + sum(file["left_out"].values())
    json.dumps([found.section, found.phase], allow_nan=False)


def nice(value: int) -> str:
    """As zpool shortens the end of a bucket."""
    for factor, unit in ((10**9, "s"), (10**6, "ms"), (10**3, "us")):
        if value >= factor:
            return f"{value // factor}{unit}"
    return f"{value}ns"


def iostat(counts: dict[int, tuple[str, str]], scripted: bool = False, name: str = "tank") -> str:
    """What `zpool iostat -w` prints (cmd/zpool/zpool_main.c, print_iostat_histo)."""
    head = (
        f"\n{name}         total_wait     disk_wait    syncq_wait    asyncq_wait\n"
        "latency      read  write   read  write   read  write   read  write  scrub   trim\n"
        "----------  -----  -----\n"
    )
    rows = []
    for bucket in range(37):
        end = (1 << (bucket + 1)) - 1
        read, write = counts.get(bucket, ("0", "0"))
        label = str(end) if scripted else nice(end)
        rows.append(("\t" if scripted else "  ").join([label, read, write, *["0"] * 8]))
    return ("" if scripted else head) + "\n".join(rows) + "\n" + ("" if scripted else "-" * 60 + "\n")


# What hostile input is made of. A format that is not here gets random bytes alone.
SEEDS: dict[str, list[bytes]] = {
    "fio-log": [path.read_bytes() for path in sorted(DATA.glob("*lat.*.log"))],
    "fio-hist": [(DATA / f"h{n}_clat_hist.1.log").read_bytes() for n in (6, 3)],
    "fio-json": [(DATA / "h6.json").read_bytes()],
    "fio-percentiles": [(SUMMARIES / "fio-plain.json").read_bytes()],
    "trace": [b"0.5 120\n1.5 130\n2 5e3\n", b"# s us\n1,2\n 3 , 4.5\n", b"1\t2\n"],
    "bpftrace": [path.read_bytes()[:20_000] for path in sorted(KIT_DATA.glob("trace-*.json"))],
    "zpool-iostat": [
        iostat({5: ("10", "1.2K")}).encode(),
        "".join(f"{n}\n{iostat({5: ('10', '1')})}" for n in (10**9, 10**9 + 5, 10**9 + 10)).encode(),
        "".join("tank\n" + iostat({5: ("10", "1")}, True) for _ in range(3)).encode(),
    ],
    "pg-test-fsync": [
        (DATA / "pg_test_fsync.txt").read_bytes(),
        b"1 second per test\nNon-Sync'ed 4kB writes:\n        write    1.500 ops/sec\n        x    n/a*\n",
    ],
    "bpf-hist": [
        (SUMMARIES / name).read_bytes() for name in ("bcc-log2.txt", "bcc-linear.txt", "bpftrace.txt")
    ],
    "elbencho": [(SUMMARIES / f"elbencho.{kind}").read_bytes() for kind in ("json", "csv")],
    "hdr-log": [(SUMMARIES / f"{name}.hlog").read_bytes() for name in ("hdr1", "hdr3", "java")],
    "hdr-percentiles": [(SUMMARIES / f"{name}.hgrm").read_bytes() for name in ("hdr", "java")],
    "ioping": [path.read_bytes() for path in sorted(SUMMARIES.glob("ioping*.txt"))],
    "mountstats": [(SUMMARIES / "mountstats.txt").read_bytes()],
    "nfsiostat": [(SUMMARIES / "nfsiostat.txt").read_bytes()],
    "prometheus": [(SUMMARIES / f"{name}.prom").read_bytes() for name in ("etcd", "prometheus-client")],
    "vdbench": [(SUMMARIES / "vdbench-histogram.html").read_bytes()],
    "diskinfo": [b"Synchronous random writes:\n\t   4 kbytes:     85.3 usec/IO =     45.8 Mbytes/s\n"],
}
