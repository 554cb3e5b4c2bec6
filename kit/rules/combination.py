"""Checks of workload and testbed together: combinations that cannot work are refused. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kit.config.fio_job import FioJob
from kit.config.tables.phase_table import Phase
from kit.config.tables.precondition_table import BESIDE_DATA
from kit.config.tables.tree_table import MetadataJob
from kit.config.testbed import Testbed
from kit.config.toml import Place, placed_refusal, read_text
from kit.config.toml_lines import KeyLines, KeyPath, KeyProblems
from kit.config.workload import Pool, Workload
from kit.config.workload_base import WorkloadSource
from kit.core.text import counted
from kit.core.units import format_duration_ns, format_iec, format_size_bytes
from kit.nfs import libnfs
from kit.precondition import selection
from kit.rules import cold, expectations, force, measurable, operations, power, schedule, settings, soak
from kit.rules.appliance_limits import left_out
from kit.sizes import auto_sizes
from kit.sizes.tier_sizes import Tiers
from kit.sizes.workload_sizes import (
    data_room,
    devices_of_special,
    layout_of,
    planned_tiers,
    short_tiers,
    sizes_of,
    special_parts,
    special_takes_data,
    tiers_asked,
    tunable_bytes,
)
from kit.zfs.layout import LEAST_DEVICES, SPECIAL_ROLES, copies, possible_groups, special_vdevs

MAX_BYTES = 2**63 - 1
# ZPOOL_FUZZ of zpool_vdev.c.
_FUZZ_BYTES = 16 << 20


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
    everywhere = [*expectations.problems(workload, jobs), *force.problems(workload, testbed)]
    everywhere += [*soak.problems(workload, testbed, jobs), *power.problems(workload, testbed)]
    problems += source.placed([*everywhere, *schedule.problems(workload, testbed)])
    if problems:
        raise placed_refusal(problems)
    if testbed.is_appliance:
        return
    selection.check_budget(workload.precondition, testbed, source.place_of(("precondition", "budget")))
    _check_working_set(operations.reading(workload, jobs), source, testbed)


def _server_problems(workload: Workload, testbed: Testbed, jobs: Mapping[str, FioJob]) -> KeyProblems:
    """Of a server that the kit sets up."""
    yield from settings.problems(workload, testbed)
    yield from selection.problems(workload.precondition, testbed)
    yield from _layout_problems(workload, testbed, jobs)
    yield from operations.property_problems(workload, jobs)
    present: set[str] = {role for role in BESIDE_DATA if testbed.devices(role)}
    for number, phase in enumerate(workload.phase):
        if phase.remove and phase.remove not in present:
            yield (
                ("phase", number, "remove"),
                f"phase '{phase.name}': remove = \"{phase.remove}\", but the testbed '{testbed.name}' has no "
                f"{phase.remove} device in this phase: add one to the testbed, or remove this key",
            )
        present.discard(phase.remove or "")
        if workload.nfs.engine == "libnfs" and not phase.over_nfs:
            yield (
                ("phase", number, "target"),
                f'"{phase.target}": with nfs.engine = "libnfs" all loads go through libnfs: give this '
                "phase a workload of its own",
            )
        sync = workload.dataset.properties.get("sync", "standard")
        forced = operations.forced_problems(phase, sync)
        of_tiers = _tier_problems(phase, jobs[phase.load], present)
        for text in cold.problems(phase, jobs[phase.load].operations, present, testbed.name):
            yield ("phase", number, "restart" if phase.restart else "cold"), f"phase '{phase.name}': {text}"
        for text in cold.restart_problems(workload, testbed, number) if phase.restart else ():
            yield ("phase", number, "restart"), f"phase '{phase.name}': {text}"
        for text in (*of_tiers, *_special_problems(workload, testbed, phase, jobs[phase.load]), *forced):
            yield ("phase", number, "tiers"), f"phase '{phase.name}': {text}"
    yield from _warmup_problems(workload, testbed)


def _appliance_problems(workload: Workload) -> KeyProblems:
    """At least one phase must be possible without login to the server."""
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
        "one: `hsp host disks --testbed FILE` shows what its server has"
    )
    return [((path, line), text)]


def _layout_problems(workload: Workload, testbed: Testbed, jobs: Mapping[str, FioJob]) -> KeyProblems:
    logs = len(testbed.devices("log"))
    if workload.pool.log == "mirror" and logs < 2:
        yield (
            ("pool", "log"),
            f"a mirror needs 2 log devices, the testbed '{testbed.name}' has {logs}: add devices of role log "
            'to it, or write log = "stripe"',
        )
    data = len(testbed.devices("data"))
    if not data:
        return
    if problem := _group_problem(workload.pool, testbed):
        yield problem
        return
    width = copies(workload.pool.data, data, workload.pool.groups)
    for role in SPECIAL_ROLES:
        if (found := len(testbed.devices(role))) % width:
            yield (
                ("pool", "data"),
                f"a {workload.pool.data} of data devices needs {role} vdevs that may lose as many devices: "
                f"mirrors of {width}; the testbed '{testbed.name}' has {counted(found, f'{role} device')}: "
                f"add {width - found % width}, or remove {found % width}",
            )
    yield from _unequal(workload, testbed)
    room = data_room(workload, testbed)
    yield from _tree_problems(jobs, len(testbed.client), room)
    if workload.file_set.size * 2 > room:
        yield (
            ("working_set", "size"),
            f"{format_size_bytes(workload.file_set.size)} does not fit twice into the data devices "
            f"({format_size_bytes(room)}): make it smaller, or the data devices larger",
        )


def _tree_problems(jobs: Mapping[str, FioJob], clients: int, room: int) -> KeyProblems:
    # All are of the one tree of the workload.
    job = next((each for each in jobs.values() if isinstance(each, MetadataJob)), None)
    made = clients * job.extent.total_bytes if job else 0
    if job and made * 2 > room:
        yield (
            ("tree", "list" if job.listed else "files"),
            f"files of {format_iec(made)} in all do not fit twice into the data devices "
            f"({format_iec(room)}): make them fewer or smaller",
        )


def _unequal(workload: Workload, testbed: Testbed) -> KeyProblems:
    """Special vdevs of devices that differ: `zpool create` refuses them (zpool_vdev.c, get_replication)."""
    pool, data = workload.pool, len(testbed.devices("data"))
    for role in SPECIAL_ROLES:
        most = pool.special_size if role == "special" else None
        for vdev in special_vdevs(pool.data, data, pool.groups, testbed.devices(role)):
            sizes = {device.name: min(device.size, most or device.size) for device in vdev}
            if max(sizes.values()) - min(sizes.values()) > _FUZZ_BYTES:
                listed = " and ".join(f"{name} {format_size_bytes(size)}" for name, size in sizes.items())
                remedy = "take devices of one size"
                if role == "special":
                    part = format_size_bytes(min(sizes.values()) >> 20 << 20)
                    remedy += f', or write special_size = "{part}"'
                yield ("pool", "special_size"), f"one {role} vdev of unequal devices, {listed}: {remedy}"


def _group_problem(pool: Pool, testbed: Testbed) -> tuple[KeyPath, str] | None:
    """Why the data devices cannot be divided into the vdevs of the layout; None if they can."""
    count, kind, needed = len(testbed.devices("data")), pool.data, LEAST_DEVICES[pool.data]
    possible = possible_groups(kind, count)
    if not possible:
        layouts = [name for name, least in LEAST_DEVICES.items() if least <= count]
        return (
            ("pool", "data"),
            f"a {kind} needs {needed} data devices, the testbed '{testbed.name}' has {count}: add devices of "
            f"role data to it, or take {' or '.join(layouts)}",
        )
    if pool.groups in possible:
        return None
    if kind == "stripe":
        text = 'data = "stripe" has no groups: each device is a vdev of its own'
    elif count % pool.groups:
        text = f"{count} data devices cannot be divided into {pool.groups} groups of equal size"
    else:
        text = (
            f"a {kind} needs {needed} data devices in each group, {count} in {pool.groups} groups are "
            f"{count // pool.groups} each"
        )
    nearest = min(possible, key=lambda groups: abs(groups - pool.groups))
    return ("pool", "groups"), f"groups = {pool.groups}: {text}: write groups = {nearest}"


def _tier_problems(phase: Phase, job: FioJob, present: set[str]) -> Iterator[str]:
    """Each tier must be able to answer the phase's operations with the devices it has."""
    tiers = set(phase.tiers)
    yield from operations.tier_problems(phase, job)
    for tier, role in (("l2arc", "cache"), ("slog", "log"), ("special", "special")):
        if tier in tiers and role not in present:
            yield (
                f"tier {tier}, but there is no {role} device: add a device of role {role} to the testbed, or "
                "remove the tier from the phase"
            )
    of_log = tiers & {"pool", "special"} if "read" not in job.operations else tiers & {"pool"}
    if of_log and "log" in present:
        yield (
            f"tier {min(of_log)}, but the log device takes the synchronous writes: add "
            'remove = "log" to the phase'
        )


