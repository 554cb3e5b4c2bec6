"""A stored run judged again without its hosts: its files, and what they say now beside what is stored."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reports
from kit.core.errors import EXIT_OK, EXIT_UNKNOWN, EXIT_USAGE, ConfigError
from kit.core.text import some
from kit.plan.known_failures import read_known
from kit.plan.plan import digest_of
from kit.session.presentation import code_of
from kit.store import json_file
from kit.store.checks.known_failures import Known
from kit.store.checks.outcome import Outcome
from kit.store.manifest import Manifest, read_manifest
from kit.store.run_directory import RunDir, named_run
from kit.store.series import named_series, read_series
from kit.store.summary import ForcesRow, Summary, read_summary
from reports.analysis.analysed import damage_refused

_COUNTS = ("client_ios", "server_ios", "lost_events")
_FIGURES = ("count", "min_us", "p50_us", "p99_us", "max_us")
# But for its sentence: that may be of another version of the kit.
_OF_FORCES = tuple(name for name in ForcesRow.model_fields if name not in ("phase", "why"))
_MOST_SHOWN = 5


@dataclass(frozen=True)
class Rejudged:
    """`summary`: as it is now; None if the run cannot be read. `stored`: outcomes of its files."""

    path: str
    summary: Summary | None
    stored: tuple[Outcome, ...]
    error: ConfigError | None = None

    @property
    def code(self) -> int:
        """The exit code: the verdict's, but of damaged files and of another stored result."""
        if self.summary is None:
            return EXIT_USAGE
        damaged = any(each.decides for each in self.stored)
        return max(code_of(self.summary), EXIT_UNKNOWN if damaged else EXIT_OK)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """All, those of the files first."""
        return (*self.stored, *(self.summary.outcomes if self.summary else ()))


def known_of(path: Path, manifest: Manifest) -> tuple[Known, ...]:
    """The failures in the file of `--known`, for a run. Raises ConfigError for one of no check of the run."""
    expected = [each.model_dump(mode="json", exclude_unset=True) for each in manifest.expect]
    return read_known(path, [phase.name for phase in manifest.phases], expected)


def known_of_all(path: Path, runs: Sequence[Path], series: Sequence[Path]) -> tuple[Known, ...]:
    """The same for several: an entry is of a check of one of the runs, or of a ratio of a series."""
    phases: list[str] = []
    expected: list[dict[str, Any]] = []
    for each in runs:
        # One that cannot be read is judged so later.
        with contextlib.suppress(ConfigError), damage_refused("manifest.json", ""):
            manifest = read_manifest(named_run(each))
            phases += [phase.name for phase in manifest.phases]
            expected += [wish.model_dump(mode="json", exclude_unset=True) for wish in manifest.expect]
    for each in series:
        with contextlib.suppress(ConfigError):
            wishes = read_series(named_series(each)).expect
            expected += [wish.model_dump(mode="json", by_alias=True) for wish in wishes]
    return read_known(path, phases, expected)


def rejudged(path: Path, known: Sequence[Known] = ()) -> Rejudged:
    """The run in the directory `path`. `known`: failures beside those of its workload."""
    try:
        with damage_refused("a file of the run", "copy the run directory again"):
            run = named_run(path)
            manifest = read_manifest(run)
            summary = reports.judged(run, known)
    except ConfigError as error:
        return unreadable(path, error)
    stored = (
        Outcome.ok("RUN-FILES", text=f"format {manifest.format}"),
        _plan_digest(run),
        _stored_summary(run, summary),
    )
    return Rejudged(str(path), summary, stored)


def unreadable(path: Path, error: ConfigError) -> Rejudged:
    """A run or series that cannot be judged: it stops none of the others."""
    return Rejudged(str(path), None, (Outcome.failed("RUN-FILES", error.message),), error)


