"""The page's table of an observed server."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.section import Section

# Of programs; those that waited longest.
_MOST_ROWS = 60


def section(_: Manifest, summary: Summary) -> Section | None:
    """Of an observed server."""
    if not summary.observed:
        return None
    if summary.observed[0].program:
        return Section("observed", "By program", "observed/programs.html.j2", {"most_rows": _MOST_ROWS})
    return Section("observed", "By file system", "observed/observed.html.j2")
