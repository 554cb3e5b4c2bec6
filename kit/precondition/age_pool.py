"""A pool is filled and fragmented before it is measured, and how full it then is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kit.config.tables.age_table import Age
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.core.text import json_value
from kit.hosts.base import Command, CommandFailed, DeadlineExceeded, Host, Process, stopped_on_error
from kit.store.parts.resource_use import PoolSpace
from kit.zfs.vdev_listing import space_of_data

# Of a step, which is 1/20 of the pool: 2 TB at 50 MB/s take 11 h.
_STEP_S = 24 * 3600.0
_POLL_S, _END_S = 0.5, 60.0
# The property is a whole number, and blocks are freed in parts.
_NEAR_PERCENT = 3


def age_pool(server: Host, step: Sequence[Command], asked: Age, output: Path, progress: Progress) -> None:
    """`step`: makes a dataset and fills it. `output`: what it prints is kept there.

    Raises HostError if the pool cannot be as full, or as fragmented.
    """
    create, program = step
    create.run(server)
    process = server.start(program.argv, output, program.stdin)
    _await(server, process, output, progress)
    reached = int(_last(output).get("fragmentation", 0))
    if reached < asked.fragmentation - _NEAR_PERCENT:
        raise HostError(
            f"the pool on {server.name} has a fragmentation of {reached} % with {asked.capacity} % of it "
            f"used; the workload asks for {asked.fragmentation} %",
            "in a small pool ZFS keeps much room for itself: ask for less, or for a smaller capacity",
        )


def _await(server: Host, process: Process, output: Path, progress: Progress) -> None:
    """A pool may be large: as long as it prints steps, it goes on."""
    steps, end_s = 0, time.monotonic() + _STEP_S
    with stopped_on_error(process):
        while process.running():
            time.sleep(_POLL_S)
            printed = output.stat().st_size if output.exists() else 0
            if printed > steps:
                steps, end_s = printed, time.monotonic() + _STEP_S
                progress.update(_last(output).get("part", 0.0))
            elif time.monotonic() > end_s:
                raise DeadlineExceeded(server.name, process.argv, _STEP_S)
        ended = process.wait(_END_S)
    if ended.returncode:
        raise CommandFailed(ended)


def _last(output: Path) -> dict[str, float]:
    """The last whole line of what the program has printed; nothing yet is {}."""
    lines = output.read_text(errors="replace").split("\n")[:-1] if output.exists() else []
    with suppress(ValueError):
        found = json_value(lines[-1]) if lines else {}
        return found if isinstance(found, dict) else {}
    return {}


def space_of(server: Host, pool: str) -> PoolSpace:
    """How much of it is used, and how free space is fragmented. Raises HostError."""
    return space_of_data(server.run(["zpool", "list", "-v", "-H", "-P", "-p", pool]).stdout)
