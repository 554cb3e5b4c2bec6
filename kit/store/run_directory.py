"""The files of a run directory, and their paths.

    results/<workload>/<UTC time>-<id>/
        plan.json         what was asked for (kit.plan.plan), written before anything is touched
        journal.jsonl     what was done, a line before and a line after each step
        raw/              the output of tools, unchanged
        manifest.json     testbed, versions, tunables, clock, phases with their times (kit.store.manifest)
        latency.parquet   counts per interval, phase, layer, host, op, tier and bin (kit.store.tables)
        ageing.parquet    counts per device, point of its preconditioning, op, interval and bin
        keys.parquet      blocks that requests were for, sampled by hash
        capture.parquet   requests of an observed server, one by one (kit.store.load.capture)
        summary.json      verdict, accounting and ranges (kit.store.summary)
        report.html       drawn from the three files above alone

Everything that is read back is untrusted: sizes, types and ranges are checked.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import ConfigError, HostError
from kit.core.own_file import check_own_directory, own_directory
from kit.core.seed import RUN_ID


@dataclass(frozen=True)
class RunDir:
    """Paths of one run."""

    path: Path

    @property
    def raw(self) -> Path:
        return self.path / "raw"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"


def new_run_id() -> str:
    """UTC time and random digits (kit.core.seed.RUN_ID)."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"


def create_run(results: Path, workload: str) -> RunDir:
    """Make results/<workload>/<UTC time>-<id>/ with raw/. Raises as `new_directory`."""
    run = RunDir(new_directory(results, workload))
    run.raw.mkdir(mode=0o755)
    return run


def new_directory(results: Path, workload: str, prefix: str = "") -> Path:
    """Make results/<workload>/<prefix><UTC time>-<id>/, for others to read at most.

    Raises ConfigError if the first two are another user's, or writable by others; OSError.
    """
    own_directory(results)
    own_directory(results / workload)
    path = results / workload / f"{prefix}{new_run_id()}"
    # Whatever the umask: a run directory that others can write is not read.
    path.mkdir(mode=0o755)
    return path


def point_latest(run: RunDir) -> None:
    """Point `latest` at the run, once there is something to show, if it is the newest."""
    latest = run.path.parent / "latest"
    # Of the same second, the one that comes later.
    if latest.is_symlink() and latest.readlink().name.rpartition("-")[0] > run.path.name.rpartition("-")[0]:
        return
    link = run.path.parent / f".latest-{run.path.name}"
    link.symlink_to(run.path.name)
    link.replace(latest)


def named_run(path: Path) -> RunDir:
    """The run directory that a user names. Only `latest` may be a link, to a directory beside it.

    Raises ConfigError, also for one that is another user's or writable by others.
    """
    try:
        directory = path
        if path.is_symlink():
            target = path.readlink()
            if path.name != "latest" or len(target.parts) != 1 or target.name in ("", ".."):
                raise ConfigError(
                    f"{path} is a link, to {target}", "name the run directory, or the `latest` beside it"
                )
            directory = path.parent / target
        if not directory.is_dir():
            raise ConfigError(
                f"{path}: no such run directory", "give results/<workload>/<run>, or .../latest"
            )
        check_own_directory(directory)
        return RunDir(directory.resolve())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "look at its permissions") from None


def refuse_no_run(path: Path) -> None:
    """Raises ConfigError for a directory that is something else than a run; one without anything is none."""
    if os.path.lexists(path / "series.json"):
        raise ConfigError(f"{path} is a series, not a run", f"name a run of it: {_newest(path.parent)}")
    try:
        inside = sorted(path.iterdir())
    except OSError:
        return
    newest = _newest(path) or next(filter(None, map(_newest, inside)), None)
    if newest:
        raise ConfigError(f"{path} holds runs, and is not a run", f"name one of them, such as {newest}")


def refuse_no_result(run: RunDir) -> None:
    """As `refuse_no_run`; raises ConfigError, too, for a run that has stored no result."""
    refuse_no_run(run.path)
    if run.journal.exists():
        raise ConfigError(
            f"{run.path} has no result: the run has not ended, or was killed before it could store one",
            "`hsp list` shows runs with results; `hsp clean` undoes what a run that was killed has left",
        )


def _newest(path: Path) -> Path | None:
    """The newest run directory directly in `path`."""
    try:
        found = [each for each in path.iterdir() if re.fullmatch(RUN_ID, each.name) and each.is_dir()]
    except OSError:
        return None
    return max(found, key=lambda each: each.name, default=None)


def check_space(results: Path, needed_bytes: int, needed_files: int) -> None:
    """Stop before the load, not with a half-written run. Raises HostError."""
    free = shutil.disk_usage(results).free
    if free < needed_bytes:
        raise HostError(
            f"{results} has {free >> 20} MiB free, a run needs {needed_bytes >> 20} MiB",
            "free some space, or choose another place with --results",
        )
    files = os.statvfs(results)
    # Some filesystems have no limit, and say 0 of 0.
    if files.f_files and files.f_favail < needed_files:
        raise HostError(
            f"{results} has room for {files.f_favail} files more, a run needs {needed_files}",
            "remove files that are not needed, or choose another place with --results",
        )
