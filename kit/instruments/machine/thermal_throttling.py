"""Thermal throttling of x86 CPUs, by their counters before and after a phase. Pure but for `read`.

Source: therm_throt.c of Linux (drivers/thermal/intel, once arch/x86/kernel/cpu/mce), which makes
/sys/devices/system/cpu/cpuN/thermal_throttle/{core,package}_throttle_count and, since Linux 5.6,
..._throttle_total_time_ms. The kernel adds the time when the CPU is cool again. So throttling that has not
ended has a count and no time, and throttling that begins before a phase and ends after it has neither.
Hosts without these files (most guests, AMD, ARM) have no counters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.hosts.base import Host
from kit.instruments.base import minus, split_tail
from kit.store.phase import Check

SOURCE = "/sys/devices/system/cpu/cpu*/thermal_throttle"
# More throttling than this falsifies latencies; the same limit as for steal time.
THROTTLED_SHARE = 0.01
_DEADLINE_S = 60.0
# `tail -v` prints the name of each file. The second part is only recorded: temperatures of CPUs, by the names
# of their drivers.
_SCRIPT = """\
exec 2>/dev/null
cd /sys/devices/system/cpu && tail -v -n +1 cpu[0-9]*/thermal_throttle/*_throttle_count \
  cpu[0-9]*/thermal_throttle/*_throttle_total_time_ms
for chip in /sys/class/hwmon/hwmon*; do
  case $(cat "$chip/name") in
    coretemp|k10temp|zenpower|cpu_thermal) tail -v -n +1 "$chip/temp1_input" ;;
  esac
done
true
"""
_COUNTER = re.compile(r"(cpu\d+)/thermal_throttle/(core|package)_throttle_(count|total_time_ms)")
_TEMPERATURE = re.compile(r"/sys/class/hwmon/hwmon\d+/temp1_input")
_NUMBER = re.compile(r"\d{1,20}", re.ASCII)


@dataclass(frozen=True)
class Throttling:
    """Sums since boot, by CPU and level ("cpu0/core"); `hottest_mdegc`: of all CPUs, in 1/1000 °C."""

    counts: dict[str, int]
    times_ms: dict[str, int]
    hottest_mdegc: int | None = None


@dataclass(frozen=True)
class ThrottlingChange:
    """The maximum over all CPUs, not the sum: each CPU of a package counts an event of the package, and both
    threads of a core count one of the core.

    `unmeasured`: events of unknown duration; `time_ms`: None if the kernel has no times.
    """

    events: int
    unmeasured: int
    time_ms: int | None


def read(host: Host) -> Throttling:
    """Read the counters. Raises ValueError for malformed counters, HostError."""
    # Without sudo (`env`): every user may read these.
    return parse(host.run(["env", "sh", "-c", _SCRIPT], deadline_s=_DEADLINE_S, check=False).stdout)


def parse(text: str) -> Throttling:
    """From the output of `tail -v`. Raises ValueError for malformed counters."""
    counts: dict[str, int] = {}
    times_ms: dict[str, int] = {}
    temperatures = []
    for path, content in split_tail(text).items():
        value = content.strip()
        if match := _COUNTER.fullmatch(path):
            if not _NUMBER.fullmatch(value):
                raise ValueError(f"{path} has {value[:40]!r}, which is not a count")
            (counts if match[3] == "count" else times_ms)[f"{match[1]}/{match[2]}"] = int(value)
        elif _TEMPERATURE.fullmatch(path) and _NUMBER.fullmatch(value):
            temperatures.append(int(value))
    return Throttling(counts, times_ms, max(temperatures, default=None))


def change(before: Throttling, after: Throttling) -> ThrottlingChange:
    """The change of the counters. Raises ValueError with the reason if it is not available."""
    if not before.counts and not after.counts:
        raise ValueError("not available: this host has no such counters")
    if before.counts.keys() != after.counts.keys() or before.times_ms.keys() != after.times_ms.keys():
        raise ValueError("not available: not the same CPUs before and after")
    events, times_ms = minus(after.counts, before.counts), minus(after.times_ms, before.times_ms)
    if min([*events.values(), *times_ms.values()]) < 0:
        raise ValueError("not available: a counter went back")
    unmeasured = [count for key, count in events.items() if not times_ms.get(key)]
    return ThrottlingChange(
        max(events.values()), max(unmeasured, default=0), max(times_ms.values(), default=None)
    )


def checks(change: ThrottlingChange, host: str, duration_ns: int) -> list[Check]:
    """`duration_ns`: of the load, on the host's clock. An event of unknown duration never passes."""
    made = []
    if change.time_ms is not None:
        most_ms = int(duration_ns * THROTTLED_SHARE) // 1_000_000
        source = f"{SOURCE}/*_throttle_total_time_ms"
        name = f"thermal throttling of {host}, in ms"
        made.append(Check.of_counts("THERMAL", name, source, 0, change.time_ms, most_ms, of=host))
    name = f"thermal throttling of {host}, events of unknown duration"
    source = f"{SOURCE}/*_throttle_count"
    return [*made, Check.of_counts("THERMAL", name, source, 0, change.unmeasured, of=host)]


def describe(change: ThrottlingChange, host: str) -> str:
    """Text of the event on the time axis; empty without throttling."""
    if not change.events and not change.time_ms:
        return ""
    known = change.time_ms and not change.unmeasured
    duration = f"for {change.time_ms} ms" if known else "of unknown duration"
    return f"thermal throttling of {host} {duration} ({change.events} events)"
