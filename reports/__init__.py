"""What a run was like: summary.json and report.html, from the files of its directory alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kit import store
from reports.page import render
from reports.references import Reference
from reports.summary import summarise

__all__ = ["analyse", "draw", "judged"]


def judged(run: store.RunDir) -> dict[str, Any]:
    """The summary of `run` as it would be now, without bands; nothing is written. Raises ConfigError."""
    return summarise(store.read_latency(run), store.read_manifest(run), with_bands=False)


def analyse(run: store.RunDir, reference: Reference | None = None) -> dict[str, Any]:
    """Write summary.json of `run` and return it; latencies in microseconds. Raises ConfigError.

    `reference` takes the place of the published ranges that the run's workload names.
    """
    summary = summarise(store.read_latency(run), store.read_manifest(run), reference)
    store.write_json(run.path / "summary.json", summary)
    return summary


def draw(run: store.RunDir) -> Path:
    """Write report.html of `run`, from manifest, latency and summary. Raises ConfigError."""
    aged = store.read_ageing(run)
    html = render(store.read_latency(run), store.read_manifest(run), store.read_summary(run), aged)
    store.write_atomically(run.report, html.encode())
    return run.report
