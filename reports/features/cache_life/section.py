"""The page's curves of caches that get warm."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.cache_life.figure import curve
from reports.features.cache_life.judge import sentences
from reports.features.section import Section
from reports.published import references


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of a run with phases in which the caches were watched."""
    if not summary.caches:
        return None
    titles = {phase.name: phase.title or phase.name for phase in manifest.phases}
    published = references.gain_of(summary.reference.name) if summary.reference else ""
    values = {"sentences": [*sentences(summary), *filter(None, [published])]}
    figures = [curve(each, titles.get(each.phase, each.phase)) for each in summary.caches]
    return Section("caches", "How caches get warm", "cache_life/cache-life.html.j2", values, figures)
