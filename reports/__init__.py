"""What a run was like: summary.json and report.html, from the files of its directory alone."""

from __future__ import annotations

import polars as pl

from kit.core.files import write_atomically
from kit.store import json_file, latency, run_directory, tables
from kit.store.manifest import Manifest, read_manifest
from kit.store.summary import Reference, Summary
from reports.analysis.analysed import Analysed, analysed
from reports.analysis.references import Setup
from reports.analysis.summary import summarise
from reports.page.report_page import render

__all__ = ["Analysed", "analyse", "judged"]


def judged(run: run_directory.RunDir) -> Summary:
    """The summary of `run` as it would be now, without bands; nothing is written. Raises ConfigError."""
    return summarise(*_read(run), with_bands=False)


def analyse(
    run: run_directory.RunDir, reference: Reference | None = None, setup: Setup | None = None
) -> Analysed:
    """Write summary.json and report.html of `run`. Raises ConfigError.

    Neither is written unless both can be made. `reference` takes the place of the published ranges that the
    run's workload names, and `setup` that of their set-up.
    """
    counts, manifest, aged = _read(run)
    result = analysed(counts, manifest, aged, reference, setup)
    html = render(counts, manifest, result, aged)
    json_file.write_json(run.path / "summary.json", result.summary.as_json())
    write_atomically(run.report, html.encode())
    return result


def _read(run: run_directory.RunDir) -> tuple[latency.Latency, Manifest, pl.DataFrame]:
    manifest = read_manifest(run)
    return latency.read(run, manifest.phases), manifest, tables.read_ageing(run)
