"""What a run was like: summary.json and report.html, from the files of its directory alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kit.store import run_directory
from reports.analysis.references import Reference
from reports.analysis.summary import summarise
from reports.page.report_page import render

__all__ = ["analyse", "draw", "judged"]


def judged(run: run_directory.RunDir) -> dict[str, Any]:
    """The summary of `run` as it would be now, without bands; nothing is written. Raises ConfigError."""
    return summarise(run_directory.read_latency(run), run_directory.read_manifest(run), with_bands=False)


def analyse(run: run_directory.RunDir, reference: Reference | None = None) -> dict[str, Any]:
    """Write summary.json of `run` and return it; latencies in microseconds. Raises ConfigError.

    `reference` takes the place of the published ranges that the run's workload names.
    """
    summary = summarise(run_directory.read_latency(run), run_directory.read_manifest(run), reference)
    run_directory.write_json(run.path / "summary.json", summary)
    return summary


def draw(run: run_directory.RunDir) -> Path:
    """Write report.html of `run`, from manifest, latency and summary. Raises ConfigError."""
    aged = run_directory.read_ageing(run)
    html = render(
        run_directory.read_latency(run),
        run_directory.read_manifest(run),
        run_directory.read_summary(run),
        aged,
    )
    run_directory.write_atomically(run.report, html.encode())
    return run.report
