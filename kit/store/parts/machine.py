"""The health of a machine during a phase (`machines` of a phase in manifest.json)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from kit.store.stored import Count, Nanoseconds, Stored

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


class Warmup(Stored):
    """What the warm-up's last windows showed (kit.run.warmup), in bytes. `problems`: what was short."""

    l2arc_bytes: Count
    fed_bytes: tuple[Count, ...] = ()
    trouble: dict[str, Count] = Field(default_factory=dict)
    problems: tuple[str, ...] = ()
    arc: dict[str, Count] = Field(default_factory=dict)
