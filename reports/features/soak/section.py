"""The page's tables of soaks and impacts."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.section import Section


def section(_: Manifest, summary: Summary) -> Section | None:
    """Of a run with either."""
    return Section("soak", "Over hours", "soak/soak.html.j2") if summary.soak or summary.impact else None
