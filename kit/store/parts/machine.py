"""A machine: its health and that of drives, buses, DRAM of devices, findings and settings of its host."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kit.store.stored import Count, Nanoseconds, Signed, Stored

# Of silicon, in thousandths of a degree Celsius: from liquid nitrogen to where it is destroyed.
_Mdegc = Annotated[int, Field(ge=-200_000, le=200_000)]


class Machine(Stored):
    """None: the machine does not say. `throttled`: events; `hottest_mdegc`: before and after the phase."""

    host: str
    throttled: Count | None = None
    throttled_ms: Count | None = None
    hottest_mdegc: Annotated[tuple[_Mdegc | None, _Mdegc | None], Field(strict=False)] = (None, None)
    clock_step_ns: Nanoseconds | None = None
    slept_ns: Nanoseconds | None = None


class DriveReport(Stored):
    """By how much the drive's own counters rose in the phase; None: it has none, or the counter went back.

    `counted_by`: what printed them. `transitions`: into a state of thermal management, in which it is slower;
    `throttled_ms`: how long it was in one. `warning_min`, `critical_min`: minutes above its own limits of
    temperature. `slow_commands`: slower than `slow_from_ms`, by its own log (OCP). `link`: of PCIe or SATA
    under load, `link_max`: what both ends can do; "" where the kernel does not say it. `pcie_corrected`,
    `pcie_uncorrected`: errors that both ends of the link counted.
    """

    device: str
    counted_by: str = ""
    transitions: Count | None = None
    throttled_ms: Count | None = None
    warning_min: Count | None = None
    critical_min: Count | None = None
    media_errors: Count | None = None
    reallocated: Count | None = None
    pending: Signed | None = None
    crc_errors: Count | None = None
    slow_commands: Count | None = None
    slow_from_ms: Count | None = None
    link: str = ""
    link_max: str = ""
    pcie_corrected: Count | None = None
    pcie_uncorrected: Count | None = None


class HostFinding(Stored):
    """What the doctor found on a host before the first phase. `unknown`: it could not be found out."""

    host: str
    check: str
    state: Literal["ok", "note", "warn", "fail"]
    found: str
    meaning: str
    remedy: str
    unknown: bool = False

    @property
    def sentence(self) -> str:
        return f"{self.host}: {self.check}: {self.found}. {self.meaning}"


class HostSetting(Stored):
    """What the workload's [host] set on the server, or on each client, and its value before.

    `path`: a star in it stands for all CPUs; `before` then has each value that one of them had.
    """

    name: str
    path: str
    before: str
    set: str
    on: Annotated[Literal["server", "clients"], Field(exclude_if=lambda on: on == "server")] = "server"

    @property
    def label(self) -> str:
        return self.path if self.on == "server" else f"{self.path} of clients"


class Warmup(Stored):
    """What the warm-up's last windows showed (kit.run.warmup), in bytes. `problems`: what was short."""

    l2arc_bytes: Count
    fed_bytes: tuple[Count, ...] = ()
    trouble: dict[str, Count] = Field(default_factory=dict)
    problems: tuple[str, ...] = ()
    arc: dict[str, Count] = Field(default_factory=dict)


class Bus(Stored):
    """What emulated devices share: bytes a second, one transfer at a time."""

    name: str
    per_s: Count


class DramProbe(Stored):
    """Whether the device's own DRAM answers reads: of sets that were read before, and of the whole device.

    `answered_bytes`: the largest set that it answered, 0: none. `beyond_bytes`: the first that it did not;
    None: no larger one was tried. p50s: of the largest set that was answered, or of the first; of the whole.
    """

    answered_bytes: Count = 0
    beyond_bytes: Count | None = None
    again_p50_ns: Count
    whole_p50_ns: Count
