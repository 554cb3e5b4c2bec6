"""The work of `hsp gallery`: the packs below a directory, and the rows that their stored summaries have."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from kit import __version__
from kit.core.errors import ConfigError
from kit.core.own_file import read_own
from kit.core.text import safe_text
from kit.pack.archive import SUFFIX
from kit.pack.opened import opened_files
from kit.store.format import FORMAT
from kit.store.manifest import read_manifest
from kit.store.printed.gallery import Gallery, GalleryRow, PackLeftOut
from kit.store.run_directory import RunDir
from kit.store.series import is_series, read_series
from kit.store.summary import read_summary
from reports.analysis.analysed import damage_refused
from reports.devices.gallery import gallery_rows, slog_rows

# Lines of `hsp slog --format row`.
LINES = ".slog"
_MOST_LINES_BYTES, _MOST_LINES = 1 << 20, 1000
_FILES = ("manifest.json", "summary.json", "series.json")
_MOST_ENTRIES, _MOST_PACKS, _MOST_DEPTH = 100_000, 1000, 16
_MOST_LETTERS = 300
MOST_ROWS = 5000
HINT = "ask its author for another pack, or remove it from the directory"


def gallery(directory: Path) -> Gallery:
    """The gallery of all packs and lines below `directory`. Raises ConfigError without any, HostError."""
    if not directory.is_dir():
        raise ConfigError(f"{directory} is no directory", "name a directory with packs: `hsp gallery DIR`")
    found = _Found(directory)
    paths = list(islice(found.packs(), _MOST_PACKS + 1))
    if not paths and not found.left_out:
        raise ConfigError(f"{directory} has no pack (*{SUFFIX}, *{LINES})", "`hsp pack RUN` makes one")
    if len(paths) > _MOST_PACKS:
        raise ConfigError(f"{directory} has more than {_MOST_PACKS} packs", "name one of its sub-folders")
    read = [found.add(path) for path in paths]
    rows = [row.model_copy(update={"files": tuple(files)}) for row, files in found.rows.items()]
    rows.sort(key=lambda row: (not row.is_ranked, row.p99_us or 0))
    left_out = tuple(found.left_out)
    return Gallery(
        format=FORMAT, kit=__version__, packs=sum(read), rows=tuple(rows), more=found.more, left_out=left_out
    )


@dataclass
class _Found:
    """`rows`: each once, with the packs that have it; `more`: how many came after MOST_ROWS."""

    directory: Path
    rows: dict[GalleryRow, dict[str, None]] = field(default_factory=dict)
    left_out: list[PackLeftOut] = field(default_factory=list)
    more: int = 0

    def packs(self) -> Iterator[Path]:
        """By name. Links are not followed. Raises ConfigError for a directory that is too large."""
        seen = 0
        for folder, folders, files in os.walk(self.directory, onerror=self._unreadable):
            seen += len(folders) + len(files)
            if seen > _MOST_ENTRIES:
                raise ConfigError(
                    f"{self.directory} has more than {_MOST_ENTRIES:,} files", "name a directory of packs"
                )
            folders.sort()
            if folders and len(Path(folder).relative_to(self.directory).parts) >= _MOST_DEPTH:
                self._leave_out(Path(folder), f"more than {_MOST_DEPTH} folders deep: not searched")
                folders.clear()
            yield from (Path(folder, name) for name in sorted(files) if name.endswith((SUFFIX, LINES)))

    def add(self, path: Path) -> bool:
        """The rows of a pack; False where it is left out."""
        try:
            if path.is_symlink():
                raise ConfigError("a link, which is not followed")
            rows = [*(_of_lines(path) if path.suffix == LINES else _of_pack(path))]
            if not rows:
                raise ConfigError("it has no figure")
        except ConfigError as error:
            self._leave_out(path, error.message)
            return False
        name = self._name(path)
        for row in rows:
            if row in self.rows or len(self.rows) < MOST_ROWS:
                self.rows.setdefault(row, {})[name] = None
            else:
                self.more += 1
        return True

    def _leave_out(self, path: Path, reason: str) -> None:
        self.left_out.append(PackLeftOut(file=self._name(path), reason=safe_text(reason[:_MOST_LETTERS])))

    def _unreadable(self, error: OSError) -> None:
        self._leave_out(Path(error.filename), f"{error.strerror}")

    def _name(self, path: Path) -> str:
        return safe_text(os.fspath(path.relative_to(self.directory)))


def _of_pack(path: Path) -> Iterator[GalleryRow]:
    """Raises ConfigError."""
    with opened_files(path, _FILES) as root, damage_refused("the pack", HINT):
        for run in _runs(root):
            yield from gallery_rows(read_manifest(run), read_summary(run))


def _of_lines(path: Path) -> Iterator[GalleryRow]:
    """Raises ConfigError with the line."""
    try:
        lines = read_own(path, _MOST_LINES_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"it cannot be read: {error}") from None
    if len(lines) > _MOST_LINES:
        raise ConfigError(f"more than {_MOST_LINES} lines")
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ConfigError("no object")
            yield from slog_rows(value)
        except (ValueError, RecursionError):
            raise ConfigError(f"line {number}: no JSON") from None
        except ConfigError as error:
            raise ConfigError(f"line {number}: {error.message}") from None


def _runs(root: Path) -> Iterator[RunDir]:
    """Those of a pack; what a series could not read is not in it."""
    if root.suffix == ".json":
        raise ConfigError("a pack of a sheet: only runs have figures of drives")
    if not is_series(root):
        yield RunDir(root)
        return
    for name in dict.fromkeys(run.run for build in read_series(root).builds for run in build.runs):
        if (root.parent / name).is_dir():
            yield RunDir(root.parent / name)
