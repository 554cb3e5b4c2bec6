"""The closed sets of names in latency.parquet and manifest.json: layers, ops and tiers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

CLIENT = "client"
SERVER = "nfs-server"
# What fio saw of a bare device.
DEVICE = "device"
LAYERS = (CLIENT, SERVER, "vdev", DEVICE)
# Of who issued the I/Os: fio.
ISSUERS = (CLIENT, DEVICE)
OPS = ("read", "write", "commit")
# `indirect` is a request that had to read an indirect block or a dnode from a device
# first; `shared` waited for an I/O that another thread had issued.
TIERS = ("dram", "l2arc", "disk", "slog", "pool", "shared", "indirect", "direct", "all")

# What people call the I/Os of an op that a tier answers.
_IOS = {
    ("read", "dram"): "reads from DRAM",
    ("read", "l2arc"): "reads from the SSD cache",
    ("read", "disk"): "reads from disk",
    ("write", "slog"): "synchronous writes",
    ("write", "pool"): "synchronous writes to disk",
}


def ios_words(op: str, tier: str) -> str:
    """Such as "synchronous writes"; of an unknown tier the operations alone."""
    return _IOS.get((op, tier), f"{op}s" + (f" ({tier})" if tier != "all" else ""))


# Types of stored values: one of the names.
Layer = Annotated[str, Field(pattern=f"^(?:{'|'.join(LAYERS)})$")]
Op = Annotated[str, Field(pattern=f"^(?:{'|'.join(OPS)})$")]
Tier = Annotated[str, Field(pattern=f"^(?:{'|'.join(TIERS)})$")]
