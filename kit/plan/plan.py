"""The plan: workload and testbed together, checked before any contact with a host.

A plan is a value: it can be shown, hashed and stored. Combinations that cannot work are refused here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kit.config.fio_job import FioJob, on_clock
from kit.config.tables.fault_table import Fault
from kit.config.testbed import Testbed, client_key
from kit.config.toml import Place
from kit.config.toml_lines import KeyPath
from kit.config.workload import Workload
from kit.config.workload_base import WorkloadSource, read_source
from kit.config.workload_jobs import read_jobs
from kit.core.errors import ConfigError
from kit.plan import client_logs, durations, notes
from kit.rules import combination, device_phases, expectations, operations
from kit.sizes import auto_sizes
from kit.zfs.tunables import PlannedTunable, tunable

_PLANNED = ("format", "workload_file", "testbed_file", "hosts", "ssh_config", "workload", "testbed", "jobs")


@dataclass(frozen=True)
class Plan:
    """`jobs` holds the checked fio jobs by Phase.load."""

    workload: Workload
    testbed: Testbed
    jobs: dict[str, FioJob]
    tunables: tuple[PlannedTunable, ...]
    workload_file: str
    testbed_file: str
    # Paths of workload and testbed, and --set of the command line. Not part of the digest.
    sources: tuple[str, str] = ("", "")
    sets: tuple[str, ...] = ()
    # The only device of `hsp slog`.
    device: str = ""
    # What this testbed cannot have, for people.
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Identifies the plan."""
        return str(self.as_json()["digest"])

    @property
    def notes(self) -> list[str]:
        """What is no mistake, but decides what the numbers mean."""
        of_loads = notes.of(self.workload, self.jobs, len(self.testbed.client))
        return [*self.left_out, *of_loads, *notes.of_server(self.workload, self.testbed)]

    @property
    def is_traced(self) -> bool:
        """Whether a tracer of nfsd and ZFS is wanted."""
        server = self.testbed.server
        return not self.testbed.is_appliance and self.workload.over_nfs and server.trace == "auto"

    @property
    def has_phases_in_dataset(self) -> bool:
        """Whether a load runs on the server, in the dataset: the tracer follows requests over NFS alone."""
        return any(phase.target == "dataset" for phase in self.workload.phase)

    @property
    def hosts(self) -> dict[str, str]:
        """Addresses of the hosts, by their keys in the journal."""
        clients = {client_key(number): client.host for number, client in enumerate(self.testbed.client)}
        return {"server": self.testbed.server.host, **clients}

    def as_json(self) -> dict[str, Any]:
        """The content of plan.json."""
        value: dict[str, Any] = {
            "format": 1,
            "workload_file": self.workload_file,
            "testbed_file": self.testbed_file,
            "hosts": self.hosts,
            "ssh_config": self.testbed.ssh_config,
            "workload": self.workload.model_dump(mode="json"),
            "testbed": self.testbed.model_dump(mode="json"),
            "jobs": {name: job.text for name, job in sorted(self.jobs.items())},
        }
        value["digest"] = digest_of(value)
        value["sources"] = list(self.sources)
        if self.sets:
            value["sets"] = list(self.sets)
        if self.device:
            value["device"] = self.device
        return value


def digest_of(value: Mapping[str, Any]) -> str:
    """The digest of a plan.json: of what is measured, not of who asked for it nor of known failures."""
    planned = {key: each for key, each in value.items() if key in _PLANNED}
    workload = planned.get("workload")
    if isinstance(workload, dict):
        planned["workload"] = {key: each for key, each in workload.items() if key != "known"}
    return hashlib.sha256(json.dumps(planned, sort_keys=True).encode()).hexdigest()


def make_plan(
    workload: Workload,
    testbed: Testbed,
    workload_path: Path,
    testbed_path: Path,
    source: WorkloadSource | None = None,
) -> Plan:
    """Read the jobs and check the combination. Raises ConfigError, SafetyRefusal (a budget).

    `source`: the files of the workload, where it is not just what they say.
    """
    source, testbed = source or read_source(workload_path), testbed.without_idle
    workload, source, left_out = _possible(workload, source, testbed)
    jobs = {name: on_clock(job, testbed.clock.dilation) for name, job in read_jobs(workload, source).items()}
    tunables: tuple[PlannedTunable, ...] = ()
    made: list[Workload] = []
    loads: dict[str, FioJob] = {}
    used = testbed
    on_devices, with_pool = (_part(workload, source, jobs, on_devices=of) for of in (True, False))
    if on_devices:
        used = testbed if testbed.is_appliance else device_phases.used(workload, testbed)
        planned, of_devices = _on_devices(*on_devices, used)
        made, loads = [planned], of_devices
    if with_pool:
        used = testbed if workload.over_nfs else testbed.model_copy(update={"client": ()})
        planned, of_pool = _with_pool(*with_pool, used, testbed_path)
        made, loads = [*made, planned], {**loads, **of_pool}
        if not testbed.is_appliance:
            tunables = tuple(tunable(name, value, testbed.clock) for name, value in planned.tunables.items())
    whole = made[-1].model_copy(
        update={
            "phase": tuple(phase for each in made for phase in each.phase),
            "expect": tuple(expectation for each in made for expectation in each.expect),
        }
    )
    sources = os.fspath(workload_path.absolute()), os.fspath(testbed_path.absolute())
    return Plan(
        whole, used, loads, tunables, workload_path.name, testbed_path.name, sources, left_out=left_out
    )


