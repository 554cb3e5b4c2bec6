"""Bytes that a plan writes before the measurement, and its minimum duration. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.config.tables.age_table import filled_to
from kit.plan.plan import Plan
from kit.precondition import budget
from kit.precondition.selection import selected_devices
from kit.sizes.workload_sizes import layout_of, pool_bytes, special_part_of_set

# Assumed write rates in bytes per second: of a disk, and of a fast SSD.
RATES_BYTES = (100_000_000, 1_000_000_000)


@dataclass(frozen=True)
class PlannedWrites:
    """Bytes written to a device, or to all of a role, before the measurement.

    `at_once`: so many devices are written at the same time, each an equal part.
    """

    device: str
    min_bytes: int
    max_bytes: int
    text: str
    at_once: int = 1


def written(plan: Plan) -> list[PlannedWrites]:
    """The amounts, without those of the phases."""
    return [*preconditioned(plan), *filled(plan)]


def preconditioned(plan: Plan) -> list[PlannedWrites]:
    """What ages each device; a device that was aged is not aged again."""
    amounts, settings = [], plan.workload.precondition
    for device in selected_devices(settings, plan.testbed):
        assert settings is not None
        needed = budget.effort(settings, device.size)
        text = f"preconditioning, {settings.method}"
        amounts.append(PlannedWrites(device.name, needed.min_bytes, needed.max_bytes, text))
    return amounts


def filled(plan: Plan) -> list[PlannedWrites]:
    """The files that are read and written."""
    if plan.workload.on_devices:
        return []
    data, size = plan.testbed.devices("data"), plan.workload.file_set.size
    if not data:
        return [PlannedWrites("export", size, size, "working set")]
    on_special, copies = special_part_of_set(plan.workload, plan.testbed)
    text = "working set, with mirrors and parity, without metadata"
    made = []
    if age := plan.workload.pool.age:
        part = filled_to(pool_bytes(plan.workload, plan.testbed)) / 100
        full = int(sum(each.size for each in data) * part)
        made.append(PlannedWrites("data devices", full, full, f"the pool's age, {age.text}", len(data)))
    if special := int(size * on_special * copies):
        count = len(plan.testbed.devices("special"))
        made.append(PlannedWrites("special devices", special, special, text, count))
    stored = layout_of(plan.workload, plan.testbed).written_bytes(int(size * (1 - on_special)))
    return [*made, *([PlannedWrites("data devices", stored, stored, text, len(data))] if stored else [])]


def seconds(plan: Plan) -> tuple[float, float]:
    """Minimum duration with the faster and with the slower rate of RATES_BYTES."""
    workload = plan.workload
    load_ns = sum(map(workload.expected_ns, workload.phase))
    load_ns += workload.warmup.duration if workload.warmup else 0
    least = sum(amount.min_bytes / amount.at_once for amount in written(plan))
    slow, fast = RATES_BYTES
    return load_ns / 1e9 + least / fast, load_ns / 1e9 + least / slow
