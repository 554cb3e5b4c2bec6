"""What OpenZFS counts of the calls to its file systems, around the tracer of a whole machine.

Source: /proc/spl/kstat/zfs/POOL/objset-* of each mounted dataset; a snapshot has none (OpenZFS 2.1 to 2.4,
module/zfs/dataset_kstats.c). `reads` and `writes` grow by one at the end of zfs_read and zfs_write, for
every caller: not for calls of no bytes, reads at the end of a file and writes that fail, but for most reads
that fail. They grow, too, for each page of a mapped file (zfs_getpage, zfs_putpage), for extended attributes
that are files, and for files that `zfs rewrite` writes anew; the tracer counts the first two apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kit.core.errors import HostError
from kit.hosts.base import Host
from kit.instruments.arc_zil_counters import ARCSTATS, ZIL, parse_kstat
from kit.instruments.base import read_files
from kit.instruments.server_activity import KSTATS
from kit.observe import counters
from kit.store.phase import Check, Missing
from kit.trace.local import BESIDE, EMPTY, FAILED, LATE, MAPPED, LocalCounts
from kit.trace.output import Trace, place_of

FIND_CALLS = (
    "find", KSTATS, "-mindepth", "2", "-name", "objset-*",
    "-exec", "grep", "-HE", "^(dataset_name|reads|writes) ", "{}", "+",
)  # fmt: skip
"""argv that prints the counters of all datasets; there may be many thousands."""
_VALUE = re.compile(
    rf"^({KSTATS}/.+/objset-0x[0-9a-f]+):(dataset_name|reads|writes) +[0-9]+ +(.*)$", re.MULTILINE
)
_COUNTERS = {"read": "reads", "write": "writes"}


@dataclass(frozen=True)
class LocalCounters(counters.KernelCounters):
    """And `calls`, by dataset and op."""

    calls: dict[tuple[str, str], int]


def read(server: Host) -> LocalCounters:
    """Read the counters. Raises HostError if one is missing."""
    files = read_files(server, [ARCSTATS, ZIL])
    calls = parse_calls(server.run(FIND_CALLS, check=False).stdout)
    try:
        return LocalCounters(parse_kstat(files[ARCSTATS]), parse_kstat(files[ZIL]), calls)
    except (KeyError, ValueError, IndexError) as error:
        raise HostError(
            f"the counters of OpenZFS of {server.name} cannot be read ({error!r})",
            f"is the module zfs loaded, and is {ARCSTATS} readable?",
        ) from error


def parse_calls(text: str) -> dict[tuple[str, str], int]:
    """By dataset and op, from the output of FIND_CALLS. Raises ValueError."""
    files: dict[str, dict[str, str]] = {}
    for path, name, value in _VALUE.findall(text):
        files.setdefault(path, {})[name] = value
    return {
        (values["dataset_name"], op): int(values[counter])
        for values in files.values()
        if len(values) == 1 + len(_COUNTERS)
        for op, counter in _COUNTERS.items()
    }


def checks(
    around: counters.Around[LocalCounters],
    trace: Trace,
    places: Mapping[str, set[int]],
    tiers: Mapping[tuple[str, str], int],
) -> Iterator[Check | Missing]:
    """The tracer's counts of each dataset against its kstat, and those of ARC and ZIL.

    `places`: numbers of each file system; `tiers`: of calls, by (op, tier).
    """
    counts = trace.local or LocalCounts()
    seen: Counter[tuple[str, int]] = Counter()
    for key, bins in trace.counts.items():
        seen[key[0], place_of(key)] += sum(bins.values())
    # Of all datasets: calls that began before the mark or ended after it, and those of other functions.
    spare = counts.unfinished + counts.of(LATE) + counts.of(BESIDE)
    for name, numbers in places.items():
        for op, counter in _COUNTERS.items():
            title, source = f"{counter} of {name}", f"objset kstat {counter}"
            ends = [each.calls.get((name, op)) for each in (*around.inner, *around.outer)]
            if None in ends:
                why = "a snapshot has no counters" if "@" in name else "its counters came or went meanwhile"
                yield Missing(id="DATASET-CALLS", name=title, source=source, op=op, why=why)
                continue
            low, high = (int(ends[n + 1] or 0) - int(ends[n] or 0) for n in (0, 2))
            own = sum(seen[op, number] for number in numbers)
            besides = sum(counts.of(MAPPED, op, n) + counts.of(FAILED, op, n) for n in numbers)
            found = min(max(own, low - spare - besides), high)
            yield Check.of_counts("DATASET-CALLS", title, source, own, found, op=op)
    yield from counters.kernel_checks(around, tiers)


def observed(trace: Trace) -> dict[str, Any]:
    """Values of kit.store.parts.observed.Observed."""
    counts = trace.local or LocalCounts()
    return {
        "local": True, "failed": counts.of(FAILED),
        "empty": counts.of(EMPTY), "mapped": counts.of(MAPPED), "unfinished": counts.unfinished,
    }  # fmt: skip