def _special_problems(workload: Workload, testbed: Testbed, phase: Phase, job: FioJob) -> Iterator[str]:
    """Reads of records that are too large for special vdevs."""
    if "special" not in phase.tiers or "read" not in job.operations:
        return
    if devices_of_special(workload, testbed) and not special_takes_data(workload, testbed):
        record = format_size_bytes(layout_of(workload, testbed).record)
        yield (
            f"tier special, but records of {record} lie on the data devices: write "
            f'special_small_blocks = "{record}" into dataset.properties, or remove the tier'
        )


def _warmup_problems(workload: Workload, testbed: Testbed) -> KeyProblems:
    """Conditions of the warm-up that can never hold."""
    warmup, most = workload.warmup, workload.pool.cache_size or MAX_BYTES
    if warmup is None:
        return
    cache_bytes = sum(min(device.size, most) for device in testbed.devices("cache"))
    if warmup.l2arc_min > cache_bytes:
        yield (
            ("warmup", "l2arc_min"),
            f"{format_size_bytes(warmup.l2arc_min)} can never be in the L2ARC: the cache devices have "
            f"{format_size_bytes(cache_bytes)}: make it smaller"
            + ("" if cache_bytes else ", add a device of role cache, or remove the table [warmup]"),
        )
    if warmup.read_first > workload.file_set.size:
        yield (
            ("warmup", "read_first"),
            f"{format_size_bytes(warmup.read_first)} is more than the working set, "
            f"{format_size_bytes(workload.file_set.size)}: make it smaller",
        )
    if warmup.deadline < warmup.windows * warmup.window:
        yield (
            ("warmup", "deadline"),
            f"{format_duration_ns(warmup.deadline)} is over before {warmup.windows} windows of "
            f"{format_duration_ns(warmup.window)} are: make it longer, or the windows fewer",
        )


