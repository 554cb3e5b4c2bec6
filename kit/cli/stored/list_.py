"""`hsp list`: the stored runs of a results directory, from their files alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit.cli.options import JsonOption, ResultsOption
from kit.core.errors import ConfigError, error_text
from kit.core.output import emit_json, emit_text, say
from kit.core.seed import RUN_ID
from kit.core.text import wrapped
from kit.recovery.clean import is_made
from kit.session.presentation import terminal_width
from kit.store.manifest import read_manifest
from kit.store.run_directory import named_run
from kit.store.series import is_series, named_series, read_series
from kit.store.summary import read_summary
from reports.analysis.headline import sentence

_RUN_ID = re.compile(RUN_ID)
# What makes a directory one of a run, whatever its name.
_FILES = ("plan.json", "manifest.json", "summary.json", "series.json")


@dataclass(frozen=True)
class Listed:
    """A run directory. `verdict`: None without summary.json; `problem`: why its files cannot be read."""

    path: str
    run: str
    workload: str
    started_utc: str | None
    verdict: str | None = None
    sentence: str | None = None
    problem: str | None = None


def list_command(results: ResultsOption = Path("results"), json_output: JsonOption = False) -> None:
    """List the stored runs, newest first: verdict, workload, time and result."""
    runs = sorted(map(_listed, _directories(results)), key=lambda run: run.started_utc or "", reverse=True)
    if json_output:
        emit_json({"format": 1, "runs": [asdict(run) for run in runs]})
        return
    if not runs:
        say(f"no runs in {results}" if results.is_dir() else f"no runs: there is no directory {results}")
    emit_text(line for run in runs for line in _lines(run, terminal_width()))


def _directories(results: Path) -> Iterator[Path]:
    """Directories of runs in `results` and one level below. Links are not followed."""
    for path in _folders(results):
        if _is_run(path):
            yield path
        else:
            yield from filter(_is_run, _folders(path))


def _folders(path: Path) -> list[Path]:
    """The directories in `path`, by name. Says what cannot be read."""
    try:
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    except OSError as error:
        say(f"left out: {path}: {error.strerror}")
        return []
    return [path / name for name in sorted(names)]


def _is_run(path: Path) -> bool:
    return _RUN_ID.fullmatch(path.name) is not None or any(os.path.lexists(path / name) for name in _FILES)


def _listed(path: Path) -> Listed:
    known: dict[str, Any] = {"run": path.name, "workload": path.parent.name, "started_utc": _time(path.name)}
    try:
        if is_series(path):
            return _listed_series(path)
        run = named_run(path)
        if not os.path.lexists(run.path / "manifest.json"):
            return Listed(str(path), **known, sentence="It has not ended, or was killed: it has no manifest.")
        manifest = read_manifest(run)
        known["run"] = manifest.run or known["run"]
        known["workload"] = manifest.workload or known["workload"]
        known["started_utc"] = manifest.started_utc or known["started_utc"]
        if not os.path.lexists(run.path / "summary.json"):
            return Listed(str(path), **known, sentence=f"Not analysed yet: hsp report {path}")
        summary = read_summary(run)
        return Listed(str(path), **known, verdict=summary.verdict, sentence=sentence(manifest, summary))
    except ConfigError as error:
        return Listed(str(path), **known, problem=error.message)
    except OSError as error:
        return Listed(str(path), **known, problem=f"{error.filename}: {error.strerror}")
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        # Parts of a summary are not checked when they are read.
        return Listed(str(path), **known, problem=f"{path / 'summary.json'}: damaged ({error_text(error)})")


def _listed_series(path: Path) -> Listed:
    """Raises ConfigError."""
    series = read_series(named_series(path))
    runs = sum(len(build.runs) for build in series.builds)
    text = f"A series: {len(series.cells)} measurements in {runs} runs. {' '.join(series.reasons)}".strip()
    if not series.ended:
        text += f" Not ended: hsp run --resume {path}" if is_made(path) else " Not ended."
    return Listed(str(path), series.id, series.name, series.started_utc, series.verdict, text)


def _time(name: str) -> str | None:
    """The UTC time in the name of a run directory, as in a manifest."""
    if not _RUN_ID.fullmatch(name):
        return None
    return f"{name[:4]}-{name[4:6]}-{name[6:11]}:{name[11:13]}:{name[13:15]}Z"


def _lines(run: Listed, width: int) -> list[str]:
    state = "damaged" if run.problem else run.verdict or "no result"
    time = (run.started_utc or "").replace("T", " ").replace("Z", " UTC")
    text = run.problem or run.sentence or ""
    head = "  ".join(filter(None, (state.upper(), run.workload, time, run.run)))
    return [head, *(f"  {line}" for line in wrapped(text, max(width - 2, 20))), f"  {run.path}", ""]
