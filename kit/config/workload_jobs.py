"""The fio jobs of a workload: the job files, with the options that the workload has itself."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kit.config.fio_job import DEVICE, FioJob, FioSection, read_job, with_options
from kit.config.tables.force_table import ForceJob
from kit.config.tables.tree_table import MetadataJob
from kit.config.toml import Place, Setting, nearest, placed_refusal
from kit.config.toml_lines import KeyPath
from kit.config.workload import Workload
from kit.config.workload_base import WorkloadSource


def read_jobs(workload: Workload, source: WorkloadSource) -> dict[str, FioJob]:
    """The checked jobs of the phases and of the warm-up, by Phase.load. Raises ConfigError."""
    shared = _placed(workload.job, ("job",), source)
    loads: dict[str, tuple[KeyPath, str, dict[str, tuple[str, Place]]]] = {}
    jobs: dict[str, FioJob] = {}
    for number, phase in enumerate(workload.phase):
        if phase.force:
            jobs[phase.load] = ForceJob.of(phase.force, source.place_of(("phase", number, "force")))
            continue
        if phase.metadata and workload.tree:
            before = [each.metadata for each in workload.phase[:number] if each.metadata]
            jobs[phase.load] = MetadataJob.of(phase.metadata, workload.tree, before, workload.nfs.version)
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
