"""The fio jobs of a workload: the job files, with the options that the workload has itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kit.config.fio_job import FioJob, read_job, with_options
from kit.config.toml import Place, nearest, placed_refusal
from kit.config.toml_lines import KeyPath
from kit.config.workload import Setting, Workload
from kit.config.workload_source import WorkloadSource


def read_jobs(workload: Workload, source: WorkloadSource) -> dict[str, FioJob]:
    """The checked jobs of the phases and of the warm-up, by Phase.load. Raises ConfigError."""
    shared = _placed(workload.job, ("job",), source)
    loads: dict[str, tuple[KeyPath, str, dict[str, tuple[str, Place]]]] = {}
    for number, phase in enumerate(workload.phase):
        own = _placed(phase.options, ("phase", number, "options"), source)
        loads.setdefault(phase.load, (("phase", number, "job"), phase.job, {**shared, **own}))
    if workload.warmup:
        loads.setdefault(workload.warmup.job, (("warmup", "job"), workload.warmup.job, shared))
    jobs = {}
    for load, (key, name, options) in sorted(loads.items()):
        if Path(name).name != name:
            source.refuse(key, f"'{name}' is a path; name a file beside the workload")
        file_ = source.file_beside(key, name)
        if not file_.exists():
            beside = sorted(path.name for path in file_.parent.glob("*.fio"))
            source.refuse(key, f"{file_}: no such file, {nearest(name, beside, 'there are')}")
        jobs[load] = job = with_options(read_job(file_), options)
        for section in job.sections:
            file = section.options.get("filename")
            if file != workload.working_set.file:
                place = section.place_of("filename")
                text = f"but the working set is the file '{workload.working_set.file}'"
                advice = f"write filename={workload.working_set.file}"
                found = "is missing" if file is None else f"is {file!r}"
                raise placed_refusal([(place, f"[{section.name}] filename {found}, {text}: {advice}")])
    return jobs


def _placed(
    options: Mapping[str, Setting], table: KeyPath, source: WorkloadSource
) -> dict[str, tuple[str, Place]]:
    return {name: (str(value), source.place_of((*table, name))) for name, value in options.items()}
