"""What a plan writes before anything is measured, and how long it takes at least. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kit.plan.plan import Plan
from kit.precondition import budget
from kit.precondition.selection import wanted_devices

# What is written each second, to say how long writing takes at least: a disk, and a fast SSD.
RATES_BYTES = (100_000_000, 1_000_000_000)


@dataclass(frozen=True)
class Written:
    """Bytes that will be written to a device, or to all of a role, before the measurement."""

    device: str
    min_bytes: int
    max_bytes: int
    text: str


def written(plan: Plan) -> list[Written]:
    """The load itself comes on top."""
    amounts, settings = [], plan.workload.precondition
    for device in wanted_devices(settings, plan.testbed) if settings and settings.writes else ():
        assert settings is not None
        needed = budget.effort(settings, device.size)
        text = f"preconditioning, {settings.method}"
        amounts.append(Written(device.name, needed.min_bytes, needed.max_bytes, text))
    data, size = plan.testbed.devices("data"), plan.workload.working_set.size
    copies = len(data) if plan.workload.pool.data == "mirror" else 1
    what = "data devices" if data else "export"
    amounts.append(Written(what, size * copies, size * copies, "working set, without parity and metadata"))
    return amounts


def seconds(plan: Plan) -> tuple[float, float]:
    """How long it takes at least, if the devices write as fast, or as slowly, as RATES_BYTES."""
    workload = plan.workload
    load_ns = sum(phase.duration for phase in workload.phase)
    load_ns += workload.warmup.duration if workload.warmup else 0
    least = sum(amount.min_bytes for amount in written(plan))
    slow, fast = RATES_BYTES
    return load_ns / 1e9 + least / fast, load_ns / 1e9 + least / slow
