"""Whether a FLUSH has reached the devices that hold the commits of the ZIL, in each phase. Pure.

A commit is durable where a FLUSH has reached each device with a volatile write cache. The kernel counts FLUSH
commands in /sys/block/X/stat; those that arrive while one is on its way share the next (block/blk-flush.c).
OpenZFS sends that of a vdev to each of its devices (module/zfs/zio.c, zio_flush). A device that answers FLUSH
and does not do it is not found out here: only a loss of power shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kit.core.text import commas
from kit.store.checks.outcome import Outcome
from kit.store.manifest import Device, Manifest, Vdev
from kit.store.parts.resource_use import DeviceUse
from kit.store.phase import Phase

# Of /sys/module/zfs/parameters: with 1 OpenZFS sends no FLUSH (zfs(4)).
_NO_FLUSH = ("zil_nocacheflush", "zfs_nocacheflush")
# By the tier that answers: the devices that hold a commit of the ZIL, and the sum that has their log blocks.
_HOLDING = {
    "slog": ("log", "ZIL-SLOG-BLOCKS"), "special": ("special", ""), "pool": ("data", "ZIL-POOL-BLOCKS"),
}  # fmt: skip
# What was on its way at both ends of a phase, or with a transaction group, may make a FLUSH answer so many
# times more.
_SPARE = 2
Counts = Mapping[str, int | None]
"""FLUSH commands by device; None: not counted."""


def flush_outcomes(manifest: Manifest) -> Iterator[Outcome]:
    """Of each phase whose commits of the ZIL are on devices with a volatile write cache: that FLUSH came.

    Where a parameter switches FLUSH off, a write cache that is not known may be volatile.
    """
    properties = (manifest.dataset.properties if manifest.dataset else None) or {}
    if not manifest.kind.value.sees_server or properties.get("sync") == "disabled":
        return
    off = _switched_off(manifest)
    for phase in manifest.phases:
        commits = _commits(phase)
        if phase.on_devices or phase.op == "read" or not commits:
            continue
        needed = _needed(manifest, phase, off, commits)
        if texts := [*filter(None, (_unflushed(manifest, phase, *each, off) for each in needed))]:
            yield Outcome.failed("FLUSHES", " ".join(texts), phase.name)
        elif any(None in counts.values() for counts, _ in needed):
            text = "this kernel does not count FLUSH: Linux does since 5.5"
            yield Outcome.absent("FLUSHES", "not available", text, phase.name)
        elif needed:
            yield Outcome.ok("FLUSHES", phase.name)


def _switched_off(manifest: Manifest) -> list[str]:
    """The parameters with which OpenZFS sends no FLUSH for a commit, such as "zil_nocacheflush is 1"."""
    found = {name: manifest.zfs_parameters.get(name) or "0" for name in _NO_FLUSH}
    return [f"{name} is {value}" for name, value in found.items() if value != "0"]


def cache_of(device: Device) -> str | None:
    return (device.settings or {}).get("write_cache")


def _commits(phase: Phase) -> int:
    """Commits of the ZIL; where they were not counted, the I/Os of synchronous writes."""
    commits = sum(each.found for each in phase.checks if each.id == "ZIL-COMMITS")
    if not commits and phase.op == "write" and _tiers(phase) & {*_HOLDING}:
        return phase.client_ios
    return commits


def _tiers(phase: Phase) -> set[str]:
    counted = phase.shares.counts.items() if phase.shares else ()
    return {*phase.expected_tiers, *phase.tiers, *(tier for tier, count in counted if count)}


def roles_of(known: Mapping[str, Device], phase: Phase) -> set[str]:
    """The roles of the devices that hold log blocks of the phase."""
    answered = {each.tier for each in phase.sums if each.op != "read"}
    if "special" in answered:
        # The ZIL counts blocks on special vdevs as those of the pool.
        return {role for tier, (role, _) in _HOLDING.items() if tier in answered}
    tiers, blocks = _tiers(phase), {each.id for each in phase.checks if each.found > 0}
    tiers -= {"special"} if answered else set()
    found = {role for tier, (role, id_) in _HOLDING.items() if tier in tiers or id_ in blocks}
    if found or tiers:
        return found
    # A local load may say nothing of it: the log devices, if they were written.
    used = {known[each.device].role for each in written(phase) if each.device in known}
    return {"log"} & used or {"log", "data"}


def written(phase: Phase) -> list[DeviceUse]:
    return [each for each in phase.devices if each.samples and each.samples[-1].writes]


def _unflushed(manifest: Manifest, phase: Phase, counts: Counts, commits: int, off: Sequence[str]) -> str:
    """Why what was acknowledged is not known to be durable; "" if it is, or if FLUSH is not counted.

    A request waits for a FLUSH that begins after its log block was written, so that a FLUSH answers at most
    all requests that wait. Blocks of a stripe of log devices are on any of them, those of the pool, too. But
    a device that was written gets a FLUSH, for its log blocks or with the transaction group. Each device of a
    mirror or a RAIDZ gets all of its vdev.
    """
    vdevs = by_vdev(manifest, phase, counts)
    requests = (phase.outstanding or commits) * max(1, len(phase.clients))
    waiting = 1 if off else requests * _SPARE
    known = sum(least(counts, vdev) for vdev in vdevs)
    enough = not off if None in counts.values() else known * waiting >= commits
    late = behind(counts, vdevs, requests)
    if enough and not late and not bare(manifest, phase, counts, commits):
        return ""
    short = [name for name, count in counts.items() if not count or name in late] or [*counts]
    got = " and ".join(f"{name} got {_number(counts[name])}" for name in short)
    volatile = [cache_of(each) == "write back" for each in manifest.testbed.devices if each.name in short]
    states = " or ".join(["volatile"] * any(volatile) + ["not known"] * (not all(volatile)))
    why = f" ({', '.join(off)}: OpenZFS sends no FLUSH for a commit)" if off else ""
    for vdev in _vdevs(manifest, late):
        each = " and ".join(f"{name} ({_number(counts[name])})" for name in vdev.devices if name in counts)
        why += f" (a FLUSH of the {vdev.kind} goes to each of its devices: {each})"
    return (
        f"{got} FLUSH commands for {commas(commits)} commits, and "
        f"{'their write caches are' if len(short) > 1 else 'its write cache is'} {states}: whether what was "
        f"acknowledged survives a power loss is not known{why}."
    )


def _number(count: int | None) -> str:
    return "an unknown number of" if count is None else commas(count)


def _vdevs(manifest: Manifest, names: Iterable[str]) -> list[Vdev]:
    """Vdevs of several devices that have one of these."""
    stored = manifest.pool.vdevs if manifest.pool else ()
    return [vdev for vdev in stored if {*vdev.devices} & {*names}]


def by_vdev(manifest: Manifest, phase: Phase, counts: Counts) -> list[list[str]]:
    """Devices of one vdev together; each by itself in a phase with faults or events: one may be offline."""
    if phase.schedule and phase.schedule.actions:
        return [[name] for name in counts]
    whole = [[name for name in vdev.devices if name in counts] for vdev in _vdevs(manifest, counts)]
    grouped = {name for vdev in whole for name in vdev}
    return [*whole, *([name] for name in counts if name not in grouped)]


def least(counts: Counts, vdev: Iterable[str]) -> int:
    """What each of its devices got; 0 where that is not known of one."""
    return min(counts[name] or 0 for name in vdev)


def behind(counts: Counts, vdevs: Sequence[Sequence[str]], requests: int) -> list[str]:
    """Devices that got fewer than another of their vdev, beyond what so many `requests` can share."""
    found = []
    for vdev in vdevs:
        known = {name: count for name in vdev if (count := counts[name]) is not None}
        most = max(known.values(), default=0)
        found += [name for name, count in known.items() if (count * requests + 1) * _SPARE < most]
    return found


def bare(manifest: Manifest, phase: Phase, counts: Counts, commits: int) -> list[str]:
    """Devices that got no FLUSH at all. Not a data disk with less than its even share of the log blocks.

    Such a disk may have only the beginning of a transaction group, whose FLUSH comes after the phase.
    """
    data, writes = {each.name for each in manifest.testbed.of_role("data")}, Counter[str]()
    for each in written(phase):
        writes[each.device] += each.samples[-1].writes
    without = (name for name, count in counts.items() if count == 0)
    return [name for name in without if name not in data or writes[name] * len(data) >= commits]


def _needed(manifest: Manifest, phase: Phase, off: Sequence[str], commits: int) -> list[tuple[Counts, int]]:
    """FLUSH commands by device that needs them, and the commits that they are for: of log devices, of disks.

    A device without any counters may have been written: that matters where FLUSH is `off`.
    """
    known = {str(each.name): each for each in manifest.testbed.devices}
    found: list[tuple[Counts, int]] = []
    for roles, part in _by_role(roles_of(known, phase), phase, commits):
        needing = {name for name, each in known.items() if each.role in roles and _needs(each, off)}
        uncounted = needing - {each.device for each in phase.devices if each.samples} if off else ()
        counts = flushes([each for each in written(phase) if each.device in needing])
        if every := counts | dict.fromkeys(sorted(uncounted)):
            found.append((every, part))
    return found


def _by_role(roles: set[str], phase: Phase, commits: int) -> list[tuple[set[str], int]]:
    """Commits by the role of the devices that have their log blocks; together where these are not counted."""
    shares = phase.shares.counts if phase.shares else {}
    blocks = {
        role: sum(each.found for each in phase.checks if each.id == id_) or shares.get(tier, 0)
        for tier, (role, id_) in _HOLDING.items()
    }
    every = sum(blocks[role] for role in roles)
    if len(roles) < 2 or not every:
        return [(roles, commits)]
    # A commit may have several blocks, and several commits may share a block.
    return [({role}, commits * blocks[role] // max(every, commits)) for role in sorted(roles) if blocks[role]]


def _needs(device: Device, off: Sequence[str]) -> bool:
    cache = cache_of(device)
    may_be_volatile = cache != "write through" and not device.power_loss_protection
    return cache == "write back" or (bool(off) and may_be_volatile)


def flushes(used: Sequence[DeviceUse]) -> dict[str, int | None]:
    """FLUSH commands by device; a phase that was resumed has a device in each of its parts."""
    counts: dict[str, int | None] = {}
    for each in used:
        before, more = counts.get(each.device, 0), each.samples[-1].flushes
        counts[each.device] = None if before is None or more is None else before + more
    return counts
