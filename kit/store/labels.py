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

# Types of stored values: one of the names.
Layer = Annotated[str, Field(pattern=f"^(?:{'|'.join(LAYERS)})$")]
Op = Annotated[str, Field(pattern=f"^(?:{'|'.join(OPS)})$")]
Tier = Annotated[str, Field(pattern=f"^(?:{'|'.join(TIERS)})$")]
