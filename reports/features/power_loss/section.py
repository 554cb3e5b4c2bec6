"""The page's figure and table of power losses."""

from __future__ import annotations

from kit.store.manifest import Manifest
from kit.store.summary import Summary
from reports.features.power_loss.figure import bars
from reports.features.power_loss.judge import table
from reports.features.section import Section


def section(manifest: Manifest, _: Summary) -> Section | None:
    """Of a run with power losses."""
    losses = manifest.power_loss
    if losses is None or not losses.moments:
        return None
    figures = [*filter(None, [bars(losses)])]
    return Section("power", "Power losses", "power_loss/power-loss.html.j2", table(losses), figures)
