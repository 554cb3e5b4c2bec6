"""Steps of a host's wall clock, and time that it slept through. Pure but for `read`.

What NTP does gradually (frequency, adjtime) goes into CLOCK_MONOTONIC just as into CLOCK_REALTIME: the kernel
derives both from one clock that it speeds up and slows down, and keeps their difference
(kernel/time/timekeeping.c, offs_real). Setting the time, a step of an NTP daemon and a leap second change
the difference; so does suspending, which CLOCK_BOOTTIME, too, has and CLOCK_MONOTONIC has not. So
CLOCK_REALTIME - CLOCK_BOOTTIME is the same number until somebody steps the clock, however fast it is slewed
and however long that takes: nothing has to be allowed for but the error of the reading.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.store.phase import Check

SOURCE = "CLOCK_REALTIME - CLOCK_BOOTTIME"
# Latencies, and the place of I/Os on the time axis, are of monotonic clocks. Scrubs are placed by the wall
# clock, which tells them to a second. Nor is a leap second more; the rest is for errors of reading it.
MOST_NS = 1_001_000_000
_DEADLINE_S = 60.0
# The offsets themselves, as root; quicker to have than an interpreter. Of clock bases whose timers come
# before, a busy CPU has some hundred lines.
_TIMER_LIST = ["head", "-n", "1000", "/proc/timer_list"]
_REALTIME, _BOOTTIME = 1, 2  # enum hrtimer_base_type
# For everybody else: the best of many readings. One clock after another, between two of the monotonic one.
_PROGRAM = """\
import time
def look():
    now = time.clock_gettime_ns
    return [now(c) for c in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME, time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC)]
print("clocks", *min((look() for _ in range(32)), key=lambda seen: seen[3] - seen[0]))
"""  # noqa: E501
_PYTHON = ["env", "python3", "-I", "-S", "-c", _PROGRAM]
_READINGS = re.compile(r"^clocks(?: (-?\d{1,20})){4}$", re.MULTILINE | re.ASCII)
_LINE = re.compile(r"\s*\.(index|offset):\s+(\d{1,20})(?: nsecs)?", re.ASCII)


@dataclass(frozen=True)
class WallClock:
    """CLOCK_REALTIME and CLOCK_BOOTTIME minus CLOCK_MONOTONIC, and how wrong that may be (all in ns)."""

    real_ns: int
    boot_ns: int
    error_ns: int = 0


@dataclass(frozen=True)
class Change:
    """Between two moments, in ns: how far the wall clock was set forward, and how long the host slept.

    What may be an error of the readings is 0.
    """

    step_ns: int
    slept_ns: int


def read(host: Host) -> WallClock:
    """Now. Raises HostError."""
    for command, parse in ((_TIMER_LIST, parse_timer_list), (_PYTHON, parse_readings)):
        found = parse(host.run(command, deadline_s=_DEADLINE_S, check=False).stdout)
        if found:
            return found
    raise HostError(
        f"{host.name}: its wall clock cannot be read, neither from /proc/timer_list nor with python3",
        "the kit needs python3 on every host that it logs into",
    )


def parse_timer_list(text: str) -> WallClock | None:
    """From the clock bases of the first CPU (kernel/time/timer_list.c); None where they are not told."""
    offsets: dict[int, int] = {}
    index = None
    for line in text.splitlines():
        named = _LINE.fullmatch(line)
        if named and named[1] == "index":
            index = int(named[2])
        elif named and index is not None:
            # Those of other CPUs follow and are the same. The kernel prints them without a sign.
            value = int(named[2])
            offsets.setdefault(index, value - (1 << 64) if value >= 1 << 63 else value)
            index = None
    if _REALTIME not in offsets or _BOOTTIME not in offsets:
        return None
    return WallClock(offsets[_REALTIME], offsets[_BOOTTIME])


def parse_readings(text: str) -> WallClock | None:
    """From what the program prints; None for anything else."""
    line = _READINGS.search(text)
    if line is None:
        return None
    began, real, boot, ended = (int(word) for word in line[0].split()[1:])
    if ended < began:
        return None
    # Of two clocks that were both read somewhere in between.
    return WallClock(real - began, boot - began, ended - began)


def change(before: WallClock, after: WallClock) -> Change:
    """What was done to the clock in between."""
    error_ns = before.error_ns + after.error_ns
    slept_ns = after.boot_ns - before.boot_ns
    step_ns = after.real_ns - before.real_ns - slept_ns
    return Change(
        step_ns if abs(step_ns) > error_ns else 0,
        slept_ns if slept_ns > error_ns else 0,
    )


def check(found: Change, host: str) -> Check:
    """Whether the step is small enough."""
    # Of numbers below zero the integer division would make larger ones.
    step_us = abs(found.step_ns) // 1000 * (1 if found.step_ns > 0 else -1)
    return Check.of(f"wall clock of {host} set forward, in us", SOURCE, 0, step_us, MOST_NS // 1000)
