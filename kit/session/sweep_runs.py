"""`hsp run` of a workload that sweeps: a run for each build, one after another, and series.json over all."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

import reports
from kit.config.sweep import AxisExpectation
from kit.core.errors import EXIT_INTERRUPTED, EXIT_UNKNOWN, ConfigError, KitError
from kit.core.output import check_target, emit_text, say
from kit.core.progress import Progress
from kit.core.seed import RUN_ID, seed_of_build
from kit.core.units import utc_now
from kit.plan.sweep.builds import Build, SweepPlan
from kit.plan.sweep.draft import name_of
from kit.precondition import selection
from kit.recovery import registry
from kit.recovery.journal import read_journal
from kit.run.resume import series_of
from kit.session.measure import MeasuredRun, clean_first, going_on, measure
from kit.session.place import Request, SeriesMark
from kit.session.presentation import code_of, code_of_series, present_series
from kit.session.shared_site import SharedSite
from kit.session.side import Side
from kit.store import series as store
from kit.store.checks.known_failures import Known
from kit.store.format import FORMAT
from kit.store.json_file import read_json
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir, named_run
from kit.store.series import Series, SeriesRun


def measure_sweep(side: Side, planned: SweepPlan, request: Request, progress: Progress) -> int:
    """Measure all cells and print the result; returns the exit code. Raises KitError."""
    path, code = measured_series(side, planned, request, progress)
    series = store.read_series(path)
    if not series.ended:
        return code
    present_series(series, path, request.json_output, request.junit)
    say(f"again:  {shlex.join(['hsp', *sys.argv[1:]])}")
    return max(code, code_of_series(series))


def measured_series(side: Side, planned: SweepPlan, request: Request, progress: Progress) -> tuple[Path, int]:
    """The series with all cells measured, and the exit code of its runs. One that is cut off has not ended.

    Raises KitError.
    """
    check_target(request.junit)
    path = request.resume
    if path:
        _check_same(path, store.read_series(path), planned)
        # A series is no run: none of its runs is resumed as a whole.
        request = replace(request, results=path.parent.parent, resume=None)
    code = 0
    with ExitStack() as stack:
        testbed = planned.in_use(side.read_testbed())
        plans = [build.plan for build in planned.builds]
        site = SharedSite(plans, testbed, request, progress, stack)
        # Not before: a series that is refused leaves nothing.
        path = path or _create(side, planned, request)
        say(f"series: {path}")
        series = _with_known(path, request)
        request = replace(request, known=series.known)
        todo, ongoing = list(_todo(series, planned)), reports.OngoingSeries(path)
        for number, (build, turn) in enumerate(todo, start=1):
            cells = ", ".join(dict.fromkeys(cell.name for cell in build.cells))
            round_ = f", round {turn} of {series.repeat}" if series.repeat > 1 else ""
            progress.note(f"build {number} of {len(todo)}{round_}: {build.name} (cells: {cells})")
            mark = SeriesMark(series.id, build.name, turn)
            try:
                own = None if series.seed is None else seed_of_build(series.seed, build.name, turn)
                measured = _measure(path, build, site, replace(request, seed=own, series=mark), progress)
            except (KitError, KeyboardInterrupt):
                say(_going_on(path))
                raise
            _record(ongoing, mark, measured)
            line = f"{build.name}: {measured.summary.state}: {measured.run_dir.path}"
            say(line) if request.json_output else emit_text([line])
            code = max(code, measured.code)
            if _is_cut_off(measured):
                say(_going_on(path))
                if measured.failure:
                    raise measured.failure
                return path, measured.code
    reports.analyse_series(path, ended=True)
    return path, code


def _with_known(path: Path, request: Request) -> Series:
    """The series, with the known failures that are named now."""
    series = store.read_series(path)
    if set(request.known) - set(series.known):
        series = series.model_copy(update={"known": tuple(dict.fromkeys((*series.known, *request.known)))})
        store.write_series(path, series)
    return series


def _is_cut_off(measured: MeasuredRun) -> bool:
    """Whether the run is to be resumed. One whose warm-up failed is complete: its cells are unknown."""
    failure = measured.failure
    return measured.code == EXIT_INTERRUPTED or (failure is not None and failure.exit_code != EXIT_UNKNOWN)


def _going_on(path: Path) -> str:
    return f"the series goes on with `hsp run --resume {path}`"


def resumed(path: Path) -> tuple[Side, Series]:
    """Workload, testbed and options of a series. Raises ConfigError."""
    series = store.read_series(path)
    if series.ended:
        raise ConfigError(
            f"{path} is complete: nothing is left to resume",
            "`hsp show` draws it again; begin a new series for new numbers",
        )
    return Side(series.sources[0], Path(series.sources[1]), series.sets), series


def _check_same(path: Path, series: Series, planned: SweepPlan) -> None:
    """Refuse to go on with another plan. Raises ConfigError."""
    if planned.digest != series.digest:
        raise ConfigError(
            f"{path}: the workload or the testbed is not what the series began with",
            "what was measured before and after would not belong together; begin a new series",
        )


def _create(side: Side, planned: SweepPlan, request: Request) -> Path:
    """The directory of a new series, with its plan."""
    plan = planned.builds[0].plan
    path = store.create_series(request.results, plan.workload.name)
    known = [*map(Known.from_table, plan.workload.known), *request.known]
    sweep, document = planned.sweep, planned.sweep.source.document
    value = {
        "format": FORMAT,
        "name": plan.workload.name,
        "title": selection.title(
            str(document.get("title", plan.workload.name)), None, plan.testbed, plan.workload.length
        ),
        "id": path.name,
        "started_utc": utc_now(),
        "sources": list(plan.sources),
        "testbed": plan.testbed.name,
        "emulated": plan.testbed.is_lab,
        "only": list(planned.only),
        "quick": planned.quick,
        "sets": list(side.sets),
        "seed": request.seed,
        "repeat": request.count,
        "digest": planned.digest,
        "drift_max": sweep.sweeps.drift_max,
        "cross": [list(group) for group in sweep.sweeps.cross],
        "reference": plan.workload.reference or None,
        **({"known": [each.as_json() for each in known]} if known else {}),
        "axes": [
            {
                "name": name, "keys": list(axis.keys), "kind": axis.kind, "values": list(axis.values),
                "published": [claim.model_dump(mode="json") for claim in axis.published],
                "phases": list(axis.phases or ()),
                **({"unit": axis.unit} if axis.unit else {}),
            }
            for name, axis in sweep.axes.items()
        ],
        "builds": [{"name": build.name, "digest": build.plan.digest} for build in planned.builds],
        "cells": [
            {
                "name": cell.name, "at": dict(cell.at), "phase": cell.phase, "in_run": cell.in_run,
                "build": build.name, "again": cell.again,
            }
            for build in planned.builds
            for cell in build.cells
        ],
        "skipped": [
            {
                "name": name_of(each.at), "at": dict(each.at), "phase": each.phase, "reason": each.reason,
                "problem": each.problem,
            }
            for each in planned.skipped
        ],
        "expect": [each.model_dump(mode="json", by_alias=True) for each in _expected(planned)],
    }  # fmt: skip
    store.write_series(path, Series.from_json(value, path))
    registry.remember(path.name, path)
    return path


def _expected(planned: SweepPlan) -> list[AxisExpectation]:
    """The expectations whose values are measured; with --only or --quick some are not."""
    values = {(axis, value) for cell in planned.cells for axis, value in cell.at.items()}
    bases = {(name, axis.base) for name, axis in planned.sweep.axes.items()}
    expected = planned.sweep.expect
    return [each for each in expected if {(each.axis, each.from_), (each.axis, each.to)} <= values | bases]


def _todo(series: Series, planned: SweepPlan) -> Iterator[tuple[Build, int]]:
    """The builds that have not ended, in each round."""
    done = {(build.name, run.round) for build in series.builds for run in build.runs}
    for turn in range(1, series.repeat + 1):
        yield from ((build, turn) for build in planned.builds if (build.name, turn) not in done)


def _measure(path: Path, build: Build, site: SharedSite, request: Request, progress: Progress) -> MeasuredRun:
    """A run of the build; one that was interrupted goes on. Raises KitError."""
    assert request.series is not None, "each run of a series is marked"
    run = next(_begun(path, request.series), None)
    if run is not None and _ended(run):
        analysed = reports.analyse(run, known=request.known)
        return MeasuredRun(run, analysed, code_of(analysed.summary), None)
    if run is None:
        place = site.place(build.plan, None, request.seed)
        return measure(build.plan, place, request, progress, is_up=site.is_up)
    with going_on(run, build.plan) as begun:
        place = site.place(build.plan, run.path, begun.earlier.seed)
        clean_first(begun, request, progress)
        return measure(build.plan, place, request, progress, begun, is_up=site.is_up)


def _begun(path: Path, mark: SeriesMark) -> Iterator[RunDir]:
    """Runs of this build and round that are beside the series."""
    for directory in sorted(path.parent.iterdir()):
        if not re.fullmatch(RUN_ID, directory.name) or directory.is_symlink():
            continue
        try:
            run = named_run(directory)
            if series_of(read_json(run.path / "plan.json")) == asdict(mark):
                yield run
        except ConfigError:
            continue


def _ended(run: RunDir) -> bool:
    """Whether it needs nothing more than to be read."""
    try:
        manifest = read_manifest(run)
        interrupted = any(problem.code in ("interrupted", "error") for problem in manifest.problems)
        return manifest.ended is True and read_journal(run.journal).finished and not interrupted
    except ConfigError:
        return False


def _record(ongoing: reports.OngoingSeries, mark: SeriesMark, measured: MeasuredRun) -> None:
    """Into series.json, unless the run is to be resumed."""
    if _is_cut_off(measured):
        return
    problem = measured.failure.message if measured.failure else None
    run = SeriesRun(
        run=measured.run_dir.path.name, round=mark.round, verdict=measured.summary.verdict, problem=problem
    )
    ongoing.add(mark.build, run)
