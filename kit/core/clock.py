"""Conversion between the experiment's time and a host's clock. No other module converts.

On the `real` clock both are the same. On the `virtual` clock the lab counts instructions
as nanoseconds, and a dilation k makes its CPU look k times faster: an experiment of
duration t lasts k·t on the host's clock, and t measured by the host is t/k.

Source: Gupta et al., "To Infinity and Beyond: Time-Warped Network Emulation", NSDI 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ClockKind = Literal["real", "virtual"]
# Ticks of clocks of computers that are no whole number of ns: ACPI PM (3.579545 MHz), HPET (14.31818 MHz),
# Arm's generic timer at 24 and 19.2 MHz, a clock of 32,768 Hz.
ODD_TICKS_NS = (279.3651, 69.84128, 41.66667, 52.08333, 30517.58)
# All that are looked for: digits of tools besides, the largest first.
TICKS_NS = (*(part * 10.0**n for n in range(7, 0, -1) for part in (1, 0.5)), 1024.0, 40.0, *ODD_TICKS_NS)
# So far, as a part of the tick, latencies may be from its multiples: clocks are adjusted and converted.
JITTER = 1 / 25


@dataclass(frozen=True)
class Clock:
    """`kind` and dilation k (1 on the real clock)."""

    kind: ClockKind = "real"
    dilation: int = 1

    def __post_init__(self) -> None:
        if self.dilation < 1 or (self.kind == "real" and self.dilation != 1):
            raise ValueError(f"a {self.kind} clock cannot have dilation {self.dilation}")

    def to_host_ns(self, experiment_ns: int) -> int:
        """The duration on the host's clock of `experiment_ns` of the experiment's time."""
        return experiment_ns * self.dilation

    def from_host_ns(self, host_ns: int) -> int:
        """The experiment's time of a duration on the host's clock, rounded down."""
        return host_ns // self.dilation
