"""From files to what a run directory holds: their format, rows of latency.parquet and a manifest."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from kit import __version__
from kit.core.errors import ConfigError
from kit.core.text import commas, some
from kit.importers import (
    fio_histogram_log,
    fio_json,
    fio_latency_log,
    fio_other_logs,
    kit_trace,
    two_columns,
    zpool_iostat,
)
from kit.importers.base import Format, Options, Reading, only_kind
from kit.importers.histogram_accumulator import Account
from kit.importers.source import Source
from kit.importers.summaries import (
    bpf_histograms,
    diskinfo,
    elbencho,
    fio_percentiles,
    hdr_histogram,
    ioping,
    nfs_client,
    pg_test_fsync,
    prometheus,
    vdbench,
)
from kit.load.fio_latency_log import shown
from kit.store.format import FORMAT

# The first that recognises a file is taken: those with an unmistakable beginning come first.
FORMATS = (
    bpf_histograms.FORMAT,
    kit_trace.FORMAT,
    elbencho.FORMAT,
    fio_percentiles.FORMAT,
    fio_json.FORMAT,
    nfs_client.FORMAT,
    nfs_client.NFSIOSTAT_FORMAT,
    ioping.FORMAT,
    vdbench.FORMAT,
    hdr_histogram.FORMAT,
    hdr_histogram.TEXT_FORMAT,
    prometheus.FORMAT,
    zpool_iostat.FORMAT,
    pg_test_fsync.FORMAT,
    diskinfo.FORMAT,
    fio_latency_log.FORMAT,
    fio_histogram_log.FORMAT,
    two_columns.FORMAT,
)
BY_NAME = {known.name: known for known in FORMATS}
# Files that a warning of several names.
_NAMED = 3
_UNPACK = "decompress it first; of compressed files gzip and zstd are read"
_NO_TEXT = {
    b"\x1f\x8b": ("compressed twice", "decompress it once"),
    b"\x28\xb5\x2f\xfd": ("compressed twice", "decompress it once"),
    b"BZh": ("bzip2", _UNPACK),
    b"\xfd7zXZ\0": ("xz", _UNPACK),
    b"\x04\x22\x4d\x18": ("lz4", _UNPACK),
    b"x\x9c": ("compressed with zlib", "fio --inflate-log=FILE prints what log_store_compressed wrote"),
    b"PK\x03\x04": ("a ZIP archive", "unpack it first"),
    b"PAR1": ("Parquet", "`hsp show` and `hsp compare` read stored runs as they are"),
    b"\xff\xfe": ("UTF-16", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16", "save it as UTF-8"),
    b"\xef\xbb\xbf": ("begins with a byte order mark (BOM)", "save it as UTF-8 without BOM"),
}
# A map with fewer columns shows little; one of files that are read again has about so many.
_FEW_COLUMNS, _COLUMNS, _STEP_NS = 20, 200, 10**6
# What comes later is judged with its line.
_NULS_IN = 256
PHASE = "import"
LOAD = "load as the importer's user ran it; not recorded"
# malloc.h of glibc: mallopt(3).
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_MMAP_THRESHOLD_BYTES = 32 << 20
_KEPT_BYTES = 64 << 20
Tell = Callable[[float], None]


@dataclass
class Imported:
    """The rows of latency.parquet and the parts of the manifest that come from the files."""

    frame: pl.DataFrame
    phase: dict[str, Any]
    section: dict[str, Any]
    rows_are_phases: bool = False

    def __post_init__(self) -> None:
        """Phases and rows of latency.parquet of a table whose rows are phases."""
        self.phases = [self.phase]
        if not self.rows_are_phases:
            return
        titles = self.frame["host"].unique(maintain_order=True).to_list()
        self.phases = [
            {
                **self.phase,
                "name": title,
                "title": title,
                **self._counts(title),
                "sums": [{**each, "host": PHASE} for each in self.phase["sums"] if each["host"] == title],
                "extremes": [],
            }
            for title in titles
        ]
        self.frame = self.frame.with_columns(phase=pl.col("host"), host=pl.lit(PHASE))

    def _counts(self, title: str) -> dict[str, int]:
        """I/Os of a row, where those of all rows are counted."""
        ios = int(self.frame.filter(pl.col("host") == title)["count"].sum())
        return {key: ios if self.phase[key] else 0 for key in ("client_ios", "server_ios")}


def read_files(paths: Sequence[Path], options: Options, tell: Tell = lambda fraction: None) -> Imported:
    """Read all `paths`; `tell` gets the fraction done. Raises ConfigError for damage and for unlike files."""
    if not paths:
        raise ConfigError("no file to import", "name one or more files")
    _keep_freed_memory()
    sizes: list[int] = []
    done = [0] * len(paths)

    def told(number: int, done_bytes: int) -> None:
        done[number] = done_bytes
        # Looking at the first bytes is no progress.
        if sizes:
            tell(sum(done) / max(sum(sizes), 1))

    sources = [Source(path, partial(told, number)) for number, path in enumerate(paths)]
    for source in sources:
        _check_text(source)
        fio_other_logs.check(source, options.format)
    name = only_kind(
        {source: options.format or detect(source).name for source in sources},
        "files of unlike formats may hold the same I/Os",
        "import each format as a run of its own",
    )
    known = BY_NAME[name]
    _check_alike(sources)
    reading = known.open(sources, options)
    done[:] = [0] * len(paths)
    sizes += [s.size_bytes for s in sources]
    accounts = []
    with contextlib.closing(reading.accounts) as read:
        for account in read:
            account.close()
            accounts.append(account)
    counted = sum(a.rows_counted for a in accounts)
    if not counted:
        left = "; ".join(f"{n} {reason}" for a in accounts for reason, n in a.left_out.items())
        raise ConfigError(
            f"no I/O in {', '.join(map(str, paths))}{f' ({left})' if left else ''}",
            "give files with reads or writes in them, whole ones",
        )
    imported = _imported(known, reading, accounts, options, counted)
    single = (reading.source or known.source).timed and "tick_ns" in imported.section
    span_ns = imported.phase["end_ns"]
    if options.adapts and single and span_ns < _FEW_COLUMNS * options.interval_ns:
        interval_ns = max(span_ns // _COLUMNS // _STEP_NS, 1) * _STEP_NS
        return read_files(paths, replace(options, adapts=False, interval_ns=interval_ns), tell)
    return imported


def _check_text(source: Source) -> None:
    """That there is something in the file, and that it is text. Raises ConfigError."""
    head = source.head()
    if not head.strip():
        raise source.fail(None, "empty", "fio leaves logs empty where it had nothing to log: leave them out")
    for start, (what, hint) in _NO_TEXT.items():
        if head.startswith(start):
            raise source.fail(None, what, hint)
    if (at := head.find(b"\0", 0, _NULS_IN)) >= 0:
        line = head.count(b"\n", 0, at) + 1
        raise source.fail(line, "binary: a NUL byte in what should be text", "give what the tool printed")


def detect(source: Source) -> Format:
    """The format of a file. Raises ConfigError if its beginning is of none."""
    lines = [line for line in source.head().splitlines() if line.strip()]
    for known in FORMATS:
        if known.recognises(lines):
            return known
    found, hint = fio_other_logs.known_output(lines)
    raise source.fail(
        None,
        f"no known format{found}; the first line is {shown(lines[0])}",
        hint or f"say what it is: --from {', '.join(BY_NAME)}",
    )


def _check_alike(sources: list[Source]) -> None:
    """That no I/O is in two of the files. Raises ConfigError."""
    seen: dict[tuple[int, int], Source] = {}
    for source in sources:
        if other := seen.get(source.identity):
            raise ConfigError(f"{source.path} and {other.path} are the same file", "give each file once")
        seen[source.identity] = source
    only_kind(
        {source: source.log_kind for source in sources if source.log_kind},
        "logs of unlike kinds hold the same I/Os more than once",
        "import one kind: lat is slat and clat together",
    )


def _keep_freed_memory() -> None:
    """Have the C library keep up to 64 MiB of freed memory for the next array of this process.

    Arrays of a megabyte otherwise go back to the system each time, and the kernel clears each page of the
    next one again: 10 M rows of a latency log then take 1.05 times the processor time (median of 20 runs
    side by side, November 2026, `tox -e bench -- tests/bench/test_import.py`). Does nothing with another
    C library.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_MMAP_THRESHOLD, _MOST_MMAP_THRESHOLD_BYTES)
            mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def _names(files: Sequence[str]) -> list[str]:
    """Without their folders, where that tells them apart."""
    names = [Path(each).name for each in files]
    return names if len(set(names)) == len(names) else list(files)


