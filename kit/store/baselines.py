"""baselines.json: runs of a results directory by name, to be compared with (docs/formats/results.md).

It has where a run is, not the run. Everything that is read is untrusted.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from pydantic import Field

from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.store.format import FORMAT, Format
from kit.store.json_file import write_json
from kit.store.manifest import read_manifest
from kit.store.run_directory import RunDir, named_run
from kit.store.run_name import folders
from kit.store.stored import Stored, read_versioned

FILE = "baselines.json"
DEFAULT = "default"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Baseline(Stored):
    """`path`: below the results directory, or absolute; `run`: the run's id in its manifest."""

    path: str
    run: str
    set_utc: str


class Baselines(Stored):
    """The file."""

    format: Format = FORMAT
    baselines: dict[str, Baseline] = Field(default_factory=dict)


def read_baselines(results: Path) -> dict[str, Baseline]:
    """By name; none without the file. Raises ConfigError."""
    if not results.is_dir():
        raise ConfigError(f"{results}: no such directory", "give --results")
    path = results / FILE
    if not os.path.lexists(path):
        return {}
    try:
        return dict(Baselines.from_json(read_versioned(path), path).baselines)
    except ConfigError as error:
        raise ConfigError(
            error.message,
            "correct the file, or remove it and set each baseline again: hsp tag RUN NAME",
        ) from None


def set_baseline(results: Path, name: str, run: RunDir, set_utc: str) -> tuple[Baseline, Baseline | None]:
    """Store `run` as the baseline `name`; also returns what it stands in place of. Raises ConfigError."""
    if not _NAME.fullmatch(name):
        text = f"{safe_text(name[:64])}: not a name of a baseline"
        raise ConfigError(text, "letters, digits, . _ and -, at most 64")
    known = read_baselines(results)
    before, inside = known.get(name), results.resolve()
    path = run.path.relative_to(inside) if run.path.is_relative_to(inside) else run.path
    made = Baseline(path=os.fspath(path), run=read_manifest(run).run or run.path.name, set_utc=set_utc)
    known[name] = made
    write_json(results / FILE, Baselines(format=FORMAT, baselines=known).as_json())
    return made, before


def run_of_baseline(results: Path, name: str) -> RunDir:
    """The run of a baseline, also where it was moved to within `results`. Raises ConfigError."""
    known = read_baselines(results)
    if name not in known:
        listed = ", ".join(sorted(map(safe_text, known))) or "none"
        raise ConfigError(
            f"{results} has no baseline '{safe_text(name[:64])}'",
            f"there are: {listed}; hsp tag RUN NAME --results {results}",
        )
    baseline = known[name]
    place = results / baseline.path
    for path in (place, *_elsewhere(results, Path(baseline.path).name)):
        if _is_directory(path):
            run = named_run(path)
            if (read_manifest(run).run or run.path.name) == baseline.run:
                return run
    raise ConfigError(
        f"the baseline '{name}' is the run {safe_text(baseline.run)}, which is not at "
        f"{safe_text(str(place))} any more, nor elsewhere in {results}",
        "put it back, or set another: hsp tag RUN NAME",
    )


def _is_directory(path: Path) -> bool:
    """No link; a name of a file that no system can have is none."""
    try:
        return path.is_dir() and not path.is_symlink()
    except (OSError, ValueError):
        return False


def _elsewhere(results: Path, name: str) -> list[Path]:
    """Directories of that name in `results` and one level below."""
    if name in ("", ".", ".."):
        return []
    return [results / name, *(folder / name for folder in folders(results))]
