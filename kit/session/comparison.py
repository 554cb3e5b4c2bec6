"""Comparison of two sides of stored runs, or of one phase of each, which are read and judged again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import reports
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.store import json_file, run_directory
from kit.store.manifest import Manifest, read_manifest
from kit.store.parts.comparison import Comparison
from kit.store.summary import Summary
from kit.store.tables import read_latency
from reports.analysis import import_source
from reports.comparison import comparability, in_turn
from reports.comparison.compare import compare as compared


def comparison(a: list[ComparedRun], b: list[ComparedRun], across: Sequence[str]) -> Comparison:
    """Compare two sides (docs/compare.md). Raises ConfigError, MeasurementUnknown."""
    phases = _phases(a, b)
    # Two phases by name: that they differ is the question.
    free = [comparability.PHASE.rstrip(".")] if phases and phases[0] != phases[1] else []
    differing = comparability.check(
        [(r.name, r.settings) for r in a], [(r.name, r.settings) for r in b], across, free
    )
    _refuse_unknown([*a, *b])
    named = dict(zip("ab", phases, strict=True)) if phases else {}
    if pairs := _are_pairs(a, b):
        b = sorted(b, key=lambda run: [other.identity for other in a].index(run.identity))
    caveat = _same_order(a, b) if pairs else _not_in_turn(a, b)
    sides = ([_of_phase(r, shown_phase(named)) for r in side] for side in (a, b))
    result = compared(*sides, pairs=pairs, caveat=caveat)
    caveats = dict.fromkeys(r.summary.by_nature for r in [*a, *b])
    if not result.different:
        caveats[caveat] = None
    lengths = dict.fromkeys(r.summary.length for r in [*a, *b])
    short = [f"Runs of {length} length, shorter than the workload asks for." for length in lengths if length]
    said = (*(caveat for caveat in caveats if caveat), *short)
    update = {"caveats": said, "across": differing, "emulated": any(r.emulated for r in [*a, *b])}
    return result.model_copy(update=update | ({"phases": named} if named else {}))


def _are_pairs(a: list[ComparedRun], b: list[ComparedRun]) -> bool:
    """Whether both sides are phases of the same runs."""
    ours, theirs = ({run.identity for run in side} for side in (a, b))
    return ours == theirs and a[0].phase != b[0].phase


def _same_order(a: list[ComparedRun], b: list[ComparedRun]) -> str | None:
    """A sentence if one phase came before the other in all runs."""
    first = {run.start_ns <= other.start_ns for run, other in zip(a, b, strict=True)}
    if len(first) > 1:
        return None
    before, after = ("A", "B") if first == {True} else ("B", "A")
    return (
        f"The phases were always in this order: {before}, then {after}. An effect of the order would "
        "look like a difference."
    )


def _not_in_turn(a: list[ComparedRun], b: list[ComparedRun]) -> str | None:
    """A sentence if the runs of both sides were not measured in turn."""
    if min(len(a), len(b)) < 2:
        return None
    # An import has the time at which it was imported.
    times = ([None if run.manifest.import_ else run.manifest.started_utc for run in side] for side in (a, b))
    return in_turn.not_in_turn(*times)


def shown_phase(phases: Mapping[str, str] | None) -> str:
    """Name of the phases in a comparison of two phases, such as "read-1 -> read-4"; "" of whole runs."""
    return " \N{RIGHTWARDS ARROW} ".join(dict.fromkeys((phases or {}).values()))


def _phases(a: list[ComparedRun], b: list[ComparedRun]) -> tuple[str, str] | None:
    """The phase of each side; None if whole runs are compared. Raises ConfigError."""
    named: list[str] = []
    for side in (a, b):
        phases = list(dict.fromkeys(run.phase for run in side))
        if len(phases) > 1:
            listed = ", ".join(f"{run.name}{'' if run.phase else ' (all phases)'}" for run in side)
            raise ConfigError(
                f"one side has different phases: {listed}",
                "give each side one phase, the same of each of its runs",
            )
        named += [phase for phase in phases if phase is not None]
    if len(named) == 1:
        raise ConfigError(
            f"one side is the phase '{named[0]}', the other whole runs",
            "name a phase of every run: RUN:PHASE",
        )
    return (named[0], named[1]) if named else None


def _of_phase(run: ComparedRun, shown: str) -> Summary:
    """The summary of a run; of a phase of it its rows alone, and their phase is called `shown`."""
    if run.phase is None:
        known = import_source.rows(run.manifest)
        renamed = (
            row.model_copy(update={"phase": known.get(row.phase, row.phase)}) for row in run.summary.rows
        )
        return run.summary.model_copy(update={"rows": tuple(renamed)})
    rows = tuple(
        row.model_copy(update={"phase": shown}) for row in run.summary.rows if row.phase == run.phase
    )
    name = run.summary.run and f"{run.summary.run}:{run.phase}"
    return run.summary.model_copy(update={"rows": rows, "run": name})


class ComparedRun:
    """A stored run, or one phase of it, read and judged again. `phase`: None for the whole run."""

    def __init__(self, name: str) -> None:
        """`name`: a run directory, or RUN:PHASE. A directory of the whole name comes first."""
        self.name = name
        self.phase: str | None = None
        if not os.path.lexists(name):
            # Names of phases may have colons, too.
            ends = [at for at, letter in enumerate(name) if letter == ":" and "/" not in name[at:]]
            at = next((at for at in reversed(ends) if os.path.lexists(name[:at])), None)
            if at is not None:
                name, self.phase = name[:at], name[at + 1 :]
        self.directory = run_directory.named_run(Path(name))
        self.manifest = read_manifest(self.directory)
        known = [each.name for each in self.manifest.phases]
        if self.phase is not None and self.phase not in known:
            raise ConfigError(
                f"{self.name}: the run has no phase '{self.phase}'",
                f"its phases: {', '.join(known) or 'none'}",
            )
        self.settings = self._settings()
        self.identity = self.manifest.run or str(self.directory.path)
        self.identities = {str(self.directory.path), self.identity}
        self.summary = reports.judged(self.directory)

    def _settings(self) -> dict[str, Any]:
        paths = [self.directory.path / name for name in ("plan.json", "settings.json")]
        stored: Any = next((json_file.read_json(path) for path in paths if os.path.lexists(path)), {})
        plan = stored if isinstance(stored, dict) else {}
        try:
            if self.phase is None:
                return comparability.settings(self.manifest, plan)
            return comparability.settings_of_phase(self.manifest, plan, self.phase)
        except RecursionError:
            raise ConfigError(
                f"{self.name}: manifest.json or plan.json is nested too deep", "leave the run out"
            ) from None

    def drawn(self, shown: str) -> tuple[Manifest, pl.DataFrame]:
        """What its heat maps are made of; a phase compared by its name is called `shown`."""
        latency = read_latency(self.directory)
        if self.phase is None:
            known = import_source.rows(self.manifest)
            named = [p.model_copy(update={"name": known.get(p.name, p.name)}) for p in self.manifest.phases]
            latency = latency.with_columns(pl.col("phase").replace(known))
            return self.manifest.model_copy(update={"phases": tuple(named)}), latency
        phases = [p.model_copy(update={"name": shown}) for p in self.manifest.phases if p.name == self.phase]
        mine = latency.filter(pl.col("phase") == self.phase).with_columns(phase=pl.lit(shown))
        return self.manifest.model_copy(update={"phases": tuple(phases)}), mine

    @property
    def emulated(self) -> bool:
        """Whether its devices were models."""
        return bool(self.manifest.testbed.emulated)

    @property
    def start_ns(self) -> int:
        """When its phase began, since the run began."""
        phase = self.manifest.phase_named(self.phase)
        return phase.start_ns if phase else 0

    @property
    def trusted(self) -> bool:
        """Whether its figures can be used."""
        return self.summary.is_usable


def _refuse_unknown(runs: list[ComparedRun]) -> None:
    lines = [f"  {run.name}: {reason}" for run in runs if not run.trusted for reason in run.summary.reasons]
    if lines:
        raise MeasurementUnknown(
            "runs with an unknown verdict cannot be compared:\n" + "\n".join(lines),
            "leave them out, or measure again",
        )
