"""What a run was like: summary.json and report.html, from the files of its directory alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kit import store
from reports.page import render
from reports.references import Reference
from reports.summary import summarise

__all__ = ["analyse", "draw", "summary_of"]


def summary_of(run: store.RunDir, reference: Reference | None = None) -> dict[str, Any]:
    """What analyse() would write. Raises ConfigError."""
    return summarise(store.read_latency(run), store.read_manifest(run), reference)


def analyse(run: store.RunDir, reference: Reference | None = None) -> dict[str, Any]:
    """Write summary.json of `run` and return it; latencies in microseconds. Raises ConfigError.

    `reference` takes the place of the published ranges that the run's workload names.
    """
    summary = summary_of(run, reference)
    store.write_json(run.path / "summary.json", summary)
    return summary


def draw(run: store.RunDir) -> Path:
    """Write report.html of `run`, from manifest, latency and summary. Raises ConfigError."""
    html = render(store.read_latency(run), store.read_manifest(run), store.read_summary(run))
    store.write_atomically(run.report, html.encode())
    return run.report
