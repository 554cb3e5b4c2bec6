"""Properties that a workload may set: those that change how the pool stores and answers. Pure.

All others are refused: some share the data or run files of it beyond the run's clients, some would move what
the kit mounts and removes, and the rest was not looked at. Source: zfsprops(7), zpoolprops(7), 2.1 to 2.4.
"""

from __future__ import annotations

_DATASET = frozenset(
    (
        "aclinherit", "aclmode", "acltype", "atime", "checksum", "compression", "copies", "dedup", "direct",
        "dnodesize", "logbias", "prefetch", "primarycache", "quota", "recordsize", "redundant_metadata",
        "refquota", "refreservation", "relatime", "reservation", "secondarycache", "special_small_blocks",
        "sync", "xattr",
    )
)  # fmt: skip
_POOL = frozenset(
    (
        "ashift", "autoexpand", "autotrim", "comment", "compatibility", "dedup_table_quota", "failmode",
        "listsnapshots",
    )
)  # fmt: skip
_SHARED = "the kit shares the dataset itself, with the run's clients alone"
_MOUNTED = "the kit mounts the dataset itself, in the run's own directory, and removes it there"
_RUNS = "files of a measurement must never run, nor be devices, on the server"
_OWN = "the kit marks its own pools with it"
_KEPT = "the kit keeps its pool out of the server's list, so that no boot imports it"
_REASONS = {
    **dict.fromkeys(("sharenfs", "sharesmb"), _SHARED),
    **dict.fromkeys(("mountpoint", "canmount", "overlay", "altroot", "zoned"), _MOUNTED),
    **dict.fromkeys(("setuid", "exec", "devices"), _RUNS),
    **dict.fromkeys(("cachefile", "bootfs"), _KEPT),
    "readonly": "the kit could not write the working set",
    "delegation": "only the kit's user works on its pool",
}


def why_refused(kind: str, name: str, value: object) -> str:
    """Why a workload may not set this property, and what to do; "" if it may. `kind`: dataset or pool."""
    if name == "failmode" and value not in ("wait", "continue"):
        return "a lost device must not bring the server down; wait or continue"
    if name in (_DATASET if kind == "dataset" else _POOL) or (kind == "pool" and name.startswith("feature@")):
        return ""
    if name.startswith("hsp:"):
        return f"{_OWN}; remove it"
    # Others' user properties are data, but for those that systemd's generator reads.
    if kind == "dataset" and ":" in name and not name.startswith("org.openzfs.systemd:"):
        return ""
    if reason := _REASONS.get(name):
        return f"{reason}; remove it"
    settable = ", ".join(sorted(_DATASET if kind == "dataset" else _POOL))
    return f"not a {kind} property that a workload may set; remove it, or use one of {settable}"
