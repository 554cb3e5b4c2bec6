"""The testbed: on what is measured. Frozen values read from a TOML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kit.clock import Clock, ClockKind
from kit.toml import load
from kit.units import DurationNs, SizeBytes

LAB_TESTBED = Path(__file__).parent / "lab" / "testbed.toml"
"""What `hsp demo` uses."""

Role = Literal["data", "log", "cache"]
# A name becomes a file name below /dev and a configfs directory.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$")]

# ZFS refuses smaller devices (SPA_MINDEVSIZE, include/sys/fs/zfs.h).
MIN_DEVICE_BYTES = 64 << 20


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Server(_Table):
    """`host`: where the pool and the NFS server are."""

    host: Literal["lab"]


class Client(_Table):
    """`host`: where the load comes from; in the lab each client is a network namespace of its own."""

    host: Literal["lab"]


class Lab(_Table):
    """The guest. `dilation`: how many times faster its CPU shall look; virtual clock only."""

    clock: ClockKind = "virtual"
    dilation: Annotated[int, Field(ge=1, le=64)] = 1
    memory: SizeBytes = 4 << 30


class Device(_Table):
    """A device of the pool. In the lab it is emulated: `model`, `size`, constant `latency`."""

    name: Name
    role: Role
    model: Literal["null_blk"]
    size: SizeBytes
    latency: DurationNs
    # How much may be written to it in its life, as its data sheet has it (TBW).
    endurance: Annotated[SizeBytes, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.size < MIN_DEVICE_BYTES or self.size % (1 << 20):
            raise ValueError(f"size is {self.size} bytes: ZFS needs at least 64MiB, and null_blk whole MiB")
        return self


class Testbed(_Table):
    """Server, clients, devices by role, and for the built-in lab its clock."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    name: Name = "lab"
    server: Server
    client: Annotated[tuple[Client, ...], Field(min_length=1, max_length=16)]
    lab: Lab = Lab()
    device: Annotated[tuple[Device, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = [device.name for device in self.device]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two devices are called '{name}'")
        if not self.devices("data"):
            raise ValueError('no device has role = "data"; a pool needs at least one')
        if self.lab.clock == "real" and self.lab.dilation != 1:
            raise ValueError('lab.dilation needs lab.clock = "virtual": real time cannot be slowed')
        stored = sum(device.size for device in self.device)
        if stored > self.lab.memory // 2:
            raise ValueError(
                f"the devices hold {stored >> 20} MiB, more than half of the guest's "
                f"{self.lab.memory >> 20} MiB of memory they are kept in"
            )
        return self

    def devices(self, role: Role) -> tuple[Device, ...]:
        return tuple(device for device in self.device if device.role == role)

    @property
    def clock(self) -> Clock:
        return Clock(self.lab.clock, self.lab.dilation)


def ages(device: Device) -> bool:
    """Whether its latency depends on what was written to it before: of what is constant, nothing ages."""
    return device.model != "null_blk"


def read_testbed(path: Path) -> Testbed:
    """Raises ConfigError with file, line and key."""
    return load(path, Testbed)


def safe_text(text: str) -> str:
    """Text from outside, fit for a terminal: no control characters."""
    return re.sub(r"[^\x20-\x7e\u00a0-\uffff]", "?", text)
