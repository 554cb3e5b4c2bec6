"""The runs or series of a trend, from what a user names: they are read and judged again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from kit.core.errors import ConfigError
from kit.core.output import say
from kit.session import comparison
from kit.store import json_file, latency
from kit.store.series import is_series, named_series, read_series, run_of
from reports.series.analyse import analysed_series
from reports.series.cells import StoredRun
from reports.trend.trend_point import TrendPoint, point_of_run, point_of_series

# A results directory of years has fewer; more are a mistake.
_MOST_ENTRIES = 10_000


def points_of(names: Sequence[str], last: int) -> tuple[list[TrendPoint], list[ConfigError]]:
    """The `last` points of a trend, and why runs or series of it cannot be read. Raises ConfigError.

    A name is a run, a series, or a directory whose runs and series are taken: results/WORKLOAD, or one whose
    folders are such directories.
    """
    for name in names:
        _refuse_phase(name)
    paths, of_series = _of_one_kind([path for name in names for path in _runs_of(Path(name))])
    points: list[TrendPoint] = []
    errors: list[ConfigError] = []
    for path in _newest(paths, last, "series" if of_series else "runs"):
        try:
            points.append(_series_point(path) if of_series else _run_point(path))
        except ConfigError as error:
            # It stops none of the others.
            errors.append(error)
    if errors and len(points) < 2:
        raise errors[0]
    return points, errors


def _of_one_kind(paths: Sequence[Path]) -> tuple[list[Path], bool]:
    """The series, whose own runs may stand beside them, or the runs; whether they are series.

    Raises ConfigError.
    """
    series = [path for path in paths if is_series(path)]
    members = {member for path in series for member in _members(path)}
    runs = [path for path in paths if not is_series(path) and path.resolve() not in members]
    if series and runs:
        raise ConfigError(
            f"{len(series)} series and {len(runs)} runs of no series ({runs[0]}, ...): a trend is of one "
            "kind",
            "name the runs, or the series",
        )
    return series or runs, bool(series)


def _newest(paths: Sequence[Path], last: int, words: str) -> list[Path]:
    """The damaged ones, of which reading says so, and the `last` of all others in time."""
    known = sorted(((begun, path) for path in paths if (begun := _started(path))), key=itemgetter(0))
    if len(known) > last:
        say(f"the newest {last} of {len(known)} {words}: --last {last}")
    return [*(path for path in paths if not _started(path)), *(path for _, path in known[-last:])]


def _refuse_phase(name: str) -> None:
    """Raises ConfigError for RUN:PHASE."""
    path, colon, phase = name.rpartition(":")
    if colon and "/" not in phase and os.path.lexists(path) and not os.path.lexists(name):
        raise ConfigError(
            f"{name} is a phase: a trend is of whole runs, and has a figure for each phase", "name the run"
        )


def _members(path: Path) -> list[Path]:
    """The runs of a series, which are beside it; none if the series cannot be read: the error comes later."""
    try:
        builds = read_series(named_series(path)).builds
        return [named_series(path).parent / each.run for build in builds for each in build.runs]
    except ConfigError:
        return []


def _runs_of(path: Path) -> Iterator[Path]:
    """The run or series itself, or all in the directory. Raises ConfigError."""
    if _is_stored(path) or not path.is_dir():
        yield path
        return
    found = [each for each in _folders(path) if _is_stored(each)]
    found = found or [inner for each in _folders(path) for inner in _folders(each) if _is_stored(inner)]
    if not found:
        raise ConfigError(
            f"{path} is no run, no series and no directory of them", "give results/<workload>, or the runs"
        )
    yield from found


def _is_stored(path: Path) -> bool:
    """A run that has ended or is resumed has a manifest; what has none has nothing to show."""
    return is_series(path) or os.path.lexists(path / "manifest.json")


def _folders(path: Path) -> list[Path]:
    """The directories in `path`, by name; links are not followed. Raises ConfigError."""
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "look at its permissions") from None
    if len(names) > _MOST_ENTRIES:
        raise ConfigError(f"{path} has {len(names)} directories", "name the runs of the trend")
    return [path / name for name in names]


def _started(path: Path) -> str:
    """When it began, before it is read whole; "" of what is damaged."""
    try:
        file = named_series(path) / "series.json" if is_series(path) else path / "manifest.json"
        return str(json_file.read_json(file)["started_utc"])
    except (ConfigError, KeyError, TypeError):
        return ""


def _run_point(path: Path) -> TrendPoint:
    run = comparison.ComparedRun(os.fspath(path))
    stored = StoredRun(run.manifest, run.summary, latency.read(run.directory, run.manifest.phases))
    return point_of_run(run.name, stored, run.settings)


def _series_point(path: Path) -> TrendPoint:
    directory = named_series(path)
    series = read_series(directory)
    runs: dict[str, StoredRun] = {}
    settings: dict[str, dict[str, Any]] = {}
    for build in series.builds:
        for each in build.runs:
            try:
                run = comparison.ComparedRun(os.fspath(run_of(directory, each.run).path))
                counts = latency.read(run.directory, run.manifest.phases)
            except ConfigError:
                continue  # as one that was not measured, as in reports.analyse_series
            runs[each.run] = StoredRun(run.manifest, run.summary, counts)
            settings.setdefault(build.name, run.settings)
    return point_of_series(os.fspath(path), analysed_series(series, runs), runs, settings)
