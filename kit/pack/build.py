"""From a stored result to the file of a pack: read, without names, drawn anew."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from kit.core.errors import ConfigError
from kit.core.files import state_dir, write_atomically, writing
from kit.core.own_file import own_directory, read_own
from kit.core.seed import RUN_ID
from kit.pack import archive
from kit.pack.names import KINDS, PackNames
from kit.pack.redact import collect, compared_plan, kept_words, known_json, redacted, redacted_table
from kit.store import tables
from kit.store.json_file import read_json, write_json
from kit.store.load import capture
from kit.store.manifest import Manifest, read_manifest
from kit.store.run_directory import RunDir, named_run
from kit.store.series import Series, is_series, named_series, read_series, run_of
from kit.store.sheet import Sheet
from kit.store.stored import Stored, read_versioned

RAW, CAPTURE = "raw", "capture"
KEPT_FILES = (RAW, CAPTURE)
KEPT_KINDS = (*KINDS, *KEPT_FILES)
_MOST_RAW_BYTES = 1 << 30
_KEY_BYTES = 32
# Draws summary and page from the files of a directory, or the page of a sheet.
Draw = Callable[[Path], None]
_TABLES = (tables.LATENCY, tables.AGEING, tables.KEYS)


@dataclass(frozen=True)
class _Run:
    """A run as it is stored; `plan`: None where there is none; `frames` as in _TABLES."""

    directory: RunDir
    name: str
    manifest: Manifest
    plan: Any
    frames: list[pl.DataFrame]


@dataclass(frozen=True)
class _Packer:
    """`into`: where the files are made; `documents`: JSON values that have names."""

    into: Path
    names: PackNames
    keep: tuple[str, ...]
    draw: Draw
    documents: list[Any] = field(default_factory=list)

    def run(self, path: Path) -> str:
        run = self._read(named_run(path))
        self._settle()
        self._write(run)
        return run.name

    def series(self, path: Path) -> str:
        series, runs = read_series(path), list[_Run]()
        for name in (run.run for build in series.builds for run in build.runs):
            # As one that was not measured, as in reports.analyse_series.
            with suppress(ConfigError):
                runs.append(self._read(run_of(path, name)))
        for axis in series.axes:
            if any(key.startswith(("device", "testbed")) for key in axis.keys):
                for value in axis.values:
                    self.names.add("devices", value)
        self.documents.append(known_json(series))
        self._settle()
        for run in runs:
            self._write(run)
        root = _id_of(path, series.id)
        (self.into / root).mkdir()
        self._write_json(f"{root}/series.json", Series, redacted(self.documents[-1], self.names))
        self.draw(self.into / root)
        return root

    def sheet(self, path: Path) -> str:
        value = read_versioned(path)
        if "candidates" not in value:
            raise ConfigError(
                f"{path}: not a result of `hsp sheet`",
                "name a run, a series, or a file of `hsp sheet ... -o sheet.json`",
            )
        self.documents.append(known_json(Sheet.from_json(value, path)))
        for each in self.documents[-1]["candidates"]:
            self.names.add("devices", each.get("name", ""))
        self._settle()
        self._write_json("sheet.json", Sheet, redacted(self.documents[-1], self.names))
        self.draw(self.into / "sheet.json")
        return "sheet.json"

    def _read(self, run: RunDir) -> _Run:
        manifest, plan = read_manifest(run), run.path / "plan.json"
        frames = [table.read(run) for table in _TABLES]
        served = "pools" if manifest.observed else "hosts"
        for frame, column, kind in zip(
            frames, ("host", "device", "dataset"), (served, "devices", "pools"), strict=True
        ):
            for name in frame[column].unique().to_list():
                self.names.add(kind, name)
        if manifest.observed and not manifest.observed.local:
            for row in manifest.observed.callers:
                self.names.add("hosts", row.caller)
        for option, value in pairwise(manifest.command):
            if option == "--erase-serial":
                self.names.add("serials", value)
        # As exportfs prints them: path, then CLIENT(OPTIONS).
        for line in manifest.export.lines if manifest.export else ():
            place, *clients = re.sub(r"\([^)]*\)", " ", line).split() or [""]
            self.names.add("paths", place)
            for client in clients:
                self.names.add("hosts", client)
        planned = read_json(plan) if os.path.lexists(plan) else None
        self.documents.extend((known_json(manifest), planned))
        return _Run(run, _id_of(run.path, manifest.run), manifest, planned, frames)

    def _settle(self) -> None:
        """All names are known from here on, and the words that stay."""
        for document in self.documents:
            collect(document, self.names)
        self.names.settle()
        for document in self.documents:
            kept_words(document, self.names)

    def _write(self, run: _Run) -> None:
        made = RunDir(self.into / run.name)
        made.path.mkdir()
        stored = redacted(known_json(run.manifest), self.names)
        self._write_json(f"{run.name}/manifest.json", Manifest, stored)
        if run.plan is not None:
            write_json(made.path / archive.SETTINGS, redacted(compared_plan(run.plan), self.names, "plan"))
        for table, frame in zip(_TABLES, run.frames, strict=True):
            if frame.height or table is tables.LATENCY:
                table.write(made, redacted_table(frame, self.names))
        self.draw(made.path)
        stored_capture = run.directory.path / capture.NAME
        if CAPTURE in self.keep and os.path.lexists(stored_capture):
            read = capture.capture_of(read_own(stored_capture, capture.MOST_BYTES), stored_capture)
            capture.write_capture(made.path / capture.NAME, read.rows, read.lost, read.left_out)
        if RAW in self.keep:
            made.raw.mkdir()
            inside = sorted(run.directory.raw.iterdir()) if run.directory.raw.is_dir() else []
            for file in (run.directory.path / "plan.json", run.directory.journal, *inside):
                if os.path.lexists(file):
                    target = made.path / file.relative_to(run.directory.path)
                    with writing(target):
                        target.write_bytes(read_own(file, _MOST_RAW_BYTES))

    def _write_json(self, name: str, kind: type[Stored], value: Any) -> None:
        """A document without names, which is still one. Raises ConfigError."""
        write_json(self.into / name, kind.from_json(value, "the result without names").as_json())


def pack(path: Path, keep: tuple[str, ...], draw: Draw) -> tuple[str, bytes]:
    """Name and content of the pack of a run, a series, or a file of `hsp sheet`.

    `keep`: kinds that stay. Raises ConfigError, HostError.
    """
    names = PackNames(_key(), keep)
    names.add_own()
    with TemporaryDirectory(prefix="hsp-pack-") as temporary:
        packer = _Packer(Path(temporary).resolve(), names, keep, draw)
        if path.is_file():
            root = packer.sheet(path)
        else:
            root = packer.series(named_series(path)) if is_series(path) else packer.run(path)
        found = sorted(each for each in packer.into.rglob("*") if each.is_file())
        files = {os.fspath(each.relative_to(packer.into)): each.read_bytes() for each in found}
    # The name of a file may be that of its device.
    begun = re.match(RUN_ID, path.name)
    stem = (begun[0] if begun else root.removesuffix(".json")) if path.is_file() else root
    return f"{stem}{archive.SUFFIX}", archive.packed(root, keep, files)


def _id_of(path: Path, stored: str | None) -> str:
    """A name that no user chose. Raises ConfigError."""
    pattern = f"(?:series-)?{RUN_ID}"
    found = next((each for each in (stored, path.name) if each and re.fullmatch(pattern, each)), None)
    if not found:
        raise ConfigError(f"{path} has no id such as 20261121T053000Z-ab12cd", "give its directory that name")
    return found


def _key() -> bytes:
    """What digests of names are made with: of this user on this machine, and in no pack. Raises HostError."""
    file = state_dir() / "pack-key"
    own_directory(file.parent)
    if os.path.lexists(file) and len(key := read_own(file, _KEY_BYTES)) == _KEY_BYTES:
        return key
    write_atomically(file, secrets.token_bytes(_KEY_BYTES), mode=0o600)
    return read_own(file, _KEY_BYTES)
