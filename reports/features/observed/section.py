"""The page's tables of an observed server."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.observed.judge import saved, together
from reports.features.section import Section

# Of a table; those that waited longest.
_MOST_ROWS = 60


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of an observed server: what its clients waited for, or its own programs."""
    if not manifest.observed or not summary.observed:
        return None
    values: dict[str, object] = {"most_rows": _MOST_ROWS, "saved": [*saved(summary.observed)]}
    waited_ns = sum(row.waited_ns for row in summary.observed)
    values |= {"files": manifest.observed.files, "waited_ns": waited_ns or 1}
    if manifest.observed.local:
        return Section("observed", "By program", "observed/programs.html.j2", values)
    values["tables"] = [
        ("by file system", "file_system", together(summary.observed, "client")),
        ("by client", "client", together(summary.observed, "file_system")),
    ]
    values["operations"] = manifest.observed.operations
    return Section("observed", "By file system and client", "observed/observed.html.j2", values)
