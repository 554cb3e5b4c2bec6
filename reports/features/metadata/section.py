"""The page's tables of files and directories, and of each operation of NFS."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.metadata.judge import operations, sentences
from reports.features.section import Section


def section(_: Manifest, summary: Summary) -> Section | None:
    """Of a run with phases with `metadata`."""
    if not summary.metadata:
        return None
    rows = {each.phase: operations(summary, each.phase) for each in summary.metadata}
    values = {"sentences": [*sentences(summary)], "rows": rows}
    return Section("metadata", "Files and directories", "metadata/metadata.html.j2", values)
