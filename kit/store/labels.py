"""The closed sets of names in latency.parquet and manifest.json: layers, ops and tiers; and their words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from pydantic import Field

CLIENT = "client"
SERVER = "nfs-server"
# What fio saw of a bare device.
DEVICE = "device"
# What people call each layer.
LAYER_NAMES = {CLIENT: "clients", SERVER: "NFS server", "vdev": "vdevs", DEVICE: "devices"}
LAYERS = tuple(LAYER_NAMES)
# Of who issued the I/Os: fio.
ISSUERS = (CLIENT, DEVICE)
# Procedures of NFSv3 (RFC 1813) and operations of NFSv4 (RFC 8881) that move no data of files, in small
# letters. Those of NFSv4 that a client of Linux hardly sends are "other".
NFS_METADATA = (
    "null", "getattr", "setattr", "lookup", "access", "readlink", "create", "mkdir", "symlink", "mknod",
    "remove", "rmdir", "rename", "link", "readdir", "readdirplus", "fsstat", "fsinfo", "pathconf",
    "open", "close", "open_confirm", "putfh", "putrootfh", "getfh", "savefh", "restorefh", "lookupp",
    "delegreturn", "renew", "sequence", "other",
)  # fmt: skip
# What a load does to a tree of files (kit/remote/load/metadata_load.py); at clients these are ops, too.
ACTIONS = ("create", "untar", "stat", "list", "ls", "rename", "remove", "rm")
METADATA = frozenset((*NFS_METADATA, *ACTIONS))
OPS = tuple(dict.fromkeys(("read", "write", "commit", "fsync", *NFS_METADATA, *ACTIONS)))
# They make safe what was written before, and move no data: COMMITs of NFS, and those of programs.
SYNCS = ("commit", "fsync")
# `indirect` is a request that had to read an indirect block or a dnode from a disk or an L2ARC device first.
# `special` had data or metadata from a special or dedup vdev, and nothing from a disk, or its log block lies
# on such a vdev. `shared` waited for an I/O that another thread had issued.
TIERS = ("dram", "l2arc", "special", "disk", "slog", "pool", "shared", "indirect", "direct", "all")

# Of writes and commits that the ZIL made safe.
LOGGED = ("slog", "special", "pool", "shared")

# Either, as the version of OpenZFS decides, where there is no log device.
EITHER_LOG = ("special", "pool")

# What people call the I/Os of an op that a tier answers.
_IOS = {
    ("read", "dram"): "reads from DRAM",
    ("read", "l2arc"): "reads from the SSD cache",
    ("read", "disk"): "reads from disk",
    ("read", "special"): "reads from the special vdev",
    ("write", "slog"): "synchronous writes",
    ("write", "special"): "synchronous writes to the special vdev",
    ("write", "pool"): "synchronous writes to disk",
}


def ios_words(op: str, tier: str) -> str:
    """Such as "synchronous writes"; of an unknown tier the operations alone."""
    return _IOS.get((op, tier), f"{op}s" + (f" ({tier})" if tier != "all" else ""))


# `pool`: a sync write without a log device, whose ZIL is on the disks of the pool.
NAMES = {
    "dram": "DRAM (ARC)",
    "l2arc": "SSD cache (L2ARC)",
    "slog": "log SSD (SLOG)",
    "special": "special vdev",
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
_OPS = {"read": "reads", "write": "writes", "commit": "commits", "fsync": "fsyncs"}
# An SSD tier, the op it serves and the tier that answers without it.
BELOW = {"l2arc": ("read", "disk"), "slog": ("write", "pool")}


def tier_name(tier: str) -> str:
    """The name of a tier for people; that of an unknown tier is its own."""
    return NAMES.get(tier, tier)


def tier_names(tiers: Iterable[str]) -> dict[str, str]:
    """The names of tiers that stand together: beside reads of the disk the ZIL on it is named."""
    names = {tier: tier_name(tier) for tier in tiers}
    return names | {"pool": "disk (ZIL)"} if {"disk", "pool"} <= names.keys() else names


def short_name(tier: str, op: str) -> str:
    """The name of a tier in a line with others; of I/Os of all tiers that of their operation."""
    return op_name(op) if tier == "all" else _SHORT.get(tier, tier_name(tier))


def layer_name(layer: str) -> str:
    """The name of a layer for people; that of an unknown layer is its own."""
    return LAYER_NAMES.get(layer, layer)


def op_name(op: str) -> str:
    """The plural of an operation, for people."""
    return _OPS.get(op, op)


def verdict_name(verdict: str) -> str:
    """A verdict for people: stored as invalid is a sound measurement whose limits failed."""
    return "failed" if verdict == "invalid" else verdict


@dataclass(frozen=True)
class KnownOfRun:
    """`drives_load`: the kit's own clients issued the I/Os, and their counts are in the phases.

    `counts_twice`: two instruments counted the same I/Os, so that there are sums to judge.
    `sees_server`: the kit read the pool, the counters and the tracer of the server. `serves_nfs`: the I/Os
    came over NFS, so that nfsd counted them, too.
    """

    drives_load: bool = True
    counts_twice: bool = True
    sees_server: bool = True
    serves_nfs: bool = True


class RunKind(Enum):
    """Who issued the I/Os, and who counted them."""

    HOSTS = KnownOfRun()
    APPLIANCE = KnownOfRun(sees_server=False)
    OBSERVED = KnownOfRun(drives_load=False)
    LOCAL = KnownOfRun(drives_load=False, serves_nfs=False)
    IMPORT = KnownOfRun(drives_load=False, counts_twice=False, sees_server=False)


# Types of stored values: one of the names.
Layer = Annotated[str, Field(pattern=f"^(?:{'|'.join(LAYERS)})$")]
Op = Annotated[str, Field(pattern=f"^(?:{'|'.join(OPS)})$")]
Tier = Annotated[str, Field(pattern=f"^(?:{'|'.join(TIERS)})$")]
