"""What probe_helper.py has printed, validated: nothing of another type gets any further."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

KernelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_!.-]{0,62}$")]
Number = Annotated[str, Field(pattern=r"^\d{1,20}$")]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Said(_Facts):
    """How a tool ended (None: it was not there, or did not end) and what it said."""

    argv: list[str]
    code: int | None
    out: str
    err: str

    @property
    def failure(self) -> str:
        """Why the tool has said nothing, or ""."""
        if self.code == 0:
            return ""
        words = (self.err.strip().splitlines() or ["no reason given"])[-1]
        return words if self.code is None else f"ended with {self.code}: {words}"


class Queue(_Facts):
    """Of /sys/block/NAME/queue; None where the kernel has no such file."""

    rotational: str | None
    logical_block_size: Number | None
    physical_block_size: Number | None
    write_cache: str | None
    discard_max_bytes: Number | None


class DeviceFacts(_Facts):
    """Of /sys/class/block/NAME; None where the kernel has no such file."""

    dev: Annotated[str, Field(pattern=r"^\d+:\d+$")]
    sectors: Number | None
    ro: str | None
    removable: str | None
    diskseq: str | None
    hidden: str | None
    partition: str | None
    parent: KernelName | None
    holders: list[KernelName]
    slaves: list[KernelName]
    queue: Queue
    controller: str | None
    dm: tuple[str | None, str | None]
    md: str | None
    loop: str | None


class DiskFacts(_Facts):
    """What was found by a closer look; `zdb` by kernel name, None where no label can be."""

    alone: str
    zdb: dict[KernelName, Said | None] | None = None
    wipefs: Said | None = None
    nvme: Said | None = None
    smartctl: Said | None = None


class Facts(_Facts):
    """Everything. `mounts`: process, namespace and line of mountinfo; `own`: the namespace it ran in."""

    format: Literal[1]
    devices: dict[KernelName, DeviceFacts]
    links: dict[str, str]
    mounts: list[tuple[Number, str, str]]
    unread: list[str]
    own: str
    swaps: str | None
    tools: dict[str, Said]
    disks: dict[KernelName, DiskFacts]
