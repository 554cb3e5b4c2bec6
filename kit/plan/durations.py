"""How long phases last on the clock of a testbed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kit.config.tables.fault_table import ExpectedEvent, Fault
from kit.config.tables.phase_table import Phase
from kit.config.testbed import Testbed
from kit.config.workload import Workload
from kit.rules.cold import has_curve
from kit.sizes.workload_sizes import sizes_of

# Of phases that ask for I/Os, on a real clock. OpenZFS writes a txg every 5 s (zfs_txg_timeout): a full
# measurement has two. In the lab each second costs many, and fewer I/Os do.
_LEAST_NS: Mapping[str, int] = {"full": 10 * 10**9, "sanity": 3 * 10**9, "smoke": 10**9}


# Of phases in which caches get warm, on a real clock: a minute before an import, and one after it. And of
# phases before and after a restart.
_CURVE_LEAST_NS, _BESIDE_RESTART_NS = 180 * 10**9, 60 * 10**9
# Until nearly each record was read again (of random reads, all but e^-3), by disks of 7,200 turns.
_READS_EACH, _DISK_READS_PER_S = 3, 100


S = TypeVar("S", Fault, ExpectedEvent)


def resolved(workload: Workload, testbed: Testbed) -> Workload:
    """`workload` with phases that are long enough for a real clock; its events keep their part of them."""
    phases = tuple(_resolved(number, workload, testbed) for number, _ in enumerate(workload.phase))
    longer = {old.name: new.duration / old.duration for old, new in zip(workload.phase, phases, strict=True)}

    def moved(each: S) -> S:
        name = each.phase or phases[0].name
        is_curve = any(phase.name == name and phase.ios is None for phase in workload.phase)
        return each.model_copy(update={"at": int(each.at * longer[name])}) if is_curve else each

    scheduled = {"event": tuple(map(moved, workload.event)), "fault": tuple(map(moved, workload.fault))}
    return workload.model_copy(update={"phase": phases, **scheduled})


def _resolved(number: int, workload: Workload, testbed: Testbed) -> Phase:
    phase = workload.phase[number]
    if phase.ios is None:
        least_ns = _least_ns(number, workload, testbed) if testbed.clock.kind == "real" else 0
        return phase.model_copy(update={"duration": max(phase.duration, least_ns)})
    if phase.resumable or phase.soak or workload.schedule(phase) or workload.power_loss:
        # Measured again, its parts and its times would begin anew.
        return phase.model_copy(update={"ios": None, "duration_max": None})
    if testbed.clock.kind == "virtual":
        return phase
    duration = max(phase.duration, _LEAST_NS[workload.length])
    return phase.model_copy(update={"duration": min(duration, phase.longest)})


def _least_ns(number: int, workload: Workload, testbed: Testbed) -> int:
    """Of a phase without `ios`."""
    phase = workload.phase[number]
    if has_curve(phase, workload.schedule(phase)) and not phase.restart:
        return _until_warm_ns(phase, workload, testbed)
    beside = workload.phase[number : number + 2]
    return _BESIDE_RESTART_NS if any(each.restart for each in beside) else 0


def _until_warm_ns(phase: Phase, workload: Workload, testbed: Testbed) -> int:
    sizes = sizes_of(workload, testbed) if phase.cold else None
    records = sizes.working_set // sizes.record if sizes else 0
    per_s = _DISK_READS_PER_S * max(1, len(testbed.devices("data")))
    return max(_CURVE_LEAST_NS, _READS_EACH * records * 10**9 // per_s)
