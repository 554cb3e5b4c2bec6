"""What a run was like: summary.json and report.html, from the files of its directory alone."""

from __future__ import annotations

from pathlib import Path

from kit.core.files import write_atomically
from kit.store import json_file, run_directory, tables
from kit.store.manifest import read_manifest
from kit.store.summary import Summary, read_summary
from reports.analysis.references import Reference
from reports.analysis.summary import summarise
from reports.page.report_page import render

__all__ = ["analyse", "draw", "judged"]


def judged(run: run_directory.RunDir) -> Summary:
    """The summary of `run` as it would be now, without bands; nothing is written. Raises ConfigError."""
    return summarise(tables.read_latency(run), read_manifest(run), with_bands=False)


def analyse(run: run_directory.RunDir, reference: Reference | None = None) -> Summary:
    """Write summary.json of `run` and return it; latencies in microseconds. Raises ConfigError.

    `reference` takes the place of the published ranges that the run's workload names.
    """
    summary = summarise(tables.read_latency(run), read_manifest(run), reference)
    json_file.write_json(run.path / "summary.json", summary.as_json())
    return summary


def draw(run: run_directory.RunDir) -> Path:
    """Write report.html of `run`, from manifest, latency and summary. Raises ConfigError."""
    aged = tables.read_ageing(run)
    html = render(
        tables.read_latency(run),
        read_manifest(run),
        read_summary(run),
        aged,
    )
    write_atomically(run.report, html.encode())
    return run.report
