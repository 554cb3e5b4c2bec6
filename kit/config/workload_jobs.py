"""The fio jobs of a workload: the job files, with the options that the workload has itself; its captures."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit.config import named_files
from kit.config.fio_job import DEVICE, FioJob, FioSection, read_job, with_options
from kit.config.tables.capacity_table import NO_LIMIT_NS, OpenJob, ReplayJob
from kit.config.tables.force_table import ForceJob
from kit.config.tables.tree_table import MetadataJob, Tree
from kit.config.toml import Place, Setting, nearest, placed_refusal
from kit.config.toml_lines import KeyPath
from kit.config.tree_shape import Shape, read_list
from kit.config.workload_base import WorkloadSource, tables_of
from kit.core.errors import ConfigError
from kit.core.own_file import read_own
from kit.core.text import commas

if TYPE_CHECKING:
    from kit.config.workload import Workload
    from kit.store.load.capture import Capture

_INTERVALS, _MOST_INTERVAL_MS = 60, 1000


def read_jobs(workload: Workload, source: WorkloadSource) -> dict[str, FioJob]:
    """The checked jobs of the phases and of the warm-up, by Phase.load. Raises ConfigError."""
    shared = _placed(workload.job, ("job",), source)
    loads: dict[str, tuple[KeyPath, str, dict[str, tuple[str, Place]]]] = {}
    jobs: dict[str, FioJob] = {}
    listed = _listed(workload.tree, source)
    for number, phase in enumerate(workload.phase):
        if made := _without_file(workload, number, listed, source):
            jobs[phase.load] = made
            continue
        own = _placed(phase.options, ("phase", number, "options"), source)
        loads.setdefault(phase.load, (("phase", number, "job"), phase.job, {**shared, **own}))
    if workload.warmup:
        loads.setdefault(workload.warmup.job, (("warmup", "job"), workload.warmup.job, shared))
    for load, (key, name, options) in sorted(loads.items()):
        # As in the schema: phases have no number there.
        kind = ".".join("[]" if isinstance(part, int) else part for part in key)
        by, file_ = source.place_of(key)[0], source.file_beside(f"workload.{kind}", key, name)
        if not os.path.lexists(file_):
            beside = sorted(path.name for path in file_.parent.glob("*.fio"))
            source.refuse(key, f"{file_}: no such file, {nearest(name, beside, 'there are')}")
        jobs[load] = job = with_options(read_job(file_, by), options)
        on_devices = any(phase.load == load and phase.on_devices for phase in workload.phase)
        for section in job.sections:
            _check_file(section, "" if on_devices else workload.file_set.file)
    return jobs


def _listed(tree: Tree | None, source: WorkloadSource) -> Shape | None:
    """The tree of a list."""
    if tree is None or tree.list is None:
        return None
    key: KeyPath = ("tree", "list")
    return read_list(source.file_beside("workload.tree.list", key, tree.list), source.place_of(key)[0])


def _without_file(
    workload: Workload, number: int, listed: Shape | None, source: WorkloadSource
) -> FioJob | None:
    """The load of a phase that has no job file; None of one that has."""
    phase = workload.phase[number]
    if phase.force:
        return ForceJob.of(phase.force, source.place_of(("phase", number, "force")))
    if phase.open:
        file = "" if phase.on_devices else workload.file_set.file
        given = workload.capacity.p99_max if workload.capacity else NO_LIMIT_NS
        place = source.place_of(("phase", number, "open"))
        return OpenJob.of(phase.open, file, phase.open.p99_max or given, place)
    if phase.replay:
        capture = _capture(phase.replay.capture, number, source)
        if phase.replay.unstable == "refuse" and any(capture.unforced):
            writes, commits = map(commas, capture.unforced)
            source.refuse(
                ("phase", number, "replay", "capture"),
                f"it has {writes} unstable writes and {commits} COMMITs, which a load past the client's page "
                'cache cannot repeat: unstable = "force" makes stable writes of them, without COMMITs',
            )
        return ReplayJob.of(phase.replay, workload.file_set.file, capture)
    if phase.metadata and workload.tree:
        before = [each.metadata for each in workload.phase[:number] if each.metadata]
        return MetadataJob.of(phase.metadata, workload.tree, before, workload.nfs.version, listed)
    return None


def _check_file(section: FioSection, working_set: str) -> None:
    """Raises ConfigError if it is not the working set; "": not the device."""
    file = section.options.get("filename")
    wanted = working_set or DEVICE
    if file != wanted:
        text = f"but the working set is the file '{wanted}'"
        if not working_set:
            text = "but the phases go to devices"
        found = "is missing" if file is None else f"is {file!r}"
        text = f"[{section.name}] filename {found}, {text}: write filename={wanted}"
        raise placed_refusal([(section.place_of("filename"), text)])


def _placed(
    options: Mapping[str, Setting], table: KeyPath, source: WorkloadSource
) -> dict[str, tuple[str, Place]]:
    return {name: (str(value), source.place_of((*table, name))) for name, value in options.items()}


def _capture(name: str, number: int, source: WorkloadSource) -> Capture:
    """The capture of a phase: beside the workload, or wherever a person says. Raises ConfigError."""
    # They bring polars and ZIP, which other workloads do not need.
    from kit.pack.archive import is_pack
    from kit.store.load import capture

    key: KeyPath = ("phase", number, "replay", "capture")
    by = source.place_of(key)[0]
    # By a person, not by a file: `--set replay.capture=...`
    is_asked = key in source.set_at and os.fspath(by).startswith("--set ")
    path = Path(name) if is_asked else source.file_beside("workload.phase.[].replay.capture", key, name)
    if path.is_dir():
        path /= capture.NAME
    try:
        if not is_asked:
            read = named_files.content(path, by, capture.MOST_BYTES)
        elif is_pack(path):
            read = _from_pack(path, capture.NAME, capture.MOST_BYTES)
        else:
            read = read_own(path, capture.MOST_BYTES)
    except FileNotFoundError:
        source.refuse(
            key,
            f"{path}: no capture: `hsp observe --capture` makes one in its run's directory, and `hsp pack "
            "--keep capture` puts it into a pack",
        )
    except OSError as error:
        source.refuse(key, f"{path}: {error.strerror or error}")
    return capture.capture_of(read, path)


def _from_pack(path: Path, name: str, most_bytes: int) -> bytes:
    """A file of a pack. Raises ConfigError, FileNotFoundError."""
    from kit.pack.opened import opened_files

    try:
        with opened_files(path, (name,)) as root:
            return read_own(root / name, most_bytes)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message}", error.hint) from None


def with_captures(source: WorkloadSource) -> WorkloadSource:
    """The workload with what follows from its captures: how long phases last, how large the working set is.

    Raises ConfigError.
    """
    document, sizes = {**source.document}, []
    phases = [{**each} for each in tables_of(document.get("phase"))]
    for number, phase in enumerate(phases):
        table = phase.get("replay")
        if not (isinstance(table, dict) and isinstance(table.get("capture"), str)):
            continue
        capture = _capture(table["capture"], number, source)
        speed = table.get("speed", 1)
        if type(speed) not in (int, float) or not 0 < speed < math.inf:
            continue  # refused when it is validated
        lasts_ms = max(1, math.ceil(capture.span_ns / speed / 1e6))
        interval_ms = min(_MOST_INTERVAL_MS, -(-lasts_ms // _INTERVALS))
        phase.setdefault("interval", f"{interval_ms}ms")
        phase["duration"] = f"{-(-lasts_ms // interval_ms) * interval_ms}ms"
        sizes.append(capture.placed[1])
    if not sizes:
        return source
    given = document.get("working_set")
    if isinstance(given, dict):
        document["working_set"] = {**given, "size": f"{max(sizes)}B"}
    return replace(source, document={**document, "phase": phases})
