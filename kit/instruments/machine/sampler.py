"""Commands of the program that samples CPUs and devices. Pure; imports little, as `hsp plan` prints them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.core.clock import Clock

PROGRAM = Path(__file__).parents[2] / "remote" / "sample_resources.py"
SOURCE = "kit/remote/sample_resources.py"
# Over the load, one a second: not more, and not fewer (two are within it, wherever it begins). One more at
# the begin, and at the end. A sample delays the I/Os beside it: of a short load, eight would show in its p99.
FEWEST, MOST = 3, 8
# Of an array: which of its members is busy changes.
OF_ARRAY = 20
# Of caches that get warm: a curve.
OF_CACHES = 60
# What is sampled of caches (kit.store.parts.resource_use.CacheSample): a few of the 100 and more in arcstats.
ARCSTATS = (
    "size", "l2_size", "l2_asize", "l2_hdr_size", "l2_write_bytes", "l2_rebuild_success", "l2_rebuild_size",
    "l2_rebuild_dh_errors", "l2_rebuild_unsupported", "evict_l2_cached", "evict_l2_eligible",
)  # fmt: skip


@dataclass(frozen=True)
class Sampled:
    """A device of the server. `counters`: argv that prints those of its model, None if it has none.

    `is_log`: the ZIL alone writes to it.
    """

    path: str
    counters: Sequence[str] | None = None
    is_log: bool = False


def period_ns(duration_ns: int, clock: Clock, *, of_array: bool = False, of_caches: bool = False) -> int:
    """From a sample to the next on the hosts' clock, for a load of `duration_ns` of the experiment."""
    samples = OF_ARRAY if of_array else min(max(duration_ns // 1_000_000_000, FEWEST), MOST)
    samples = OF_CACHES if of_caches else samples
    return max(1, clock.to_host_ns(duration_ns) // samples)


def command(
    period_ns: int, devices: Mapping[str, Sampled], lock: Sequence[str] = (), *, of_caches: bool = False
) -> list[str]:
    """argv of the program, which is its input, as the user of the login, as it only reads.

    `period_ns` on the host's clock. `of_caches`: with ARCSTATS. `lock`: names of devices whose nodes it
    locks, as root: udev leaves a locked device alone, and does not read it when fio closes it.
    """
    wanted = {name: {"path": each.path, "counters": each.counters} for name, each in devices.items()}
    caches = {"arcstats": [*ARCSTATS]} if of_caches else {}
    argument = json.dumps({"period_ns": period_ns, "devices": wanted, "lock": [*lock], **caches})
    return [*(() if lock else ("env",)), "python3", "-I", "-", argument]


def end_command(pid: str, *, locked: bool = False) -> list[str]:
    """argv that makes it send its last line. `locked`: it locks devices, as root."""
    return [*(() if locked else ("env",)), "kill", "-s", "INT", pid]
