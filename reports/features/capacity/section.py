"""The page's curve of an open loop, and the table of its rates."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.capacity.figure import curve
from reports.features.capacity.judge import sentences
from reports.features.section import Section


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of a run with phases with `open`."""
    if not summary.capacity:
        return None
    titles = {phase.name: phase.title or phase.name for phase in manifest.phases}
    figures = [
        curve(row, titles.get(row.phase, row.phase)) for row in summary.capacity if len(row.points) > 1
    ]
    values = {"sentences": sentences(summary.capacity)}
    return Section("capacity", "Latency over the rate", "capacity/capacity.html.j2", values, figures)
