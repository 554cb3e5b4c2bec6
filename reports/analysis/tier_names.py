"""What people read for a tier and for the lab: names, nouns of a sentence, the tier below that it saves."""

from __future__ import annotations

# `pool`: a sync write without a log device, whose ZIL is on the disks of the pool.
NAMES = {
    "dram": "DRAM (ARC)",
    "l2arc": "SSD cache (L2ARC)",
    "slog": "log SSD (SLOG)",
    "disk": "disk",
    "pool": "disk",
    "shared": "I/O of another thread",
    "indirect": "disk, metadata first",
    "direct": "disk, past the ARC",
    "all": "all tiers",
}
_SHORT = {"dram": "DRAM", "l2arc": "L2ARC", "slog": "SLOG"}
# Of all that was measured in the built-in lab.
EMULATED = "Emulated lab, not your hardware"
_OPS = {"read": "reads", "write": "writes", "commit": "commits"}
# An SSD tier, the op it serves and the tier that answers without it.
BELOW = {"l2arc": ("read", "disk"), "slog": ("write", "pool")}


def tier_name(tier: str) -> str:
    """The name of a tier for people; that of an unknown tier is its own."""
    return NAMES.get(tier, tier)


def short_name(tier: str, op: str) -> str:
    """The name of a tier in a line with others; of I/Os of all tiers that of their operation."""
    return op_name(op) if tier == "all" else _SHORT.get(tier, tier_name(tier))


def op_name(op: str) -> str:
    """The plural of an operation, for people."""
    return _OPS.get(op, op)
