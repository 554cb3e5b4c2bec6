"""raw/under-way.json: the phase that a run measures now, for those who look at it meanwhile.

Written before the load of each phase whose counts arrive while it runs. It names the files in raw/ that grow;
what they hold is in the formats of kit.trace.output and kit.load.fio_windows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kit.store import json_file
from kit.store.run_directory import RunDir
from kit.store.stored import Count, Many, Nanoseconds, Stored

# 11 days: a phase takes less, and products with its clock and columns fit 64 bits.
_LONGEST_NS = 10**15
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~%-]{0,250}$")]
"""A file in raw/: no path."""


class Place(Stored):
    """A file system of an observed server, by its number (kit.trace.output.place_of).

    `log_vdevs`: as of UnderWay; `special_vdevs`: ids of its special and dedup vdevs.
    """

    number: Count
    log_vdevs: tuple[Count, ...] | None
    special_vdevs: Many[Count] = ()


class UnderWay(Stored):
    """`interval_ns` and `duration_ns` of the experiment; times in the files pass `dilation` times slower.

    `position` of `phases`, from 1. `trace`: the tracer's output; None without a tracer, then `clients` have
    the counts. `log_vdevs`: ids of the pool's log vdevs; None with sync=disabled (kit.trace.tier).
    `places`: of an observed server, each with its own; requests to others are left out.
    `local`: the trace is of calls of any process.
    """

    phase: Annotated[str, Field(max_length=250)]
    part: Annotated[int, Field(ge=1)]
    duration_ns: Annotated[Nanoseconds, Field(gt=0, le=_LONGEST_NS)]
    interval_ns: Annotated[Nanoseconds, Field(gt=0, le=_LONGEST_NS)]
    clock: Literal["real", "virtual"]
    dilation: Annotated[int, Field(ge=1, le=1 << 20)]
    trace: FileName | None
    log_vdevs: tuple[Count, ...] | None
    special_vdevs: Many[Count] = ()
    clients: Many[FileName]
    places: Many[Place] = ()
    local: bool = False


def path_in(run_dir: RunDir) -> Path:
    return run_dir.raw / "under-way.json"


def write(run_dir: RunDir, under_way: UnderWay) -> None:
    """Raises HostError."""
    json_file.write_json(path_in(run_dir), under_way.as_json())


def read(run_dir: RunDir) -> UnderWay | None:
    """None if no phase has begun that can be looked at. Raises ConfigError."""
    path = path_in(run_dir)
    if not path.is_symlink() and not path.exists():
        return None
    return UnderWay.from_json(json_file.read_json(path), path)
