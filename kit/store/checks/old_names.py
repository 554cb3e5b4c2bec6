"""What a sum is of, by its name: runs that were stored before sums had an id have the name alone.

The only place where the words of a check decide anything.
"""

from __future__ import annotations

import re
from typing import Any

from kit.store.checks.ids import UNKNOWN_ID

_DIRECTIONS = {"read from": "read", "written to": "write"}
# The first that fits. `op`, `of` and `out_of`: see kit.store.phase.Check.
_NAMES = [
    (re.compile(pattern, re.DOTALL), id_)
    for pattern, id_ in (
        (r"NFS (?P<op>\w+) calls(?: answered)?", "NFS-CALLS"),
        (r"NFS (?P<op>\w+) calls of (?P<of>.+)", "NFS-CALLS"),
        (r"bytes of NFS (?P<op>\w+) calls", "NFS-BYTES"),
        (r"NFS (?P<op>\w+) retransmissions and timeouts", "NFS-RETRANSMISSIONS"),
        (r"reads that missed the ARC", "ARC-MISSES"),
        (r"reads from L2ARC", "L2ARC-HITS"),
        (r"reads from DRAM", "ARC-HITS"),
        (r"L2ARC errors", "L2ARC-ERRORS"),
        (r"synchronous writes", "ZIL-COMMITS"),
        (
            r"bytes on a log without a COMMIT, of (?P<out_of>\d{1,18}) written asynchronously",
            "ZIL-ASYNC-BYTES",
        ),
        (r"bytes on a log without a COMMIT, of .+", "ZIL-ASYNC-BYTES"),
        (r"log blocks on the log device", "ZIL-SLOG-BLOCKS"),
        (r"log blocks in the pool", "ZIL-POOL-BLOCKS"),
        (r"indirect writes", "ZIL-INDIRECT"),
        (r"ZIL stalls and errors", "ZIL-ERRORS"),
        (r"trimmed extents", "TRIM"),
        (r"direct I/O, past the ARC", "DIRECT-IO"),
        (r"I/Os of another pool, (?P<of>.+)", "OTHER-POOL"),
        (r"CPU steal time.*", "CPU-STEAL"),
        (r"bytes (?P<way>read from|written to) the members of the (?P<of>.+)", "ARRAY-BYTES"),
        (r"bytes (?P<way>read from|written to) (?P<of>.+)", "DEVICE-BYTES"),
        (r"thermal throttling of (?P<of>.+?)(?:, in ms|, events of unknown duration)?", "THERMAL"),
        (r"wall clock step of (?P<of>.+?)(?:, in us)?", "CLOCK-STEP"),
        (r"I/Os by tier", "TIERS-TRACED"),
        (r"latency at the server", "SERVER-LATENCY"),
        (r"counters of part .+", "PART-COUNTERS"),
        (r"resource use of (?P<of>.+)", "USE-SAMPLES"),
    )
]


def has_unit(name: str) -> bool:
    """Whether the numbers of a sum without a known id are no I/Os."""
    return ", in " in name


def subject_of(name: str) -> dict[str, Any]:
    """`id`, and `op`, `of` and `out_of` where the name has them."""
    for pattern, id_ in _NAMES:
        if found := pattern.fullmatch(name):
            parts = {key: value for key, value in found.groupdict().items() if value is not None}
            if way := parts.pop("way", None):
                parts["op"] = _DIRECTIONS[way]
            elif "op" in parts:
                parts["op"] = parts["op"].lower()
            return {"id": id_, **parts, **({"out_of": int(parts["out_of"])} if "out_of" in parts else {})}
    return {"id": UNKNOWN_ID}
