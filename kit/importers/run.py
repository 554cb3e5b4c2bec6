"""From files to what a run directory holds: rows of latency.parquet and a manifest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from kit import __version__
from kit.errors import ConfigError
from kit.importers import detect, fiolog
from kit.importers.source import Source
from kit.importers.tally import Account, Tally
from kit.store import FORMAT

PHASE = "import"
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
        raise ConfigError("no file to import")
    sizes: list[int] = []
    before = 0

    def told(done: int) -> None:
        tell((before + done) / max(sum(sizes), 1))

    sources = [Source(path, told) for path in paths]
    formats = {s: options.format or detect.detect(s) for s in sources}
    # Looking at the first bytes is no progress.
    sizes += [s.size_bytes for s in sources]
    name = _one_format(formats)
    detect.check_alike(sources)
    tally = _tally(name, sources, options)
    accounts = []
    for source in sources:
        account = _read(name, source, tally, options)
        account.close()
        accounts.append(account)
        before += source.size_bytes
    counted = sum(a.rows_counted for a in accounts)
    if not counted:
        left = "; ".join(f"{n} {reason}" for a in accounts for reason, n in a.left_out.items())
        raise ConfigError(f"no I/O in {', '.join(map(str, paths))}{f' ({left})' if left else ''}")
    return _imported(name, tally, accounts, options, counted)


def _one_format(formats: dict[Source, str]) -> str:
    if len(set(formats.values())) > 1:
        told = ", ".join(f"{source.path} ({name})" for source, name in formats.items())
        raise ConfigError(
            f"files of unlike formats may hold the same I/Os: {told}",
            "import each format as a run of its own",
        )
    return next(iter(formats.values()))


def _tally(name: str, sources: list[Source], options: Options) -> Tally:
    return Tally(options.interval_ns)


def _read(name: str, source: Source, tally: Tally, options: Options) -> Account:
    host = options.host or detect.host_of(source)
    return fiolog.read(source, tally, host)


def _imported(name: str, tally: Tally, accounts: list[Account], options: Options, counted: int) -> Imported:
    layer = options.layer or "client"
    frame, origin_ns = tally.frame(PHASE, layer)
    assert int(frame["count"].sum()) == counted, "the tally lost I/Os"
    end_ns = int(frame["time_ns"].max()) + tally.interval_ns  # type: ignore[arg-type]
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
        "start_ns": 0, "end_ns": end_ns, "interval_ns": tally.interval_ns,
        "client_ios": clients, "server_ios": servers, "lost_events": 0, "checks": [], "problems": [],
        "extremes": tally.told_extremes(layer),
    }  # fmt: skip
    section = {
        "format": name, "origin_ns": origin_ns, "rows_counted": counted, "warnings": warnings,
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
