"""From files to what a run directory holds: rows of latency.parquet and a manifest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from kit import __version__
from kit.core.bins import bin_edges
from kit.core.errors import ConfigError
from kit.core.units import NS_PER_UNIT
from kit.importers import (
    detect,
    fio_bins,
    fio_histogram_log,
    fio_json,
    fio_latency_log,
    kit_trace,
    two_columns,
    zpool_iostat,
)
from kit.importers.histogram_accumulator import Account, Edges, Tally
from kit.importers.memory import keep_freed
from kit.importers.source import Source
from kit.store.run_directory import FORMAT

PHASE = "import"
_LAYERS = {"bpftrace": "nfs-server", "zpool-iostat": "vdev"}
LOAD = "load as the importer's user ran it; not recorded"
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Options:
    """What the user says of the files; None where they tell themselves."""

    format: str | None = None
    host: str | None = None
    op: str = "read"
    layer: str | None = None
    unit: str | None = None
    time_unit: str | None = None
    interval_ns: int = 10**9
    log_vdevs: frozenset[int] | None = None


@dataclass
class Imported:
    """The rows of latency.parquet and the parts of the manifest that come from the files."""

    frame: pl.DataFrame
    phase: dict[str, Any]
    section: dict[str, Any]
    accounts: list[Account] = field(default_factory=list)


def read_files(paths: Sequence[Path], options: Options, tell: Tell = lambda fraction: None) -> Imported:
    """Read all `paths`; `tell` gets the fraction done. Raises ConfigError for damage and for unlike files."""
    if not paths:
        raise ConfigError("no file to import", "name one or more files")
    keep_freed()
    sizes: list[int] = []
    done = [0] * len(paths)

    def told(number: int, done_bytes: int) -> None:
        done[number] = done_bytes
        # Looking at the first bytes is no progress.
        if sizes:
            tell(sum(done) / max(sum(sizes), 1))

    sources = [Source(path, partial(told, number)) for number, path in enumerate(paths)]
    for source in sources:
        detect.check_text(source)
    formats = {s: options.format or detect.detect(s) for s in sources}
    name = _one_format(formats)
    detect.check_alike(sources)
    readers = _Readers(name, sources, options)
    done[:] = [0] * len(paths)
    sizes += [s.size_bytes for s in sources]
    accounts = []
    for account in readers.read(sources):
        account.close()
        accounts.append(account)
    counted = sum(a.rows_counted for a in accounts)
    if not counted:
        left = "; ".join(f"{n} {reason}" for a in accounts for reason, n in a.left_out.items())
        raise ConfigError(
            f"no I/O in {', '.join(map(str, paths))}{f' ({left})' if left else ''}",
            "give files with reads or writes in them, whole ones",
        )
    return _imported(name, readers, accounts, options, counted)


def _one_format(formats: dict[Source, str]) -> str:
    if len(set(formats.values())) > 1:
        told = ", ".join(f"{source.path} ({name})" for source, name in formats.items())
        raise ConfigError(
            f"files of unlike formats may hold the same I/Os: {told}",
            "import each format as a run of its own",
        )
    return next(iter(formats.values()))


class _Readers:
    """The reader of each format, all into one tally."""

    def __init__(self, name: str, sources: list[Source], options: Options) -> None:
        self.name, self.options = name, options
        self.fio_bins = fio_bins.Layout(0)
        self.layouts: dict[Source, fio_bins.Layout] = {}
        self.runtime_ns = 0
        self.histograms: dict[Source, zpool_iostat.Histograms] = {}
        # What more the manifest says of the import.
        self.told: dict[str, str] = {}
        interval_ns = options.interval_ns
        edges: Edges = bin_edges
        if name == "fio-hist":
            self.layouts = {source: fio_histogram_log.layout(source) for source in sources}
            self.fio_bins = fio_histogram_log.common_layout(self.layouts)
            edges = self.fio_bins.edges
        elif name == "fio-json":
            edges = self.fio_bins.edges
        elif name == "zpool-iostat":
            edges = zpool_iostat.edges
            self.histograms = {source: zpool_iostat.histograms(source) for source in sources}
            self.told["counts"] = zpool_iostat.common_kind(self.histograms)
            # A column is not shorter than what zpool counted at once.
            interval_ns = max(interval_ns, *(found.step_ns for found in self.histograms.values()))
        elif name == "trace" and options.unit is None:
            raise ConfigError("a trace does not tell its unit", "give --unit ns, us, ms or s")
        self.tally = Tally(interval_ns, edges)

    def read(self, sources: list[Source]) -> Iterator[Account]:
        """Add files: an account of each, one after the other."""
        if self.name == "fio-hist":
            hosts = [self.options.host or detect.host_of(source) for source in sources]
            return fio_histogram_log.read(self.layouts, hosts, self.tally, self.fio_bins)
        return map(self._read, sources)

    def _read(self, source: Source) -> Account:
        options, tally = self.options, self.tally
        named = detect.host_of(source)
        host = options.host or named
        if self.name == "fio-log":
            return fio_latency_log.read(source, tally, host)
        if self.name == "fio-json":
            account, runtime_ns = fio_json.read(source, tally, host, options.host is not None)
            self.runtime_ns = max(self.runtime_ns, runtime_ns)
            return account
        if self.name == "trace":
            unit = NS_PER_UNIT[options.unit or "ns"]
            time_unit = NS_PER_UNIT[options.time_unit or options.unit or "ns"]
            return two_columns.read(source, tally, host, options.op, unit, time_unit)
        if self.name == "bpftrace":
            return kit_trace.read(source, tally, host, options.log_vdevs)
        return zpool_iostat.read(source, self.histograms[source], tally, options.host, named)


def _imported(
    name: str, readers: _Readers, accounts: list[Account], options: Options, counted: int
) -> Imported:
    tally = readers.tally
    layer = options.layer or _LAYERS.get(name, "client")
    frame, origin_ns = tally.frame(PHASE, layer)
    assert int(frame["count"].sum()) == counted, "the tally lost I/Os"
    # A histogram without times is one interval, as long as the job was.
    interval_ns = max(readers.runtime_ns, tally.interval_ns)
    end_ns = int(frame["time_ns"].max()) + interval_ns  # type: ignore[arg-type]
    warnings = [f"{a.file}: {w}" for a in accounts for w in a.warnings]
    warnings += [f"{a.file}: {n} left out: {reason}" for a in accounts for reason, n in a.left_out.items()]
    if tally.doubled:
        asked = tally.interval_ns >> tally.doubled
        warnings.append(
            f"too many cells: intervals are {tally.interval_ns} ns long, not the {asked} ns asked for"
        )
    if frame.height and layer == "nfs-server":
        clients, servers = 0, counted
    else:
        clients, servers = (counted, 0) if layer == "client" else (0, 0)
    phase = {
        "name": PHASE, "title": "Imported", "op": None, "tiers": frame["tier"].unique().sort().to_list(),
        "start_ns": 0, "end_ns": end_ns, "interval_ns": interval_ns,
        "client_ios": clients, "server_ios": servers, "lost_events": 0, "checks": [], "problems": [],
        "extremes": tally.told_extremes(layer),
    }  # fmt: skip
    section = {
        "format": name, **readers.told, "origin_ns": origin_ns, "rows_counted": counted, "warnings": warnings,
        "files": [
            {"file": Path(a.file).name, "rows_read": a.rows_read, "rows_counted": a.rows_counted,
             "left_out": a.left_out} for a in accounts
        ],
    }  # fmt: skip
    return Imported(frame, phase, section, accounts)


def manifest(
    imported: Imported, run: str, name: str, command: list[str], started_utc: str, wall_s: float
) -> dict[str, Any]:
    """manifest.json of an imported run."""
    return {
        "format": FORMAT, "run": run, "workload": name, "title": f"Imported: {name}",
        "started_utc": started_utc, "wall_s": round(wall_s, 3), "command": command,
        "clock": {"kind": "real", "dilation": 1}, "testbed": {"name": "unknown", "emulated": False},
        "versions": {"hsp": __version__}, "load": LOAD, "phases": [imported.phase], "problems": [],
        "import": imported.section,
    }  # fmt: skip
