"""What a run was like: summary.json and report.html, from the files of its directory alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from kit.core.errors import ConfigError
from kit.core.files import write_atomically
from kit.store import json_file, latency, run_directory, tables
from kit.store import series as series_store
from kit.store.checks.known_failures import Known
from kit.store.manifest import Manifest, read_manifest
from kit.store.series import Series, SeriesRun
from kit.store.summary import Reference, Summary, read_summary
from reports.analysis.analysed import Analysed, analysed
from reports.analysis.summary import summarise
from reports.page.report_page import render
from reports.page.series_page import render as render_series
from reports.published.references import Setup
from reports.series.analyse import RunPart, analysed_series, joined_series, part_of
from reports.series.cells import StoredRun

__all__ = ["Analysed", "OngoingSeries", "analyse", "analyse_series", "judged", "page", "stored_run"]


def judged(run: run_directory.RunDir, known: Sequence[Known] = ()) -> Summary:
    """The summary of `run` as it would be now, without bands; nothing is written. Raises ConfigError."""
    return summarise(*_read(run), with_bands=False, known=known)


def page(run: run_directory.RunDir) -> bytes:
    """The report of `run` as it would be now; nothing is written. Raises ConfigError."""
    counts, manifest, aged = _read(run)
    return render(counts, manifest, analysed(counts, manifest, aged)).encode()


def analyse(
    run: run_directory.RunDir,
    reference: Reference | None = None,
    setup: Setup | None = None,
    known: Sequence[Known] = (),
) -> Analysed:
    """Write summary.json and report.html of `run`. Raises ConfigError.

    Neither is written unless both can be made. `reference` takes the place of the published ranges that the
    run's workload names, and `setup` that of their set-up; `known`: failures beside those of the workload.
    """
    counts, manifest, aged = _read(run)
    result = analysed(counts, manifest, aged, reference, setup, known)
    html = render(counts, manifest, result)
    json_file.write_json(run.path / "summary.json", result.summary.as_json())
    write_atomically(run.report, html.encode())
    return result


def analyse_series(path: Path, *, ended: bool = False) -> Series:
    """Write series.json and report.html of the series in the directory `path`. Raises ConfigError.

    `ended`: nothing is left to measure. A run that cannot be read is as one that was not measured.
    """
    series = series_store.read_series(path)
    runs = dict(_stored_runs(path, _runs_of(series)))
    series = analysed_series(series, runs)
    if ended:
        series = series.model_copy(update={"ended": True})
    html = render_series(series, {name: (each.manifest, each.latency) for name, each in runs.items()})
    series_store.write_series(path, series)
    write_atomically(path / "report.html", html.encode())
    return series


class OngoingSeries:
    """A series whose runs end one after another. Each is read once; `analyse_series` draws the page."""

    def __init__(self, path: Path) -> None:
        """`path`: the directory of the series."""
        self._path, self._parts, self._read = path, dict[str, RunPart](), set[str]()

    def add(self, build: str, run: SeriesRun) -> None:
        """Write series.json with a run that has ended. Raises ConfigError."""
        series = series_store.read_series(self._path)
        builds = tuple(
            each.model_copy(update={"runs": (*each.runs, run)}) if each.name == build else each
            for each in series.builds
        )
        series = series.model_copy(update={"builds": builds})
        for name, stored in _stored_runs(self._path, set(_runs_of(series)) - self._read):
            self._parts[name] = part_of(series, name, stored)
        self._read.update(_runs_of(series))
        series_store.write_series(self._path, joined_series(series, self._parts))


def stored_run(run: run_directory.RunDir) -> tuple[StoredRun, pl.DataFrame]:
    """A run judged as it would be now, and the rows of its ageing.parquet. Raises ConfigError."""
    counts, manifest, aged = _read(run)
    return StoredRun(manifest, summarise(counts, manifest, aged, with_bands=False), counts), aged


def _runs_of(series: Series) -> list[str]:
    return [run.run for build in series.builds for run in build.runs]


def _stored_runs(path: Path, names: Iterable[str]) -> Iterator[tuple[str, StoredRun]]:
    """Those runs beside the series in the directory `path` that can be read."""
    for name in names:
        try:
            run = series_store.run_of(path, name)
            manifest = read_manifest(run)
            stored = StoredRun(manifest, read_summary(run), latency.read(run, manifest.phases))
        except ConfigError:
            continue
        yield name, stored


def _read(run: run_directory.RunDir) -> tuple[latency.Latency, Manifest, pl.DataFrame]:
    manifest = read_manifest(run)
    return latency.read(run, manifest.phases), manifest, tables.read_ageing(run)
