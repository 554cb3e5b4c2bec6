"""Steps of a host's wall clock, and suspends. Pure but for `read`.

CLOCK_REALTIME - CLOCK_BOOTTIME changes only if somebody sets the wall clock: by hand, by a step of an NTP
daemon, by a leap second. Slewing (NTP's frequency and adjtime) does not change it: the kernel derives all
clocks from one slewed clock (kernel/time/timekeeping.c, offs_real). A suspend does not change it: both clocks
include it. So only the error of the readings needs a tolerance.
CLOCK_BOOTTIME - CLOCK_MONOTONIC is the time in suspend.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.store.phase import Check

SOURCE = "CLOCK_REALTIME - CLOCK_BOOTTIME"
# Latencies and times of I/Os come from monotonic clocks. Only scrubs are placed by the wall clock, with a
# resolution of a second. A leap second passes, too; the rest is for errors of the readings.
MOST_NS = 1_001_000_000
_DEADLINE_S = 60.0
# The offsets themselves, for root; faster than to start Python. The timers of earlier clock bases take some
# hundred lines on a busy CPU.
_TIMER_LIST = ["head", "-n", "1000", "/proc/timer_list"]
_REALTIME, _BOOTTIME = 1, 2  # enum hrtimer_base_type
# For other users: the best of 32 readings of the clocks, each between two of the monotonic clock.
_PROGRAM = """\
import time
def read():
    ns = time.clock_gettime_ns
    return [ns(c) for c in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME, time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC)]
print("clocks", *min((read() for _ in range(32)), key=lambda times: times[3] - times[0]))
"""  # noqa: E501
_PYTHON = ["env", "python3", "-I", "-S", "-c", _PROGRAM]
_READINGS = re.compile(r"^clocks(?: (-?\d{1,20})){4}$", re.MULTILINE | re.ASCII)
# At most three lines are between index and offset of a clock base.
_BASE = re.compile(
    r"\.index:\s+(\d{1,20})\n(?:.*\n){0,3}?\s*\.offset:\s+(\d{1,20}) nsecs$", re.ASCII | re.MULTILINE
)


@dataclass(frozen=True)
class WallClock:
    """CLOCK_REALTIME and CLOCK_BOOTTIME minus CLOCK_MONOTONIC, and the maximum error, in ns."""

    real_ns: int
    boot_ns: int
    error_ns: int = 0


@dataclass(frozen=True)
class ClockChange:
    """How far the wall clock was set forward, and how long the host slept, in ns.

    Values within the error of the readings are 0.
    """

    step_ns: int
    slept_ns: int


def read(host: Host) -> WallClock:
    """Read the clock. Raises HostError."""
    for command, parse in ((_TIMER_LIST, parse_timer_list), (_PYTHON, parse_readings)):
        clock = parse(host.run(command, deadline_s=_DEADLINE_S, check=False).stdout)
        if clock:
            return clock
    raise HostError(
        f"{host.name}: its wall clock cannot be read, neither from /proc/timer_list nor with python3",
        "the kit needs python3 on every host that it logs into",
    )


def parse_timer_list(text: str) -> WallClock | None:
    """From the clock bases of the first CPU (kernel/time/timer_list.c); None if they are missing."""
    offsets: dict[int, int] = {}
    for index, offset in _BASE.findall(text):
        # Other CPUs have the same offsets. The kernel prints them unsigned.
        offsets.setdefault(int(index), int(offset) - (int(offset) >> 63 << 64))
    if _REALTIME not in offsets or _BOOTTIME not in offsets:
        return None
    return WallClock(offsets[_REALTIME], offsets[_BOOTTIME])


def parse_readings(text: str) -> WallClock | None:
    """From the output of the program; None for other text."""
    line = _READINGS.search(text)
    if line is None:
        return None
    began, real, boot, ended = (int(word) for word in line[0].split()[1:])
    if ended < began:
        return None
    # Both clocks were read between `began` and `ended`.
    return WallClock(real - began, boot - began, ended - began)


def change(before: WallClock, after: WallClock) -> ClockChange:
    """The change of the clock between two readings."""
    error_ns = before.error_ns + after.error_ns
    slept_ns = after.boot_ns - before.boot_ns
    step_ns = after.real_ns - before.real_ns - slept_ns
    return ClockChange(
        step_ns if abs(step_ns) > error_ns else 0,
        slept_ns if slept_ns > error_ns else 0,
    )


def check(change: ClockChange, host: str) -> Check:
    """Whether the step is small enough."""
    # Rounds toward zero.
    step_us = abs(change.step_ns) // 1000 * (1 if change.step_ns > 0 else -1)
    return Check.of_counts(
        "CLOCK-STEP", f"wall clock step of {host}, in us", SOURCE, 0, step_us, MOST_NS // 1000, of=host
    )
