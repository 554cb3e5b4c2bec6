"""Checks of workload and testbed together: combinations that cannot work are refused. Pure."""

from __future__ import annotations

from pathlib import Path

from kit.config.fio_job import FioJob
from kit.config.testbed import Testbed
from kit.config.workload import Expectation, Phase, Workload
from kit.config.workload_source import WorkloadSource
from kit.core.errors import ConfigError
from kit.core.units import format_mib, format_size_bytes
from kit.nfs import libnfs
from kit.plan import auto_sizes, measurable
from kit.plan.appliance_limits import left_out
from kit.plan.workload_sizes import READ_TIERS, short_tiers, sizes_of, tiers_asked, tunable_bytes
from kit.precondition import selection

MAX_BYTES = 2**63 - 1
_LEAST_DEVICES = {"stripe": 1, "mirror": 2, "raidz1": 2, "raidz2": 3, "raidz3": 4}


def check(workload: Workload, source: WorkloadSource, testbed: Testbed, jobs: dict[str, FioJob]) -> None:
    """`jobs` by Phase.load. Raises ConfigError, SafetyRefusal (a budget)."""
    path = source.path
    libnfs.check_workload(workload, jobs, path)
    measurable.check(workload, source, jobs, is_appliance=testbed.is_appliance)
    if testbed.is_appliance:
        _check_appliance(workload, path)
    else:
        _check_server(workload, source, testbed, jobs)
    for expectation in workload.expect:
        _check_expectation(expectation, workload, path)


def _check_server(
    workload: Workload, source: WorkloadSource, testbed: Testbed, jobs: dict[str, FioJob]
) -> None:
    """Checks for a server that the kit sets up."""
    path = source.path
    selection.check(workload.precondition, testbed, path)
    _check_layout(workload, testbed, path)
    _check_phases(workload, testbed, jobs, path)
    _check_working_set(workload, source, testbed)


def _check_appliance(workload: Workload, path: Path) -> None:
    """At least one phase must be possible without login to the server."""
    if workload.power_loss:
        raise ConfigError(
            f'{path}: [power_loss] needs devices whose power can be cut; the server is host = "none"',
            "remove the table for an appliance",
        )
    skipped = left_out(workload).skipped
    if len(skipped) == len(workload.phase):
        raise ConfigError(
            f'{path}: no phase can be measured on an appliance (server.host = "none")',
            "; ".join(f"{name}: {reason}" for name, reason in skipped.items()),
        )


def _check_layout(workload: Workload, testbed: Testbed, path: Path) -> None:
    count, needed = len(testbed.devices("data")), _LEAST_DEVICES[workload.pool.data]
    if not count:
        raise ConfigError(
            f"the testbed '{testbed.name}' has no device with role = \"data\"; a pool needs at least one",
            "`hsp devices --testbed FILE` shows what its server has",
        )
    if count < needed:
        raise ConfigError(
            f"{path}: pool.data: a {workload.pool.data} needs {needed} data devices, "
            f"the testbed '{testbed.name}' has {count}",
            "add devices of role data to the testbed, or take another layout (pool.data)",
        )
    least = min(device.size for device in testbed.devices("data"))
    room = least if workload.pool.data != "stripe" else least * count
    if workload.working_set.size * 2 > room:
        raise ConfigError(
            f"{path}: working_set.size: {format_size_bytes(workload.working_set.size)} does not fit "
            f"twice into the data devices ({format_size_bytes(room)})",
            "make it smaller, or the data devices larger",
        )


def _check_phases(workload: Workload, testbed: Testbed, jobs: dict[str, FioJob], path: Path) -> None:
    """Each phase's tiers must be able to answer its operations with the devices it has."""
    present = {role for role in ("log", "cache") if testbed.devices(role)}
    for phase in workload.phase:
        if phase.remove:
            if phase.remove not in present:
                raise ConfigError(
                    f"{path}: phase '{phase.name}': remove = \"{phase.remove}\", but the testbed "
                    f"'{testbed.name}' has no {phase.remove} device in this phase",
                    "add such a device to the testbed, or remove this key",
                )
            present.discard(phase.remove)
        _check_tiers(phase, jobs[phase.load], present, path)


