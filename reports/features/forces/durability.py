"""Whether forced writes of a phase are what they seem: durable, and still there. Pure.

A force is durable where a FLUSH has reached each device with a volatile write cache, as a commit of the ZIL
is (`reports.verdict.flushes`). O_DSYNC writes to a device are followed by one, too, also after FUA (Linux
block/fops.c, blkdev_write_iter). md sends a FLUSH of an array to each of its members (drivers/md/md.c,
md_flush_request), and has no count of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kit.core.text import commas
from kit.store.checks.outcome import Outcome
from kit.store.manifest import Device, Manifest
from kit.store.parts.forces import Forces
from kit.store.parts.resource_use import DeviceUse
from kit.store.phase import Phase
from reports.verdict.flushes import Counts, bare, behind, by_vdev, cache_of, flushes, least, roles_of, written

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
    return _flushed(manifest, phase, phase.forces)


def _flushed(manifest: Manifest, phase: Phase, forces: Forces) -> Durability:
    """By the write caches of the devices that hold the writes, and the FLUSH commands that reached them."""
    known = {str(each.name): each for each in manifest.testbed.devices}
    holding = _holding(known, phase)
    if not holding:
        return Durability("unknown", "no device is known to hold its writes")
    caches = {each.device: cache_of(known.get(each.device, Device())) for each in holding}
    volatile = [each for each in holding if caches[each.device] != "write through"]
    if not volatile:
        return Durability("durable", f"no volatile write cache: {', '.join(caches)}")
    counts = flushes(volatile)
    if None in counts.values() or any(caches[name] != "write back" for name in counts):
        return Durability(
            "unknown", f"the write cache of {', '.join(counts)}, or its FLUSH commands, are not known"
        )
    return _of_volatile(manifest, phase, forces, counts)


def _of_volatile(manifest: Manifest, phase: Phase, forces: Forces, counts: Counts) -> Durability:
    """By the FLUSH commands of devices with a volatile write cache."""
    # A force goes to every member of an array and of a vdev. Others share the forces.
    vdevs = [[*counts]] if phase.array else by_vdev(manifest, phase, counts)
    short = behind(counts, vdevs, forces.threads)
    if not short and not phase.array:
        short = bare(manifest, phase, counts, forces.forces)
    reached = least(counts, short) if short else sum(least(counts, vdev) for vdev in vdevs)
    each_of = "each of " if len(vdevs) < len(counts) and not short else ""
    said = (
        f"{commas(reached)} FLUSH commands reached {each_of}{', '.join(short or counts)}, whose write cache "
        f"is volatile, for {commas(forces.forces)} forces"
    )
    # Forces of several threads may share one.
    enough = not short and reached * forces.threads >= forces.forces
    return Durability("durable" if enough else "not-durable", said)


def _holding(known: Mapping[str, Device], phase: Phase) -> list[DeviceUse]:
    """The devices that hold the writes of a phase: of a pool, those with its log. `known`: of the testbed."""
    used = written(phase)
    if phase.array:
        # The array itself holds nothing.
        return [each for each in used if each.device in phase.array.members]
    if phase.on_devices:
        return used
    roles = roles_of(known, phase)
    return [each for each in used if each.device in known and known[each.device].role in roles]


def outcomes(phases: Sequence[Phase]) -> Iterator[Outcome]:
    """Of each phase with forced writes: whether all acknowledged records are there as they were written."""
    for phase in phases:
        if phase.forces is not None and phase.forces.writes:
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
        f"of {commas(left)} acknowledged records that no later one has replaced, {commas(forces.lost)} are "
        f"lost and {commas(forces.damaged or 0)} are damaged"
    )
