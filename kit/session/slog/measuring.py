"""The work of `hsp slog`: the workload of this name on one bare device after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from kit.config.testbed import LAB_TESTBED
from kit.core.errors import ConfigError
from kit.core.progress import Progress
from kit.plan.plan import Plan
from kit.session.measure import MeasuredRun, measure
from kit.session.place import Request, agreed_place, confirm
from kit.session.side import Side

State = Literal["as-found", "fresh", "aged"]
WORKLOAD = "slog"
# Of a phase of the workload; a disk without a write cache makes as many writes durable.
_LONGEST_S, _WRITES_A_SECOND = 120, 50
_ALONE = ("flush-idle", "read-cached")
# `ios` as in the main job, so that a log device of the lab that it has aged is taken.
_STATES: Mapping[State, tuple[str, ...]] = {
    "as-found": (),
    "fresh": ("precondition.method=purge", "precondition.ios=400"),
    "aged": ("precondition.method=fills", "precondition.fills=2", "precondition.ios=400"),
}


def side_of(device: str, testbed: Path | None, state: State, writes: int) -> Side:
    """The workload on one device. Raises ConfigError.

    `testbed`: of a device of hosts of your own; `state`: what is done to the device before; `writes`: of each
    size, fewer of large.
    """
    sets = f"force.groups={writes}", *_longer(writes), *_STATES[state]
    return Side(WORKLOAD, testbed or LAB_TESTBED, sets, device=device)


def _longer(writes: int) -> tuple[str, ...]:
    """More time for more writes, in as many intervals; not for the commands that write nothing."""
    longest_s = writes // _WRITES_A_SECOND
    if longest_s <= _LONGEST_S:
        return ()
    alone = (f"phase.{name}.duration=10s" for name in _ALONE)
    return f"phase.duration={longest_s}s", f"phase.interval={longest_s // 6}ms", *alone


def measure_each(plans: Sequence[Plan], request: Request, progress: Progress) -> Iterator[MeasuredRun]:
    """Measure one device after another; all are agreed to before the first is touched. Raises KitError.

    All on the devices is lost. Nothing else of their hosts is changed.
    """
    devices = [device for plan in plans for device in plan.testbed.device]
    for number, device in enumerate(devices):
        if any((device.path, device.name) == (other.path, other.name) for other in devices[:number]):
            raise ConfigError(f"{device.path or device.name} is named twice", "name each device once")
    confirm(plans, plans[0].testbed.model_copy(update={"device": tuple(devices)}), request)
    for plan in plans:
        yield measure(plan, agreed_place(plan, request, progress), request, progress)
