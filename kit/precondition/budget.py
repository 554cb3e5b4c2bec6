"""What preconditioning a device will cost, and whether that is within the budget. Pure.

Bytes are those that the host writes, as a drive's rated endurance (TBW) counts them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kit.config.precondition_table import Precondition
from kit.core.errors import SafetyRefusal
from kit.core.units import format_size_bytes
from kit.load.block_device import FILL_BLOCK
from kit.precondition.steady_state import WINDOW

_MIB = 1 << 20
# After the purge this part of the device is written before reads are measured there: an SSD answers
# reads of what was never written from its map, without reading any flash.
_SPAN_PART, _SPAN_MAX = 16, 256 * _MIB
_PROBE_PART, _PROBE_MAX = 64, 256 * _MIB


@dataclass(frozen=True)
class Effort:
    """Bytes that will be written: in order, and at random places at least and at most."""

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
    """What `settings` will write to a device of that capacity, its probe included."""
    sequential = settings.passes * capacity_bytes + span_bytes(capacity_bytes) + probe_bytes(capacity_bytes)
    one_round = settings.round_bytes(capacity_bytes)
    measured = settings.ios * settings.block

    def at_random(rounds: int) -> int:
        return rounds * one_round + (1 + settings.passes + rounds) * measured

    return Effort(sequential, at_random(min(WINDOW, settings.rounds)), at_random(settings.rounds))


def span_bytes(capacity_bytes: int) -> int:
    """The part of the device that is written after the purge, to be read there."""
    return _part(capacity_bytes, _SPAN_PART, _SPAN_MAX)


def probe_bytes(capacity_bytes: int) -> int:
    """What the probe writes, to know how long the rest will take."""
    return _part(capacity_bytes, _PROBE_PART, _PROBE_MAX)


def _part(capacity_bytes: int, part: int, most: int) -> int:
    wanted = max(min(capacity_bytes // part, most), _MIB)
    return min(wanted, capacity_bytes) // FILL_BLOCK * FILL_BLOCK


def limit_bytes(settings: Precondition, endurance_bytes: int | None) -> int | None:
    """What the budget allows to be written; None without a limit."""
    return settings.budget.bytes_for(endurance_bytes)


def refuse_beyond_bytes(
    name: str, settings: Precondition, capacity_bytes: int, endurance_bytes: int | None
) -> None:
    """Raises SafetyRefusal if even the least that will be written is more than the budget allows."""
    allowed = limit_bytes(settings, endurance_bytes)
    needed = effort(settings, capacity_bytes).min_bytes
    if allowed is not None and needed > allowed:
        share = f", {needed / endurance_bytes:.2%} of its rated endurance" if endurance_bytes else ""
        raise SafetyRefusal(
            f"{name} is not preconditioned: that writes at least {format_size_bytes(needed)}{share}, "
            f"and the budget allows {format_size_bytes(allowed)}",
            "raise precondition.budget if the device may be worn that much, or ask for less",
        )


@dataclass(frozen=True)
class Estimate:
    """How fast the probe was, in bytes per second of the experiment, and how long all will take at least."""

    sequential_rate: float
    random_rate: float | None
    least_ns: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def estimate(work: Effort, sequential_rate: float, random_rate: float | None) -> Estimate:
    """From the probe's rates; `random_rate` is None where nothing is written at random in bulk."""
    least = work.sequential_bytes / sequential_rate
    if random_rate is not None:
        least += work.random_min_bytes / random_rate
    return Estimate(sequential_rate, random_rate, int(least * 1e9))


def refuse_beyond_time(name: str, found: Estimate, settings: Precondition) -> None:
    """Raises SafetyRefusal if the estimate alone is longer than the budget."""
    allowed = settings.budget.time
    if allowed is not None and found.least_ns > allowed:
        raise SafetyRefusal(
            f"{name} is not preconditioned: that takes at least {found.least_ns / 1e9:.3g} s at the "
            f"{found.sequential_rate / 1e6:.3g} MB/s of the probe, the budget allows {allowed / 1e9:.3g} s",
            "raise precondition.budget.time, or ask for less",
        )