def _check_working_set(workload: Workload, source: WorkloadSource, testbed: Testbed) -> None:
    """Refuses sizes that leave a tier of a phase with too little to be measured."""
    asked, key = tiers_asked(workload), ("working_set", "size")
    if not asked - {"dram"}:
        return
    sizes = sizes_of(workload, testbed)
    if sizes is None:
        source.refuse(
            ("tunables", "zfs_arc_max"),
            "not set, so it is not known how much of the working set the ARC holds: set it, or write "
            '"auto", which chooses sizes for the tiers of the phases',
        )
    if text := _in_devices_dram(workload, testbed, planned_tiers(workload, testbed)):
        source.refuse(key, text)
    for phase, tier, held in short_tiers(workload, sizes):
        remedy = _sizes_that_work(workload, testbed)
        source.refuse(
            key,
            f"phase '{phase}' asks for {tier}, but of {format_size_bytes(sizes.working_set)} in records of "
            f"{format_size_bytes(sizes.record)} the tiers would answer: {held.words}; {remedy}",
        )


def _in_devices_dram(workload: Workload, testbed: Testbed, held: Tiers | None) -> str:
    """Why reads would be answered by DRAM inside the devices; "" if they are not, or it is not known."""
    asked = tiers_asked(workload)
    size_bytes, data = workload.file_set.size, testbed.devices("data")
    share = layout_of(workload, testbed).device_bytes(size_bytes)
    stored = [("disk", device, share) for device in data]
    vdevs = len(special_parts(workload, testbed))
    stored += [("special", each, held.special // vdevs) for each in testbed.devices("special") if held]
    caches = testbed.devices("cache")
    stored += [("l2arc", device, held.l2arc // len(caches)) for device in caches if held]
    for tier, device, stored_bytes in stored:
        if tier in asked and 0 < stored_bytes <= device.read_cache:
            return (
                f"{format_size_bytes(size_bytes)} puts {format_iec(stored_bytes)} on the device "
                f"'{device.name}', which holds all of it in its own DRAM "
                f"({format_size_bytes(device.read_cache)}): {tier} would be that DRAM: make it larger"
            )
    return ""


def _sizes_that_work(workload: Workload, testbed: Testbed) -> str:
    """The nearest sizes that hold enough for each tier."""
    works = auto_sizes.resolve(auto_sizes.left_to_plan(workload), testbed)
    if (sizes := sizes_of(works, testbed)) is None or any(short_tiers(works, sizes)):
        return "no sizes would do with the devices of this testbed: larger ones are needed"
    cache = works.pool.cache_size
    special = works.pool.special_size
    needed = {
        "working_set.size": format_size_bytes(sizes.working_set),
        "pool.special_size": format_size_bytes(special) if special else "",
        "pool.cache_size": format_size_bytes(cache) if cache else "",
        "tunables.zfs_arc_max": format_size_bytes(tunable_bytes(works, "zfs_arc_max")),
    }
    listed = ", ".join(f'{name} = "{value}"' for name, value in needed.items() if value)
    return f'write {listed}, or "auto" for each'
