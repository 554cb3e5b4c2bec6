"""The page's bars and table of the parts of requests."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.section import Section
from reports.features.split.figure import bars
from reports.features.split.judge import MOST_OBSERVED, WORDS, sentences


def section(manifest: Manifest, summary: Summary) -> Section | None:
    """Of a run with phases that have split_of."""
    if not summary.split:
        return None
    values = {"sentences": [*sentences(summary.split)], "words": WORDS, "most_observed": MOST_OBSERVED}
    drawn = bars(summary.split, {phase.name: phase.title or "" for phase in manifest.phases})
    return Section("why-slow", "Why it is slow", "split/split.html.j2", values, [drawn] if drawn else [])
