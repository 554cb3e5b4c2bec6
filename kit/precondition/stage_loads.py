"""Stages of preconditioning, and their fio loads. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kit.config.tables.precondition_table import Precondition
from kit.load import block_device
from kit.load.block_device import DeviceLoad
from kit.precondition import budget


@dataclass(frozen=True)
class Stage:
    """A stage by its kind and, from 1, its number of this kind. As text it is its name in stored files."""

    kind: Literal["purge", "fill", "round"]
    number: int = 1

    def __str__(self) -> str:
        return self.kind if self.kind == "purge" else f"{self.kind} {self.number}"


def fills(settings: Precondition) -> list[Stage]:
    """The fills of the whole device."""
    return [Stage("fill", number) for number in range(1, settings.passes + 1)]


def rounds(settings: Precondition) -> list[Stage]:
    """All rounds that there may be."""
    return [Stage("round", number) for number in range(1, settings.rounds + 1)]


def stages(settings: Precondition) -> list[Stage]:
    """All possible stages, in order."""
    return [Stage("purge"), *fills(settings), *rounds(settings)]


def probe_loads(path: str, capacity: int, settings: Precondition) -> list[DeviceLoad]:
    """Loads of the probe: sequential writes, and random writes if there will be rounds."""
    capacity = settings.active_bytes(capacity)
    size = budget.probe_bytes(capacity)
    first = block_device.fill(path, capacity, 1)[0]
    loads = [replace(first, io_bytes=min(first.io_bytes, size))]
    if settings.rounds:
        part = max(size // 8 // settings.block, 1) * settings.block
        loads.append(block_device.random_writes(path, capacity, settings.block, part, 3))
    return loads


def stage_loads(stage: Stage, path: str, capacity: int, settings: Precondition) -> list[DeviceLoad]:
    """Write loads of a stage on the device at `path`, of `capacity` bytes."""
    round_bytes = settings.round_bytes(capacity)
    capacity = settings.active_bytes(capacity)
    if stage.kind == "purge":
        return block_device.fill(path, budget.span_bytes(capacity), 10)
    if stage.kind == "fill":
        return block_device.fill(path, capacity, 1000 + 10 * stage.number)
    return [block_device.random_writes(path, capacity, settings.block, round_bytes, 5000 + 10 * stage.number)]


def block_of(settings: Precondition, op: str) -> int:
    """Block size of the measured op, in bytes."""
    return settings.read_block if op == "read" else settings.block


def measured_load(path: str, op: str, span_bytes: int, settings: Precondition, points: int) -> DeviceLoad:
    """Random reads or sync writes in the first `span_bytes`, at queue depth 1, after a stage.

    `points`: number of earlier measurements.
    """
    block = block_of(settings, op)
    seed = 100_000 + 10 * points + (op == "read")
    span = span_bytes // block * block
    return DeviceLoad(path, f"rand{op}", block, span, settings.ios * block, seed, sync=op == "write")
