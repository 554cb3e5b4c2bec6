"""From files to what a run directory holds: rows of latency.parquet and a manifest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from kit import __version__
from kit.core.errors import ConfigError
from kit.importers import detect
from kit.importers.base import Format, Options, Reading
from kit.importers.histogram_accumulator import Account
from kit.importers.memory import keep_freed
from kit.importers.source import Source
from kit.store.format import MANIFEST_FORMAT

PHASE = "import"
LOAD = "load as the importer's user ran it; not recorded"
Tell = Callable[[float], None]


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
    asked = detect.BY_NAME[options.format] if options.format else None
    known = _one_format({source: asked or detect.detect(source) for source in sources})
    detect.check_alike(sources)
    reading = known.open(sources, options)
    done[:] = [0] * len(paths)
    sizes += [s.size_bytes for s in sources]
    accounts = []
    for account in reading.accounts:
        account.close()
        accounts.append(account)
    counted = sum(a.rows_counted for a in accounts)
    if not counted:
        left = "; ".join(f"{n} {reason}" for a in accounts for reason, n in a.left_out.items())
        raise ConfigError(
            f"no I/O in {', '.join(map(str, paths))}{f' ({left})' if left else ''}",
            "give files with reads or writes in them, whole ones",
        )
    return _imported(known, reading, accounts, options.layer or known.layer, counted)


def _one_format(formats: dict[Source, Format]) -> Format:
    if len({known.name for known in formats.values()}) > 1:
        told = ", ".join(f"{source.path} ({known.name})" for source, known in formats.items())
        raise ConfigError(
            f"files of unlike formats may hold the same I/Os: {told}",
            "import each format as a run of its own",
        )
    return next(iter(formats.values()))


def _imported(known: Format, reading: Reading, accounts: list[Account], layer: str, counted: int) -> Imported:
    tally = reading.tally
    frame, origin_ns = tally.frame(PHASE, layer)
    assert int(frame["count"].sum()) == counted, "the tally lost I/Os"
    # A histogram without times is one interval, as long as the job was.
    interval_ns = max(tally.interval_ns, *(a.runtime_ns for a in accounts))
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
        "format": known.name, **({"counts": reading.counts} if reading.counts else {}),
        "source": (reading.source or known.source).as_json(),
        "origin_ns": origin_ns, "rows_counted": counted, "warnings": warnings,
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
        "format": MANIFEST_FORMAT, "run": run, "workload": name, "title": f"Imported: {name}",
        "started_utc": started_utc, "wall_s": round(wall_s, 3), "command": command,
        "clock": {"kind": "real", "dilation": 1}, "testbed": {"name": "unknown", "emulated": False},
        "versions": {"hsp": __version__}, "load": LOAD, "phases": [imported.phase], "problems": [],
        "import": imported.section,
    }  # fmt: skip
