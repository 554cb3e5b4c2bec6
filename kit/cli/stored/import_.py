"""`hsp import`: make a run directory from logs of other programs."""

from __future__ import annotations

import re
import shutil
import sys
import time
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

import reports
from kit.cli.options import JsonOption, ResultsOption, duration_ns
from kit.core.errors import ConfigError
from kit.core.output import emit_json, say
from kit.core.progress import Progress
from kit.core.text import commas
from kit.importers import format_detection as importing
from kit.importers.base import Options
from kit.importers.format_detection import BY_NAME
from kit.session.presentation import print_result
from kit.store import json_file, run_directory, tables

Format = StrEnum("Format", {name: name for name in BY_NAME})  # type: ignore[misc]
Layer = StrEnum("Layer", {name: name for name in tables.LAYERS})  # type: ignore[misc]
Unit = Literal["ns", "us", "ms", "s"]
IntervalOption = Annotated[
    str | None,
    typer.Option(
        "--interval",
        metavar="DURATION",
        help="Time per column of the heat maps; default: 1s, of short files less.",
    ),
]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LEAST_INTERVAL_NS = 10**6
LogVdevOption = Annotated[
    list[int] | None,
    typer.Option("--log-vdev", metavar="ID", help="A log vdev of the traced pool; -1: it has none."),
]
UnitOption = Annotated[
    Unit | None, typer.Option("--unit", help="Unit of the latencies, where the files do not say it.")
]
FromOption = Annotated[
    Format | None,
    typer.Option(
        "--from",
        metavar="FORMAT",
        help=f"Format of the files, if it cannot be detected: {', '.join(Format)}.",
    ),
]
LayerOption = Annotated[
    Layer | None,
    typer.Option("--layer", metavar="LAYER", help=f"Where the latencies were measured: {', '.join(Layer)}."),
]


def import_(
    files: Annotated[
        list[Path], typer.Argument(help="Files, also gzip or zstd; - is standard input.", metavar="FILE")
    ],
    from_: FromOption = None,
    results: ResultsOption = Path("results"),
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The run goes into RESULTS/NAME/.")
    ] = "import",
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="NAME", help="Host name for all files; default: the file names."),
    ] = None,
    op: Annotated[
        Literal["read", "write"] | None,
        typer.Option("--op", help="Operation, where the files do not say it; default: read."),
    ] = None,
    layer: LayerOption = None,
    unit: UnitOption = None,
    time_unit: Annotated[
        Unit | None, typer.Option("--time-unit", help="Unit of its times, if different.")
    ] = None,
    log_vdev: LogVdevOption = None,
    interval: IntervalOption = None,
    json_output: JsonOption = False,
) -> None:
    """Report on what fio, zpool iostat, bpftrace, NFS clients, HdrHistogram or another program wrote.

    Examples:
      hsp import nas_lat.*.log --name nas
      hsp import --from fio-log --host client1 client1_clat.1.log
      hsp import two-columns.txt --unit us --op write
      curl -s http://etcd1:2379/metrics | hsp import -
    """
    _check_names(name, host)
    interval_ns = duration_ns("--interval", interval or "1s")
    if interval_ns < _LEAST_INTERVAL_NS:
        raise ConfigError(
            f"--interval {interval}: shorter than 1ms, the step of fio's clock", "give 1ms or more"
        )
    options = Options(
        format=from_.value if from_ else None,
        host=host,
        op=op,
        layer=layer.value if layer else None,
        unit=unit,
        time_unit=time_unit,
        interval_ns=interval_ns,
        adapts=interval is None,
        log_vdevs=frozenset(log_vdev) if log_vdev else None,
    )
    imported, run, analysed = _import(files, options, results, name, Progress())
    if json_output:
        emit_json({**analysed.summary.as_json(), "path": str(run.path)})
        say(f"run: {run.path}")
        say(f"report: {run.report}")
        return
    for file in imported.section["files"]:
        say(f"{file['file']}: {commas(file['rows_counted'])} of {commas(file['rows_read'])} I/Os counted")
    print_result(analysed, run)


def _check_names(name: str, host: str | None) -> None:
    """Raises ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(f"--name {name!r}: letters, digits, . _ and - only", "64 at most")
    if host is not None and not (0 < len(host) <= 100 and host.isprintable()):
        raise ConfigError(
            f"--host {host[:100]!r}: not the name of a host",
            "give 1 to 100 printable characters, such as nas1",
        )


def _import(
    files: list[Path], options: Options, results: Path, name: str, progress: Progress
) -> tuple[importing.Imported, run_directory.RunDir, reports.Analysed]:
    """Read the files into a run and draw it."""
    # Imports of one second have their order.
    stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    start_s = time.monotonic()
    with progress.step(f"reading {len(files)} file{'s' * (len(files) != 1)}"):
        imported = importing.read_files(files, options, progress.update)
    try:
        run = run_directory.create_run(results, name)
    except OSError as error:
        raise ConfigError(
            f"{results / name}: no run directory can be made: {error.strerror}", "choose --results"
        ) from error
    try:
        # argv may contain bytes that are not UTF-8; a manifest is UTF-8.
        command = ["hsp", *(a.encode(errors="replace").decode() for a in sys.argv[1:])]
        wall_s = time.monotonic() - start_s
        tables.write_latency(run, imported.frame)
        manifest = importing.manifest(imported, run.path.name, name, command, stamp, wall_s)
        json_file.write_json(run.path / "manifest.json", manifest)
        with progress.step("drawing the report"):
            analysed = reports.analyse(run)
        run_directory.point_latest(run)
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return imported, run, analysed
