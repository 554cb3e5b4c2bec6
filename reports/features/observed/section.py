"""The page's table of an observed server."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.section import Section


def section(_: Manifest, summary: Summary) -> Section | None:
    """Of an observed server."""
    return Section("observed", "By file system", "observed/observed.html.j2") if summary.observed else None
