"""RUN on the command line: a path, the start of an id, a workload (its latest), or nothing (the newest)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path

from kit.core.errors import ConfigError
from kit.core.seed import RUN_ID
from kit.core.text import safe_text
from kit.store.json_file import read_json

_MOST_NAMED = 5
_SERIES = "series-"
NO_RUNS = "`hsp demo` makes one; --results names another place"
_RUN_ID = re.compile(f"(?:{_SERIES})?{RUN_ID}")


def find_run(name: str | None, results: Path, *, alone: bool = False) -> Path:
    """The directory of a run or series. Raises ConfigError where it is not told which.

    The latest of a workload that sweeps is the series, not the run that it measured last, unless `alone`.
    """
    path = Path(name or "")
    if name and ("/" in name or os.path.lexists(path)):
        return path
    known = stored_ids(results)
    if not name:
        if not known:
            raise ConfigError(f"no runs in {results}", NO_RUNS)
        return known[max(known, key=_time)]
    if found := _of_workload(results / name):
        return found if alone else _series_of(found) or found
    begun = sorted(each for each in known if name in (each[: len(name)], _time(each)[: len(name)]))
    if len(begun) == 1:
        return known[begun[0]]
    shown = safe_text(name[:64])
    if begun:
        raise ConfigError(
            f"{len(begun)} runs begin with '{shown}'", f"such as {', '.join(begun[-_MOST_NAMED:])}"
        )
    names = [*known, *(each.name for each in folders(results))]
    close = [f"did you mean {each}? " for each in get_close_matches(name[:64], names, 1)]
    raise ConfigError(
        f"{shown}: no such run directory, nor a workload or the beginning of an id in {results}",
        f"{''.join(close)}`hsp list` shows the runs" if known else f"there are none: {NO_RUNS}",
    )


def find_phase(name: str, results: Path) -> str:
    """RUN or RUN:PHASE with the path of the run."""
    if "/" in name or os.path.lexists(name):
        return name
    run, colon, phase = name.partition(":")
    return f"{find_run(run, results)}{colon}{phase}"


def stored_ids(results: Path) -> dict[str, Path]:
    """Paths of all runs and series in `results` and one level below, by id."""
    return {each.name: each for each in run_folders(results, _has_id)}


def run_folders(
    results: Path, is_run: Callable[[Path], bool], left_out: Callable[[Path, OSError], None] | None = None
) -> Iterator[Path]:
    """Directories of runs in `results` and one level below. Links are not followed.

    `left_out`: called with what cannot be read.
    """
    for folder in folders(results, left_out):
        yield from [folder] if is_run(folder) else filter(is_run, folders(folder, left_out))


def _has_id(path: Path) -> bool:
    return _RUN_ID.fullmatch(path.name) is not None


def _of_workload(folder: Path) -> Path | None:
    latest = folder / "latest"
    if latest.is_symlink():
        return latest
    return max(filter(_has_id, folders(folder)), key=lambda each: _time(each.name), default=None)


def _series_of(run: Path) -> Path | None:
    """The series that the run is one of, if it lies beside it."""
    try:
        # `latest` is a link, by the name of a run beside it.
        run = run.parent / os.readlink(run) if run.is_symlink() else run
        series = run.parent / str(read_json(run / "plan.json")["series"]["id"])
    except (OSError, ConfigError, KeyError, TypeError):
        return None
    is_series = series.name.startswith(_SERIES) and _has_id(series)
    return series if is_series and series.is_dir() else None


def _time(name: str) -> str:
    """An id begins with its time, that of a series behind a word."""
    return name.removeprefix(_SERIES)


def folders(path: Path, left_out: Callable[[Path, OSError], None] | None = None) -> list[Path]:
    """Directories in `path`, by name. Links are not followed; `left_out`: as of `run_folders`."""
    try:
        with os.scandir(path) as entries:
            return sorted(Path(each.path) for each in entries if each.is_dir(follow_symlinks=False))
    except OSError as error:
        if left_out and not isinstance(error, FileNotFoundError):
            left_out(path, error)
        return []
