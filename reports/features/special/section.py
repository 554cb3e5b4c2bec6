"""The page's table of special vdevs, and of reads that fetched metadata first."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.section import Section
from reports.features.special.judge import sentences


def section(_: Manifest, summary: Summary) -> Section | None:
    """Of a pool with special vdevs, or with reads that fetched metadata first."""
    if not summary.special:
        return None
    has_vdevs = any(each.special for each in summary.special)
    title = "Special vdevs" if has_vdevs else "Metadata"
    values = {"sentences": [*sentences(summary)], "title": title}
    return Section("special", title, "special/special.html.j2", values)
