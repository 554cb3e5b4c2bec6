"""The page's table of faults and events."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.section import Section


def section(_: Manifest, summary: Summary) -> Section | None:
    """Of a run with a schedule."""
    return Section("faults", "Faults", "faults/faults.html.j2") if summary.faults else None
