"""Checks of workload and testbed together: combinations that cannot work are refused. Pure."""

from __future__ import annotations

from pathlib import Path

from kit.config.fio_job import FioJob
from kit.config.testbed import Testbed
from kit.config.workload import Expectation, Phase, Workload
from kit.config.workload_source import WorkloadSource
from kit.core.errors import ConfigError
from kit.core.units import format_size_bytes, parse_size_bytes
from kit.nfs import libnfs
from kit.plan import measurable
from kit.plan.appliance_limits import left_out
from kit.precondition import selection

MAX_BYTES = 2**63 - 1
_LEAST_DEVICES = {"stripe": 1, "mirror": 2, "raidz1": 2, "raidz2": 3, "raidz3": 4}


def check(workload: Workload, source: WorkloadSource, testbed: Testbed, jobs: dict[str, FioJob]) -> None:
    """`jobs` by Phase.load. Raises ConfigError, SafetyRefusal (a budget)."""
    path = source.path
    libnfs.check_workload(workload, jobs, path)
    measurable.check(
        workload, source, jobs, is_appliance=testbed.is_appliance, dilation=testbed.clock.dilation
    )
    if testbed.is_appliance:
        _check_appliance(workload, path)
    else:
        _check_server(workload, testbed, jobs, path)
    for expectation in workload.expect:
        _check_expectation(expectation, workload, path)


def _check_server(workload: Workload, testbed: Testbed, jobs: dict[str, FioJob], path: Path) -> None:
    """Checks for a server that the kit sets up."""
    selection.check(workload.precondition, testbed, path)
    _check_layout(workload, testbed, path)
    _check_phases(workload, testbed, jobs, path)
    _check_working_set(workload, testbed, path)


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


def _check_working_set(workload: Workload, testbed: Testbed, path: Path) -> None:
    """Refuses a working set whose size rules out a tier of the workload."""
    size = workload.working_set.size
    tiers = {tier for phase in workload.phase for tier in phase.tiers}
    arc = workload.tunables.get("zfs_arc_max")
    arc_bytes = parse_size_bytes(arc) if isinstance(arc, str) else int(arc or 0)
    most = workload.pool.cache_size or MAX_BYTES
    cache_bytes = sum(min(device.size, most) for device in testbed.devices("cache"))
    size_text = format_size_bytes(size)
    if tiers & {"l2arc", "disk"}:
        if not arc_bytes:
            raise ConfigError(
                f"{path}: tunables: zfs_arc_max is not set, so it is not known whether the working set "
                "fits into the ARC",
                "set zfs_arc_max below working_set.size",
            )
        if size <= arc_bytes:
            raise ConfigError(
                f"{path}: working_set.size: {size_text} fits into the ARC (zfs_arc_max "
                f"{format_size_bytes(arc_bytes)}), so neither L2ARC nor disk would answer",
                "make the working set larger or zfs_arc_max smaller",
            )
    if "disk" in tiers and size <= cache_bytes:
        raise ConfigError(
            f"{path}: working_set.size: {size_text} fits into the cache devices "
            f"({format_size_bytes(cache_bytes)}), so after warm-up no disk would answer",
            "make the working set larger, or use less of the cache devices (pool.cache_size)",
        )