def _plan_digest(run: RunDir) -> Outcome:
    path = run.path / "plan.json"
    if not os.path.lexists(path):
        text = "there is no plan.json: nothing was planned, or it is a pack"
        return Outcome.absent("PLAN-DIGEST", "not available", text)
    try:
        plan = json_file.read_json(path)
        stored, found = plan.get("digest"), digest_of(plan)
    except (ConfigError, AttributeError, TypeError, ValueError, RecursionError) as error:
        return Outcome.failed("PLAN-DIGEST", f"plan.json is damaged: {error}")
    if stored != found:
        text = (
            f"plan.json says {str(stored)[:64]}, its content has {found}: it was changed after the run began."
        )
        return Outcome.failed("PLAN-DIGEST", text)
    return Outcome.ok("PLAN-DIGEST", text=found)


def _stored_summary(run: RunDir, now: Summary) -> Outcome:
    if not os.path.lexists(run.path / "summary.json"):
        return Outcome.absent("STORED-SUMMARY", "not available", "there is no summary.json yet")
    try:
        with damage_refused("summary.json", "`hsp show` makes it anew"):
            differences = list(_differences(read_summary(run), now))
    except ConfigError as error:
        return Outcome.failed("STORED-SUMMARY", error.message)
    if differences:
        shown = some(differences, _MOST_SHOWN, "; ")
        return Outcome.failed("STORED-SUMMARY", f"summary.json differs: {shown}.")
    return Outcome.ok("STORED-SUMMARY", text=f"{now.verdict}, {len(now.rows)} rows")


def _differences(stored: Summary, now: Summary) -> Iterator[str]:
    """What a stored summary says otherwise, in words. Its sentences may be of another version of the kit."""
    # Of before: they failed where I/Os were too few, or a phase was not measured.
    opened = {each.id for each in now.outcomes if each.is_expectation and each.holds is None}
    were = {each.id for each in stored.causes} & opened
    if stored.verdict != now.verdict and not were:
        yield f"the verdict is {now.verdict}, stored is {stored.verdict}"
    yield from _value_differences(stored, now, ("run", "workload"))
    if stored.causes:
        yield from _cause_differences(stored, now, were)
    yield from _value_differences(stored.accounting, now.accounting, _COUNTS)
    rows, of_stored = now.rows_by_key, stored.rows_by_key
    for key in dict.fromkeys([*rows, *of_stored]):
        yield from _row_differences(" ".join(key), rows.get(key), of_stored.get(key))
    yield from _forces_differences(stored, now)


def _value_differences(stored: Any, now: Any, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if getattr(stored, name) != getattr(now, name):
            yield f"{name} is {getattr(now, name)}, stored is {getattr(stored, name)}"


def _cause_differences(stored: Summary, now: Summary, were: set[str]) -> Iterator[str]:
    """`were`: expectations that failed then and are open now: why they are is a reason of now alone."""
    then = {each.id for each in stored.causes} - were
    today = {each.id for each in now.causes} - were - ({"FEW-IOS", "NOT-MEASURED"} if were else set())
    if more := sorted(today - then):
        yield f"reasons not stored: {', '.join(more)}"
    if fewer := sorted(then - today):
        yield f"stored reasons that do not hold: {', '.join(fewer)}"


def _forces_differences(stored: Summary, now: Summary) -> Iterator[str]:
    mine, theirs = ({row.phase: row for row in summary.forces} for summary in (now, stored))
    for phase in dict.fromkeys([*mine, *theirs]):
        name = f"the forced writes of {phase}"
        yield from _row_differences(name, mine.get(phase), theirs.get(phase), _OF_FORCES)


def _row_differences(name: str, now: Any, stored: Any, figures: Sequence[str] = _FIGURES) -> Iterator[str]:
    if now is None or stored is None:
        yield f"{name} is {'stored, and has no I/O' if now is None else 'not stored'}"
        return
    for figure in figures:
        mine, theirs = getattr(now, figure), getattr(stored, figure)
        if _differ(mine, theirs):
            yield f"{figure} of {name} is {mine}, stored is {theirs}"


def _differ(mine: Any, theirs: Any) -> bool:
    """Figures are rounded nowhere, but libraries of another version may add in another order."""
    if isinstance(mine, int | float) and isinstance(theirs, int | float):
        return abs(mine - theirs) > 1e-6 * abs(mine)
    return bool(mine != theirs)
