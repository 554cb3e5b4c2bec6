"""The output of probe_devices.py as validated values."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

KernelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_!.-]{0,62}$")]
Number = Annotated[str, Field(pattern=r"^\d{1,20}$")]


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ToolResult(_Facts):
    """Exit code of a tool (None: it does not exist, or did not end) and its output."""

    argv: list[str]
    code: int | None
    out: str
    err: str

    @property
    def failure(self) -> str:
        """Why the tool failed, or ""."""
        if self.code == 0:
            return ""
        message = (self.err.strip().splitlines() or ["no reason given"])[-1]
        return message if self.code is None else f"ended with {self.code}: {message}"


class Queue(_Facts):
    """/sys/block/NAME/queue; None: the kernel has no such file."""

    rotational: str | None
    logical_block_size: Number | None
    physical_block_size: Number | None
    write_cache: str | None
    discard_max_bytes: Number | None


class DeviceFacts(_Facts):
    """/sys/class/block/NAME; None: the kernel has no such file."""

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
    """An examined disk. `alone`: open error. `zdb`: by kernel name, None where no label is possible."""

    alone: str
    zdb: dict[KernelName, ToolResult | None] | None = None
    wipefs: ToolResult | None = None
    nvme: ToolResult | None = None
    smartctl: ToolResult | None = None


class Facts(_Facts):
    """All facts. `mounts`: process, namespace and line of mountinfo; `own`: the helper's mount namespace."""

    format: Literal[1]
    devices: dict[KernelName, DeviceFacts]
    links: dict[str, str]
    mounts: list[tuple[Number, str, str]]
    unread: list[str]
    own: str
    swaps: str | None
    tools: dict[str, ToolResult]
    disks: dict[KernelName, DiskFacts]
