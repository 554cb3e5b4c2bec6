"""A run on an appliance: what its clients can report, and what stays unknown.

From `appliance` of the manifest (docs/formats/results.md); other runs have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kit.core.units import commas, format_binary_bytes
from kit.store.manifest import Manifest
from kit.store.phase import Check, Phase

_MOUNTSTATS = "/proc/self/mountstats"
# Servers of files have as much, and most have far more.
_ANY_MEMORY_BYTES = 2 << 30
UNSEEN = (
    "The server is an appliance and could not be looked into: which tier answered is not known, "
    "nor what else it did meanwhile."
)


def verdict_reason(phases: Sequence[Phase], closes: bool) -> str:
    """The one reason that every run on an appliance has. `closes`: nothing else is wrong."""
    # Those of the clients' clocks and CPUs say nothing of their calls.
    checks = [any(map(_counts_calls, phase.checks)) for phase in phases]
    if not closes or not checks:
        return UNSEEN
    ios = sum(phase.client_ios for phase in phases)
    if not all(checks):
        return f"{UNSEEN} Whether all {commas(ios)} I/Os of clients reached the server is not known either."
    return (
        f"{UNSEEN} What the clients can tell closes: "
        f"each of their {commas(ios)} I/Os was one call that it answered."
    )


def notes(manifest: Manifest) -> Iterator[str]:
    """What answered its reads, probably."""
    size_bytes = (manifest.working_set or {}).get("bytes")
    reads = any(phase.op in ("read", "mixed") for phase in manifest.phases)
    if manifest.appliance and reads and size_bytes and size_bytes <= _ANY_MEMORY_BYTES:
        size = format_binary_bytes(size_bytes)
        yield (
            f"The working set of {size} fits into the memory of any server: the fastest reads were answered "
            "by DRAM, probably. With a larger set (working_set.size) other tiers answer more of them."
        )


def _counts_calls(check: Check) -> bool:
    """Runs stored before checks had an instrument are known by the counter's file."""
    if check.instrument is None:
        return _MOUNTSTATS in check.source
    return check.instrument == "mount-statistics"