def _check_tiers(phase: Phase, job: FioJob, present: set[str], path: Path) -> None:
    where = f"{path}: phase '{phase.name}'"
    tiers = set(phase.tiers)
    reads, writes = "read" in job.operations, "write" in job.operations
    if tiers & {"dram", "l2arc", "disk"} and not reads:
        raise ConfigError(
            f"{where}: its job {phase.job} does not read",
            "remove the tier, or give the phase a job that reads",
        )
    if tiers & {"slog", "pool"} and not (writes and job.is_sync_write):
        raise ConfigError(
            f"{where}: its job {phase.job} does not write synchronously, so no log is written",
            "add sync=dsync to the job",
        )
    if "l2arc" in tiers and "cache" not in present:
        raise ConfigError(
            f"{where}: tier l2arc, but there is no cache device",
            "add a device of role cache to the testbed, or remove the tier from the phase",
        )
    if "slog" in tiers and "log" not in present:
        raise ConfigError(
            f"{where}: tier slog, but there is no log device",
            "add a device of role log to the testbed, or remove the tier from the phase",
        )
    if "pool" in tiers and "log" in present:
        raise ConfigError(
            f"{where}: tier pool, but the log device takes the synchronous writes",
            'add remove = "log" to the phase',
        )


def _check_expectation(expectation: Expectation, workload: Workload, path: Path) -> None:
    phase = next(phase for phase in workload.phase if phase.name == expectation.phase)
    if expectation.layer != "client" and expectation.tier not in phase.tiers:
        raise ConfigError(
            f"{path}: expect: phase '{phase.name}' does not have tier {expectation.tier}, "
            f"only {', '.join(phase.tiers)}",
            "add the tier to the phase, or remove the expectation",
        )


def _check_working_set(workload: Workload, source: WorkloadSource, testbed: Testbed) -> None:
    """Refuses sizes that leave a tier of a phase with too little to be measured."""
    asked, key = tiers_asked(workload), ("working_set", "size")
    if not asked & {"l2arc", "disk"}:
        return
    sizes = sizes_of(workload, testbed)
    if sizes is None:
        source.refuse(
            ("tunables", "zfs_arc_max"),
            "not set, so it is not known how much of the working set the ARC holds: set it, or write "
            '"auto", which chooses sizes for the tiers of the phases',
        )
    for phase, tier, held in short_tiers(workload, sizes):
        remedy = _sizes_that_work(workload, testbed)
        parts = ", ".join(f"{name} {format_mib(held.of(name))}" for name in READ_TIERS)
        source.refuse(
            key,
            f"phase '{phase}' asks for {tier}, but of {format_size_bytes(sizes.working_set)} in records of "
            f"{format_size_bytes(sizes.record)} the tiers would answer: {parts}; {remedy}",
        )


def _sizes_that_work(workload: Workload, testbed: Testbed) -> str:
    """The nearest sizes that hold enough for each tier."""
    works = auto_sizes.resolve(auto_sizes.left_to_plan(workload), testbed)
    if (sizes := sizes_of(works, testbed)) is None or any(short_tiers(works, sizes)):
        return "no sizes would do with the devices of this testbed: larger ones are needed"
    cache = works.pool.cache_size
    needed = {
        "working_set.size": format_size_bytes(sizes.working_set),
        "pool.cache_size": format_size_bytes(cache) if cache else "",
        "tunables.zfs_arc_max": format_size_bytes(tunable_bytes(works, "zfs_arc_max")),
    }
    listed = ", ".join(f'{name} = "{value}"' for name, value in needed.items() if value)
    return f'write {listed}, or "auto" for each'
