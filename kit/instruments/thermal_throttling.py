"""A CPU that is too hot and holds itself back: x86's own counters, before and after. Pure but for `read`.

Source: therm_throt.c of Linux (drivers/thermal/intel, once arch/x86/kernel/cpu/mce), which makes
/sys/devices/system/cpu/cpuN/thermal_throttle/{core,package}_throttle_count and, since Linux 5.6,
..._throttle_total_time_ms. A time is added when the CPU is cool again. So a throttling that lasts has a
count and no time yet, and one that began before a phase and ends after it has neither.
Hosts without these files (most guests, AMD, ARM) cannot tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.hosts.base import Host
from kit.store.phase import Check

SOURCE = "/sys/devices/system/cpu/cpu*/thermal_throttle"
# Held back for longer than this, a CPU is another one than that which is measured; as for stolen time.
THROTTLED_SHARE = 0.01
_DEADLINE_S = 60.0
# Each file's name beside its content. The second part is for the record alone: temperatures of CPUs, by the
# names of their drivers.
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
_HEADER = re.compile(r"^==> (\S+) <==$", re.MULTILINE)
_COUNTER = re.compile(r"(cpu\d+)/thermal_throttle/(core|package)_throttle_(count|total_time_ms)")
_TEMPERATURE = re.compile(r"/sys/class/hwmon/hwmon\d+/temp1_input")
_NUMBER = re.compile(r"\d{1,20}", re.ASCII)


@dataclass(frozen=True)
class Throttling:
    """Since the host's start, by CPU and level ("cpu0/core"); `hottest_mdegc`: its CPUs, in 1/1000 °C."""

    counts: dict[str, int]
    times_ms: dict[str, int]
    hottest_mdegc: int | None = None


@dataclass(frozen=True)
class Change:
    """What the CPU saw that saw most: every CPU of a package counts the same event of the package, and
    both threads of a core that of the core, so that a sum would have it many times.

    `unmeasured`: events of which no time is known; `time_ms`: None where the kernel keeps no times.
    """

    events: int
    unmeasured: int
    time_ms: int | None


def read(host: Host) -> Throttling:
    """Now. Raises ValueError, in words, for counters that are none, and HostError."""
    # As the user: everybody may read these, and a client's sudo has no shell.
    return parse(host.run(["env", "sh", "-c", _SCRIPT], deadline_s=_DEADLINE_S, check=False).stdout)


def parse(text: str) -> Throttling:
    """From files as `tail -v` joins them. Raises ValueError for a counter that is no number."""
    parts = _HEADER.split(text)[1:]
    counts: dict[str, int] = {}
    times_ms: dict[str, int] = {}
    temperatures = []
    for path, content in zip(parts[::2], parts[1::2], strict=True):
        value = content.strip()
        if named := _COUNTER.fullmatch(path):
            if not _NUMBER.fullmatch(value):
                raise ValueError(f"{path} has {value[:40]!r}, which is no count")
            (counts if named[3] == "count" else times_ms)[f"{named[1]}/{named[2]}"] = int(value)
        elif _TEMPERATURE.fullmatch(path) and _NUMBER.fullmatch(value):
            temperatures.append(int(value))
    return Throttling(counts, times_ms, max(temperatures, default=None))


def change(before: Throttling, after: Throttling) -> Change:
    """What was added in between. Raises ValueError, in words, if that cannot be told."""
    if not before.counts and not after.counts:
        raise ValueError("not available: this host does not count it")
    if before.counts.keys() != after.counts.keys() or before.times_ms.keys() != after.times_ms.keys():
        raise ValueError("not available: not the same CPUs counted before and after")
    events = {key: after.counts[key] - count for key, count in before.counts.items()}
    times_ms = {key: after.times_ms[key] - time for key, time in before.times_ms.items()}
    if min([*events.values(), *times_ms.values()]) < 0:
        raise ValueError("not available: a counter went back")
    unmeasured = [count for key, count in events.items() if not times_ms.get(key)]
    return Change(max(events.values()), max(unmeasured, default=0), max(times_ms.values(), default=None))


def checks(found: Change, host: str, duration_ns: int) -> list[Check]:
    """`duration_ns`: how long the load was to last, on the host's clock.

    An event without a time lasted, for all that is known, until the end.
    """
    made = []
    if found.time_ms is not None:
        most_ms = int(duration_ns * THROTTLED_SHARE) // 1_000_000
        source = f"{SOURCE}/*_throttle_total_time_ms"
        made.append(Check.of(f"CPU of {host} held back by heat, in ms", source, 0, found.time_ms, most_ms))
    name = f"CPU of {host} held back by heat, times of unknown length"
    return [*made, Check.of(name, f"{SOURCE}/*_throttle_count", 0, found.unmeasured, 0)]


def words(found: Change, host: str) -> str:
    """For the time axis; empty if there was none."""
    if not found.events and not found.time_ms:
        return ""
    lasted = "for an unknown time" if found.unmeasured or not found.time_ms else f"for {found.time_ms} ms"
    return f"CPU of {host} held back by heat {lasted} ({found.events} times)"