def _possible(
    workload: Workload, source: WorkloadSource, testbed: Testbed
) -> tuple[Workload, WorkloadSource, tuple[str, ...]]:
    """Without the faults that only an emulated device can have, where devices are real; what was left out."""
    gone = [each for each in workload.fault if each.if_emulated and not testbed.is_lab]
    if not gone:
        return workload, source, ()
    kept = [number for number, each in enumerate(workload.fault) if each not in gone]
    places: dict[KeyPath, Place] = {
        ("fault", new, key): source.place_of(("fault", old, key))
        for new, old in enumerate(kept)
        for key in Fault.model_fields
    }
    workload = workload.model_copy(update={"fault": tuple(workload.fault[number] for number in kept)})
    listed = "; ".join(each.text for each in gone)
    note = f"faults that only emulated devices have, left out (if_emulated): {listed}."
    return workload, replace(source, set_at={**source.set_at, **places}), (note,)


_Part = tuple[Workload, WorkloadSource, dict[str, FioJob]]


def _part(
    workload: Workload, source: WorkloadSource, jobs: Mapping[str, FioJob], *, on_devices: bool
) -> _Part | None:
    """The phases on bare devices, or those with a pool; None if there are none."""
    numbers = [n for n, phase in enumerate(workload.phase) if phase.on_devices == on_devices]
    if not numbers:
        return None
    if len(numbers) == len(workload.phase):
        return workload, source, dict(jobs)
    phases = tuple(workload.phase[n] for n in numbers)
    names = {phase.name for phase in phases}
    expect = [n for n, each in enumerate(workload.expect) if each.phase in names]
    given = len(source.document.get("expect", ()))
    part = workload.model_copy(
        update={"phase": phases, "expect": tuple(workload.expect[n] for n in expect)}
        | ({"warmup": None} if on_devices else {})
    )
    return part, source.part(numbers, [n for n in expect if n < given]), _used(jobs, part)


def _used(jobs: Mapping[str, FioJob], workload: Workload) -> dict[str, FioJob]:
    """Those of its phases and of its warm-up."""
    used = {phase.load for phase in workload.phase} | ({workload.warmup.job} if workload.warmup else set())
    return {load: job for load, job in jobs.items() if load in used}


def _with_pool(
    workload: Workload,
    source: WorkloadSource,
    jobs: dict[str, FioJob],
    testbed: Testbed,
    testbed_path: Path,
) -> tuple[Workload, dict[str, FioJob]]:
    """Phases over NFS or in the dataset, as a run measures them, and their jobs by Phase.load."""
    phases = workload.phase
    workload = auto_sizes.resolve(operations.reading(workload, jobs), testbed)
    workload = operations.with_samples(workload.with_phases(phases), source, jobs)
    workload = client_logs.resolved(durations.resolved(workload, testbed), testbed)
    expectations.check_limits(workload, source)
    combination.check(workload, source, testbed, testbed_path, jobs)
    return workload, _used(jobs, workload)


def _on_devices(
    workload: Workload, source: WorkloadSource, jobs: dict[str, FioJob], testbed: Testbed
) -> tuple[Workload, dict[str, FioJob]]:
    """Phases on bare devices, as a run measures them, and their jobs by Phase.load."""
    workload = device_phases.counted_together(durations.resolved(workload, testbed), testbed)
    workload = client_logs.resolved(workload, testbed)
    device_phases.check(workload, source, testbed, jobs)
    return device_phases.expanded(workload, testbed, jobs)


def export_of(plan: Plan) -> str:
    """The appliance's export, in the form of mount(8). Raises ConfigError."""
    export = plan.testbed.server.export
    if export is None:
        raise ConfigError(f"{plan.testbed_file}: server.export is missing", 'such as export = "nas:/pool/x"')
    return export
