"""Stages of preconditioning, and their fio loads. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kit.config.tables.precondition_table import Precondition
from kit.load import block_device
from kit.load.block_device import Load
from kit.precondition import budget


def stages(settings: Precondition) -> Iterator[str]:
    """Names of all possible stages, in order."""
    yield "purge"
    yield from (f"fill {number}" for number in range(1, settings.passes + 1))
    yield from (f"round {number}" for number in range(1, settings.rounds + 1))


def probe_loads(path: str, capacity: int, settings: Precondition) -> list[Load]:
    """Loads of the probe: sequential writes, and random writes if there will be rounds."""
    capacity = settings.active_bytes(capacity)
    size = budget.probe_bytes(capacity)
    first = block_device.fill(path, capacity, 1)[0]
    loads = [replace(first, io_bytes=min(first.io_bytes, size))]
    if settings.rounds:
        part = max(size // 8 // settings.block, 1) * settings.block
        loads.append(block_device.random_writes(path, capacity, settings.block, part, 3))
    return loads


def stage_loads(stage: str, path: str, capacity: int, settings: Precondition) -> list[Load]:
    """Write loads of a stage on the device at `path`, of `capacity` bytes."""
    round_bytes = settings.round_bytes(capacity)
    capacity = settings.active_bytes(capacity)
    kind, _, number = stage.partition(" ")
    if kind == "purge":
        return block_device.fill(path, budget.span_bytes(capacity), 10)
    if kind == "fill":
        return block_device.fill(path, capacity, 1000 + 10 * int(number))
    return [block_device.random_writes(path, capacity, settings.block, round_bytes, 5000 + 10 * int(number))]


def block_of(settings: Precondition, op: str) -> int:
    """Block size of the measured op, in bytes."""
    return settings.read_block if op == "read" else settings.block


def measured_load(path: str, op: str, span_bytes: int, settings: Precondition, points: int) -> Load:
    """Random reads or sync writes in the first `span_bytes`, at queue depth 1, after a stage.

    `points`: number of earlier measurements.
    """
    block = block_of(settings, op)
    seed = 100_000 + 10 * points + (op == "read")
    span = span_bytes // block * block
    return Load(path, f"rand{op}", block, span, settings.ios * block, seed, sync=op == "write")
