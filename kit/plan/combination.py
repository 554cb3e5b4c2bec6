"""Checks of workload and testbed together: combinations that cannot work are refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kit.config.fio_job import FioJob
from kit.config.testbed import Testbed
from kit.config.toml import Place, placed_refusal, read_text
from kit.config.toml_lines import KeyLines, KeyPath
from kit.config.workload import Phase, Workload
from kit.config.workload_source import WorkloadSource
from kit.core.errors import ConfigError, SafetyRefusal
from kit.core.units import format_duration_ns, format_size_bytes, parse_size_bytes
from kit.nfs import libnfs
from kit.plan import expectations, measurable
from kit.plan.appliance_limits import left_out
from kit.precondition import selection

MAX_BYTES = 2**63 - 1
_LEAST_DEVICES = {"stripe": 1, "mirror": 2, "raidz1": 2, "raidz2": 3, "raidz3": 4}
Problems = Iterator[tuple[KeyPath, str]]


def check(
    workload: Workload,
    source: WorkloadSource,
    testbed: Testbed,
    testbed_path: Path,
    jobs: Mapping[str, FioJob],
) -> None:
    """`jobs` by Phase.load. Raises ConfigError with file, line and key, SafetyRefusal (a budget)."""
    measurable.check(workload, source, testbed, jobs)
    problems = libnfs.problems(workload, jobs, source)
    if testbed.is_appliance:
        problems += source.placed(_appliance_problems(workload))
    else:
        problems += source.placed(_server_problems(workload, testbed, jobs))
        problems += _testbed_problems(testbed, testbed_path)
    problems += source.placed(expectations.problems(workload, jobs))
    if problems:
        raise placed_refusal(problems)
    if testbed.is_appliance:
        return
    try:
        selection.check_budget(workload.precondition, testbed)
    except SafetyRefusal as error:
        path, line = source.place_of(("precondition", "budget"))
        raise SafetyRefusal(f"{path}:{line}: precondition.budget: {error.message}", error.hint) from None
    _check_working_set(workload, testbed, source.path)


def _server_problems(workload: Workload, testbed: Testbed, jobs: Mapping[str, FioJob]) -> Problems:
    """Of a server that the kit sets up."""
    yield from selection.problems(workload.precondition, testbed)
    yield from _layout_problems(workload, testbed)
    present = {role for role in ("log", "cache") if testbed.devices(role)}
    for number, phase in enumerate(workload.phase):
        if phase.remove and phase.remove not in present:
            yield (
                ("phase", number, "remove"),
                f"phase '{phase.name}': remove = \"{phase.remove}\", but the testbed '{testbed.name}' has no "
                f"{phase.remove} device in this phase: add one to the testbed, or remove this key",
            )
        present.discard(phase.remove or "")
        for text in _tier_problems(phase, jobs[phase.load], present):
            yield ("phase", number, "tiers"), f"phase '{phase.name}': {text}"
    yield from _warmup_problems(workload, testbed)


def _appliance_problems(workload: Workload) -> Problems:
    """At least one phase must be possible without login to the server."""
    if workload.power_loss:
        yield (
            ("power_loss",),
            'it needs devices whose power can be cut; the server is host = "none": remove the table for an '
            "appliance",
        )
    skipped = left_out(workload).skipped
    if len(skipped) == len(workload.phase):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        yield (
            ("phase", 0),
            f'no phase can be measured on an appliance (server.host = "none"): {reasons}: add a phase '
            "without remove before them",
        )


def _testbed_problems(testbed: Testbed, path: Path) -> list[tuple[Place, str]]:
    if testbed.devices("data"):
        return []
    last = max(0, len(testbed.device) - 1)
    line = KeyLines(read_text(path)).line_of(("device", last) if testbed.device else ("server",))
    text = (
        f"device: the testbed '{testbed.name}' has no device with role = \"data\"; a pool needs at least "
        "one: `hsp devices --testbed FILE` shows what its server has"
    )
    return [((path, line), text)]


def _layout_problems(workload: Workload, testbed: Testbed) -> Problems:
    data, needed = testbed.devices("data"), _LEAST_DEVICES[workload.pool.data]
    if not data:
        return
    if len(data) < needed:
        layouts = [name for name, least in _LEAST_DEVICES.items() if least <= len(data)]
        yield (
            ("pool", "data"),
            f"a {workload.pool.data} needs {needed} data devices, the testbed '{testbed.name}' has "
            f"{len(data)}: add devices of role data to it, or take {' or '.join(layouts)}",
        )
    least = min(device.size for device in data)
    room = least if workload.pool.data != "stripe" else least * len(data)
    if workload.working_set.size * 2 > room:
        yield (
            ("working_set", "size"),
            f"{format_size_bytes(workload.working_set.size)} does not fit twice into the data devices "
            f"({format_size_bytes(room)}): make it smaller, or the data devices larger",
        )


def _tier_problems(phase: Phase, job: FioJob, present: set[str]) -> Iterator[str]:
    """Each tier must be able to answer the phase's operations with the devices it has."""
    tiers = set(phase.tiers)
    reads, writes = "read" in job.operations, "write" in job.operations
    if tiers & {"dram", "l2arc", "disk"} and not reads:
        yield f"its job {phase.job} does not read: remove the tier, or give the phase a job that reads"
    if tiers & {"slog", "pool"} and not (writes and job.is_sync_write):
        yield (
            f"its job {phase.job} does not write synchronously, so no log is written: add sync=dsync to the "
            "job, or remove the tier"
        )
    device = "add a device of role {} to the testbed, or remove the tier from the phase"
    if "l2arc" in tiers and "cache" not in present:
        yield f"tier l2arc, but there is no cache device: {device.format('cache')}"
    if "slog" in tiers and "log" not in present:
        yield f"tier slog, but there is no log device: {device.format('log')}"
    if "pool" in tiers and "log" in present:
        yield 'tier pool, but the log device takes the synchronous writes: add remove = "log" to the phase'


def _warmup_problems(workload: Workload, testbed: Testbed) -> Problems:
    """Conditions of the warm-up that can never hold."""
    warmup, most = workload.warmup, workload.pool.cache_size or MAX_BYTES
    if warmup is None:
        return
    cache_bytes = sum(min(device.size, most) for device in testbed.devices("cache"))
    limits = (("the cache devices have", cache_bytes), ("the working set has", workload.working_set.size))
    name, limit = min(limits, key=lambda each: each[1])
    if warmup.l2arc_min > limit:
        yield (
            ("warmup", "l2arc_min"),
            f"{format_size_bytes(warmup.l2arc_min)} can never be in the L2ARC: {name} "
            f"{format_size_bytes(limit)}: make it smaller"
            + ("" if cache_bytes else ", add a device of role cache, or remove the table [warmup]"),
        )
    if warmup.read_first > workload.working_set.size:
        yield (
            ("warmup", "read_first"),
            f"{format_size_bytes(warmup.read_first)} is more than the working set, "
            f"{format_size_bytes(workload.working_set.size)}: make it smaller",
        )
    if warmup.deadline < warmup.windows * warmup.window:
        yield (
            ("warmup", "deadline"),
            f"{format_duration_ns(warmup.deadline)} is over before {warmup.windows} windows of "
            f"{format_duration_ns(warmup.window)} are: make it longer, or the windows fewer",
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
