"""A point of a trend: a run, or a series, with its figures, settings and checks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kit.store.checks.outcome import Verdict
from kit.store.manifest import Fingerprint, Manifest
from kit.store.series import CellRun, Series
from reports.analysis import import_source
from reports.series.cells import StoredRun, measured
from reports.series.figures import figures_of
from reports.statistics.ratios import Realisation, mean
from reports.trend.check_history import Stand, outcomes_of

# phase (of a series with its cell), layer, op, tier, figure
Key = tuple[str, str, str, str, str]
RATE, BYTES = "ios_per_s", "bytes_per_s"
# Larger I/Os are spoken of in bytes a second.
_LARGE_BYTES = 64 << 10


@dataclass(frozen=True)
class FigureAtPoint:
    """A figure at a point: each of its runs, or of a series its rounds. `trusted`: it counts."""

    figures: tuple[Realisation, ...]
    trusted: bool
    reason: str = ""

    @property
    def mean(self) -> Realisation:
        return mean(self.figures)


@dataclass(frozen=True)
class TrendPoint:
    """`settings`: by build ("" for a run), as reports.comparison.comparability has them.

    `names`: of the workload's own settings, by what reads them. `started_utc`: "" where it is not known, of
    an import when it was imported.
    """

    name: str
    run: str
    started_utc: str
    verdict: Verdict | None
    reasons: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Any]]
    names: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[Key, FigureAtPoint] = field(default_factory=dict)
    outcomes: Mapping[str, Stand] = field(default_factory=dict)
    title: str = ""
    emulated: bool = False
    imported: bool = False
    fingerprint: Fingerprint = frozenset()

    @property
    def time(self) -> datetime | None:
        """When it began; None where that is not known, or no time."""
        try:
            found = datetime.fromisoformat(self.started_utc)
        except ValueError:
            return None
        return found if found.tzinfo else found.replace(tzinfo=UTC)

    @property
    def trusted(self) -> bool:
        """Whether any of its figures counts."""
        return any(each.trusted for each in self.figures.values())


def point_of_run(name: str, stored: StoredRun, settings: Mapping[str, Any]) -> TrendPoint:
    """A run, as a point. `name`: as the user gave it."""
    manifest, summary = stored.manifest, stored.summary
    figures: dict[Key, FigureAtPoint] = {}
    rows = import_source.rows(manifest)
    for phase in manifest.phases:
        # The name of a stranger's run may be anything; nothing is looked up by it.
        run = CellRun.model_construct(run=manifest.run or name, round=1, **measured(phase.name, stored))
        figures |= _figures(rows.get(phase.name, phase.name), [run], summary.by_nature)
    return TrendPoint(
        name, manifest.run or name, manifest.started_utc or "", summary.verdict, summary.reasons,
        {"": settings}, _names(manifest), figures, outcomes_of(summary), manifest.title or "",
        bool(manifest.testbed.emulated), manifest.import_ is not None, manifest.fingerprint,
    )  # fmt: skip


def point_of_series(
    name: str, series: Series, runs: Mapping[str, StoredRun], settings: Mapping[str, Mapping[str, Any]]
) -> TrendPoint:
    """A series, as a point: figures are those of its cells, over its rounds."""
    figures: dict[Key, FigureAtPoint] = {}
    for cell in series.cells:
        if not cell.again:
            label = cell.phase if cell.name == "base" else f"{cell.phase} {cell.name}"
            figures |= _figures(label, cell.runs, None, cell.excluded)
    outcomes: dict[str, Stand] = {}
    for build in series.builds:
        for run in build.runs:
            if run.run in runs:
                prefix = "" if build.name == "base" else f"{build.name}: "
                found = outcomes_of(runs[run.run].summary)
                outcomes |= {f"{prefix}{key}": each for key, each in found.items()}
    names = {k: v for run in runs.values() for k, v in _names(run.manifest).items()}
    return TrendPoint(
        name, series.id, series.started_utc, series.verdict, series.reasons, settings, names, figures,
        outcomes, series.title, series.emulated,
    )  # fmt: skip


def _names(manifest: Manifest) -> dict[str, str]:
    return {each.label: each.name for each in manifest.host_settings}


def _figures(
    phase: str, runs: Sequence[CellRun], by_nature: str | None, excluded: str | None = None
) -> dict[Key, FigureAtPoint]:
    """The figures of a phase or cell. A run that is unknown, but for its nature, does not count."""
    known = [run for run in runs if run.verdict != "unknown" or by_nature]
    reason = excluded or next((reason for run in runs for reason in run.reasons), "")
    trusted = bool(known) and not excluded
    found: dict[Key, list[Realisation]] = {}
    for run in known if trusted else runs:
        for (layer, op, tier, name), figure in figures_of(run).items():
            if name == RATE and run.bytes_per_s and run.ios_per_s:
                block = run.bytes_per_s / run.ios_per_s
                if block >= _LARGE_BYTES:
                    name, figure = BYTES, figure.times(block)
            found.setdefault((phase, layer, op, tier, name), []).append(figure)
    return {
        key: FigureAtPoint(tuple(each), trusted, "" if trusted else reason) for key, each in found.items()
    }
