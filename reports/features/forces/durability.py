"""Whether acknowledged writes of a phase are what they seem: durable, and still there. Pure.

A force, or a commit of the ZIL, is durable where a FLUSH has reached each device with a volatile write
cache. O_DSYNC writes to a device are followed by one, too, also after FUA (Linux block/fops.c,
blkdev_write_iter). The kernel counts FLUSH commands in /sys/block/X/stat; those that arrive while one is on
its way share the next (block/blk-flush.c). md sends a FLUSH of an array to each of its members
(drivers/md/md.c, md_flush_request), and has no count of its own. A device that answers FLUSH and does not do
it is not found out here: only a loss of power shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kit.store.checks.outcome import Outcome
from kit.store.manifest import Device, Manifest
from kit.store.parts.resource_use import DeviceUse
from kit.store.phase import Phase

# Of /sys/module/zfs/parameters: with 1 OpenZFS sends no FLUSH (zfs(4)).
_NO_FLUSH = ("zil_nocacheflush", "zfs_nocacheflush")
# By the tier that answers: the devices that hold a commit of the ZIL, and the sum that has their log blocks.
_HOLDING = {"slog": ("log", "ZIL-SLOG-BLOCKS"), "pool": ("data", "ZIL-POOL-BLOCKS")}
# What was on its way at both ends of a phase may make a FLUSH answer so many times more.
_SPARE = 2
Code = Literal["durable", "not-durable", "memory", "unforced", "unknown"]


@dataclass(frozen=True)
class Durability:
    """`why`: a part of a sentence."""

    code: Code
    why: str


def durability(manifest: Manifest, phase: Phase) -> Durability:
    """Of a phase with forced writes."""
    assert phase.forces is not None
    if phase.forces.method == "none":
        return Durability("unforced", "nothing forces its writes: they are in memory")
    dataset = manifest.dataset.properties if manifest.dataset else None
    if not phase.on_devices and (dataset or {}).get("sync") == "disabled":
        return Durability("memory", "sync=disabled: the server answers from memory, and nothing is durable")
    return _flushed(manifest, phase)


def _flushed(manifest: Manifest, phase: Phase) -> Durability:
    """By the write caches of the devices that hold the writes, and the FLUSH commands that reached them."""
    assert phase.forces is not None
    known = {str(each.name): each for each in manifest.testbed.devices}
    holding = _holding(known, phase)
    if not holding:
        return Durability("unknown", "no device is known to hold its writes")
    caches = {each.device: _cache(known.get(each.device, Device())) for each in holding}
    volatile = [each for each in holding if caches[each.device] != "write through"]
    if not volatile:
        return Durability("durable", f"no volatile write cache: {', '.join(caches)}")
    counts = _flushes(volatile)
    names, counted = ", ".join(counts), [count for count in counts.values() if count is not None]
    if len(counted) < len(counts) or any(caches[name] != "write back" for name in counts):
        return Durability("unknown", f"the write cache of {names}, or its FLUSH commands, are not known")
    flushes = min(counted) if phase.array else sum(counted)
    # A force goes to every member of an array. Others share the forces, and each that was written gets some.
    if not phase.array and (bare := _bare(manifest, phase, counts, phase.forces.forces)):
        flushes, names = 0, ", ".join(bare)
    each_of = "each of " if phase.array and len(counts) > 1 else ""
    said = (
        f"{flushes:,} FLUSH commands reached {each_of}{names}, with a volatile write cache, for "
        f"{phase.forces.forces:,} forces"
    )
    # Forces of several threads may share one.
    enough = flushes * phase.forces.threads >= phase.forces.forces
    return Durability("durable" if enough else "not-durable", said)


def _holding(known: Mapping[str, Device], phase: Phase) -> list[DeviceUse]:
    """The devices that hold the writes of a phase: of a pool, those with its log. `known`: of the testbed."""
    used = _written(phase)
    if phase.array:
        # The array itself holds nothing.
        return [each for each in used if each.device in phase.array.members]
    if phase.on_devices:
        return used
    roles = _roles(known, phase)
    return [each for each in used if each.device in known and known[each.device].role in roles]


def flush_outcomes(manifest: Manifest) -> Iterator[Outcome]:
    """Of each phase whose commits of the ZIL are on devices with a volatile write cache: that FLUSH came.

    Where a parameter switches FLUSH off, a write cache that is not known may be volatile.
    """
    properties = (manifest.dataset.properties if manifest.dataset else None) or {}
    if manifest.import_ or manifest.appliance or properties.get("sync") == "disabled":
        return
    off = _switched_off(manifest)
    for phase in manifest.phases:
        commits = _commits(phase)
        if phase.on_devices or phase.op == "read" or not commits:
            continue
        counts = _needed(manifest, phase, off)
        if counts and (text := _unflushed(manifest, phase, counts, commits, off)):
            yield Outcome.failed("FLUSHES", text, phase.name)
        elif None in counts.values():
            text = "this kernel does not count FLUSH: Linux does since 5.5"
            yield Outcome.absent("FLUSHES", "not available", text, phase.name)
        elif counts:
            yield Outcome.ok("FLUSHES", phase.name)


def _switched_off(manifest: Manifest) -> list[str]:
    """The parameters with which OpenZFS sends no FLUSH for a commit, such as "zil_nocacheflush is 1"."""
    parameters = {
        **manifest.modules.get("zfs", {}),
        **{each.name: each.set for each in manifest.tunables if each.set},
    }
    found = {name: parameters.get(name) or "0" for name in _NO_FLUSH}
    return [f"{name} is {value}" for name, value in found.items() if value != "0"]


def _cache(device: Device) -> str | None:
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


def _roles(known: Mapping[str, Device], phase: Phase) -> set[str]:
    """The roles of the devices that hold log blocks of the phase."""
    tiers, blocks = _tiers(phase), {each.id for each in phase.checks if each.found > 0}
    found = {role for tier, (role, id_) in _HOLDING.items() if tier in tiers or id_ in blocks}
    if found or tiers:
        return found
    # A local load may say nothing of it: the log devices, if they were written.
    used = {known[each.device].role for each in _written(phase) if each.device in known}
    return {"log"} & used or {"log", "data"}


def _written(phase: Phase) -> list[DeviceUse]:
    return [each for each in phase.devices if each.samples and each.samples[-1].writes]


def _unflushed(
    manifest: Manifest, phase: Phase, counts: Mapping[str, int | None], commits: int, off: Sequence[str]
) -> str:
    """Why what was acknowledged is not known to be durable; "" if it is, or if FLUSH is not counted.

    A request waits for a FLUSH that begins after its log block was written, so that a FLUSH answers at most
    all requests that wait. Blocks of a stripe of log devices are on any of them, those of the pool, too. But
    a device that was written gets a FLUSH, for its log blocks or with the transaction group.
    """
    known = [count for count in counts.values() if count is not None]
    waiting = 1 if off else (phase.outstanding or commits) * max(1, len(phase.clients)) * _SPARE
    enough = sum(known) * waiting >= commits if len(known) == len(counts) else not off
    if enough and not _bare(manifest, phase, counts, commits):
        return ""
    short = {name: count for name, count in counts.items() if not count} or counts
    got = " and ".join(
        f"{name} got {'an unknown number of' if count is None else f'{count:,}'}"
        for name, count in short.items()
    )
    volatile = [_cache(each) == "write back" for each in manifest.testbed.devices if each.name in short]
    states = " or ".join(["volatile"] * any(volatile) + ["not known"] * (not all(volatile)))
    why = f" ({', '.join(off)}: OpenZFS sends no FLUSH for a commit)" if off else ""
    return (
        f"{got} FLUSH commands for {commits:,} commits, and "
        f"{'their write caches are' if len(short) > 1 else 'its write cache is'} {states}: whether what was "
        f"acknowledged survives a power loss is not known{why}."
    )


def _bare(manifest: Manifest, phase: Phase, counts: Mapping[str, int | None], commits: int) -> list[str]:
    """Devices that got no FLUSH at all. Not a data disk with less than its even share of the log blocks.

    Such a disk may have only the beginning of a transaction group, whose FLUSH comes after the phase.
    """
    data, writes = {each.name for each in manifest.testbed.of_role("data")}, Counter[str]()
    for each in _written(phase):
        writes[each.device] += each.samples[-1].writes
    bare = (name for name, count in counts.items() if count == 0)
    return [name for name in bare if name not in data or writes[name] * len(data) >= commits]


def _needed(manifest: Manifest, phase: Phase, off: Sequence[str]) -> dict[str, int | None]:
    """FLUSH commands by device that needs them; None: not counted.

    A device without any counters may have been written: that matters where FLUSH is `off`.
    """
    known = {str(each.name): each for each in manifest.testbed.devices}
    roles = _roles(known, phase)
    needing = {
        name
        for name, each in known.items()
        if each.role in roles
        and (
            _cache(each) == "write back"
            or (off and _cache(each) != "write through" and not each.power_loss_protection)
        )
    }
    uncounted = needing - {each.device for each in phase.devices if each.samples} if off else ()
    counts = _flushes([each for each in _written(phase) if each.device in needing])
    return counts | dict.fromkeys(sorted(uncounted))


def _flushes(used: Sequence[DeviceUse]) -> dict[str, int | None]:
    """FLUSH commands by device; a phase that was resumed has a device in each of its parts."""
    counts: dict[str, int | None] = {}
    for each in used:
        before, more = counts.get(each.device, 0), each.samples[-1].flushes
        counts[each.device] = None if before is None or more is None else before + more
    return counts


def outcomes(phases: Sequence[Phase]) -> Iterator[Outcome]:
    """Of each phase with forced writes: whether all acknowledged records are there as they were written."""
    for phase in phases:
        if phase.forces is not None:
            text = problem(phase)
            made = Outcome.failed("FORCES-LOST", f"{text}.", phase.name) if text else None
            yield made or Outcome.ok("FORCES-LOST", phase.name)


def problem(phase: Phase) -> str:
    """What was not there when the records were read back; "" if all was."""
    forces = phase.forces
    if forces is None or not (forces.lost or forces.damaged):
        return ""
    left = forces.records - forces.overwritten
    return (
        f"of {left:,} acknowledged records that no later one has replaced, {forces.lost:,} are lost and "
        f"{forces.damaged:,} are damaged"
    )
