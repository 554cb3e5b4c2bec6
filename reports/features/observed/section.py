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
    rows, local = summary.observed, manifest.observed.local
    tables = [
        ("I/Os and waiting by file system", {"File system": "file_system"}, together(rows, "client")),
        ("I/Os and waiting by client", {"Client": "client"}, together(rows, "file_system")),
    ]
    if local:
        names = {"Program": "program", "File system": "file_system"}
        tables = [("Calls and waiting by program, file system", names, [*rows])]
    values = {
        "tables": tables, "most_rows": _MOST_ROWS, "saved": [*saved(rows)], "local": local,
        "files": manifest.observed.files, "operations": () if local else manifest.observed.operations,
        "waited_ns": sum(row.waited_ns for row in rows) or 1,
    }  # fmt: skip
    title = "By program" if local else "By file system and client"
    return Section("observed", title, "observed/observed.html.j2", values)
