"""Cost of preconditioning a device (bytes, time), and refusals beyond the budget. Pure.

Bytes are host writes, as in a drive's rated endurance (TBW).
"""

from __future__ import annotations

from dataclasses import dataclass

from kit.config.tables.precondition_table import Precondition
from kit.core.errors import SafetyRefusal
from kit.core.units import format_size_bytes
from kit.load.block_device import FILL_BLOCK
from kit.precondition.steady_state import WINDOW

_MIB = 1 << 20
# After the purge this part of the device is written before reads are measured there: an SSD answers
# reads of unwritten sectors from its map, without reading flash.
_SPAN_PART, _SPAN_MAX = 16, 256 * _MIB
_PROBE_PART, _PROBE_MAX = 64, 256 * _MIB


@dataclass(frozen=True)
class Effort:
    """Bytes that will be written: sequentially, and at random offsets (lower and upper bound)."""

    sequential_bytes: int
    random_min_bytes: int
    random_max_bytes: int

    @property
    def min_bytes(self) -> int:
        return self.sequential_bytes + self.random_min_bytes

    @property
    def max_bytes(self) -> int:
        return self.sequential_bytes + self.random_max_bytes


def effort(settings: Precondition, capacity_bytes: int) -> Effort:
    """Bytes that `settings` will write to a device of that capacity, including the probe."""
    active_bytes = settings.active_bytes(capacity_bytes)
    sequential = settings.passes * active_bytes + span_bytes(active_bytes) + probe_bytes(active_bytes)
    round_bytes = settings.round_bytes(capacity_bytes)
    measured = settings.ios * settings.block

    def random_bytes(rounds: int) -> int:
        return rounds * round_bytes + (1 + settings.passes + rounds) * measured

    return Effort(sequential, random_bytes(min(WINDOW, settings.rounds)), random_bytes(settings.rounds))


def span_bytes(capacity_bytes: int) -> int:
    """Bytes at the start of the device that are written after the purge, for the reads there."""
    return _part(capacity_bytes, _SPAN_PART, _SPAN_MAX)


def probe_bytes(capacity_bytes: int) -> int:
    """Bytes of the probe, which measures the write rate."""
    return _part(capacity_bytes, _PROBE_PART, _PROBE_MAX)


def _part(capacity_bytes: int, divisor: int, max_bytes: int) -> int:
    part_bytes = max(min(capacity_bytes // divisor, max_bytes), _MIB)
    return min(part_bytes, capacity_bytes) // FILL_BLOCK * FILL_BLOCK


def refuse_beyond_bytes(
    name: str, settings: Precondition, capacity_bytes: int, endurance_bytes: int | None
) -> None:
    """Raises SafetyRefusal if even the lower bound of the writes exceeds the budget."""
    allowed = settings.budget.bytes_for(endurance_bytes)
    needed = effort(settings, capacity_bytes).min_bytes
    if allowed is not None and needed > allowed:
        share = f", {needed / endurance_bytes:.2%} of its rated endurance" if endurance_bytes else ""
        raise SafetyRefusal(
            f"{name} is not preconditioned: that writes at least {format_size_bytes(needed)}{share}, "
            f"and the budget allows {format_size_bytes(allowed)}",
            "raise precondition.budget if that wear is acceptable, or write less",
        )


@dataclass(frozen=True)
class Estimate:
    """Rates of the probe in bytes per second (experiment time), and the shortest time for all writes."""

    sequential_rate: float
    random_rate: float | None
    least_ns: int


def estimate(work: Effort, sequential_rate: float, random_rate: float | None) -> Estimate:
    """Estimate the time from the probe's rates; `random_rate` is None if there are no rounds."""
    least = work.sequential_bytes / sequential_rate
    if random_rate is not None:
        least += work.random_min_bytes / random_rate
    return Estimate(sequential_rate, random_rate, int(least * 1e9))


def refuse_beyond_time(name: str, expected: Estimate, settings: Precondition) -> None:
    """Raises SafetyRefusal if the estimated time exceeds the budget."""
    allowed = settings.budget.time
    if allowed is not None and expected.least_ns > allowed:
        raise SafetyRefusal(
            f"{name} is not preconditioned: that takes at least {expected.least_ns / 1e9:.3g} s at the "
            f"{expected.sequential_rate / 1e6:.3g} MB/s of the probe; the budget is {allowed / 1e9:.3g} s",
            "raise precondition.budget.time, or write less",
        )