def _imported(
    known: Format, reading: Reading, accounts: list[Account], options: Options, counted: int
) -> Imported:
    tally, layer = reading.tally, options.layer or known.layer
    frame, origin_ns = tally.frame(PHASE, layer)
    assert int(frame["count"].sum()) == counted, "the tally lost I/Os"
    # A histogram without times is one interval, as long as the job was.
    interval_ns = max(a.runtime_ns for a in accounts) or tally.interval_ns
    last_ns: int = frame["time_ns"].max()  # type: ignore[assignment]
    end_ns = last_ns + interval_ns
    if tally.until_ns:
        # A rate is of the time in which there were I/Os, not of whole intervals.
        end_ns = max(min(end_ns, tally.until_ns - origin_ns), last_ns + 1)
    told: dict[str, list[str]] = {}
    for a in accounts:
        left_out = (f"{commas(n)} left out: {reason}" for reason, n in a.left_out.items())
        for text in (*a.warnings, *left_out):
            told.setdefault(text, []).append(a.file)
    # What each of many files has is said once.
    warnings = [f"{some(_names(files), _NAMED)}: {text}" for text, files in told.items()]
    warnings += [
        f"{word} has no effect on files of the format {known.name}" for word in options.unused(known.uses)
    ]
    if tally.doubled:
        asked = tally.interval_ns >> tally.doubled
        warnings.append(
            f"too many cells: intervals are {tally.interval_ns} ns long, not the {asked} ns asked for"
        )
    # A commit moves no data: it is no I/O of a phase.
    ios = int(frame.filter(pl.col("op") != "commit")["count"].sum())
    clients, servers = (ios if layer == each else 0 for each in ("client", "nfs-server"))
    phase = {
        "name": PHASE, "title": "Imported", "op": None, "tiers": frame["tier"].unique().sort().to_list(),
        "start_ns": 0, "end_ns": end_ns, "interval_ns": interval_ns,
        "client_ios": clients, "server_ios": servers, "lost_events": 0, "checks": [], "problems": [],
        "extremes": tally.told_extremes(layer), "sums": tally.told_sums(layer),
    }  # fmt: skip
    section = {
        "format": known.name, **({"counts": reading.counts} if reading.counts else {}),
        "source": (reading.source or known.source).as_json(),
        "origin_ns": origin_ns, "rows_counted": counted, "warnings": warnings,
        **({"tick_ns": round(tally.tick_ns, 4)} if tally.tick_ns else {}),
        "files": [
            {"file": Path(a.file).name, "rows_read": a.rows_read, "rows_counted": a.rows_counted,
             "left_out": a.left_out} for a in accounts
        ],
    }  # fmt: skip
    return Imported(frame, phase, section, reading.rows_are_phases)


def manifest(
    imported: Imported, run: str, name: str, command: list[str], started_utc: str, wall_s: float
) -> dict[str, Any]:
    """manifest.json of an imported run."""
    return {
        "format": FORMAT, "run": run, "workload": name, "title": f"Imported: {name}",
        "started_utc": started_utc, "wall_s": round(wall_s, 3), "command": command,
        "clock": {"kind": "real", "dilation": 1}, "testbed": {"name": "unknown", "emulated": False},
        "versions": {"hsp": __version__}, "load": LOAD, "phases": imported.phases, "problems": [],
        "ended": True, "import": imported.section,
    }  # fmt: skip
