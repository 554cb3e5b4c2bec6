"""How long phases last on the clock of a testbed. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kit.config.tables.phase_table import Phase
from kit.config.testbed import Testbed
from kit.config.workload import Workload

# Of phases that ask for I/Os, on a real clock. OpenZFS writes a txg every 5 s (zfs_txg_timeout): a full
# measurement has two. In the lab each second costs many, and fewer I/Os do.
_LEAST_NS: Mapping[str, int] = {"full": 10 * 10**9, "sanity": 3 * 10**9, "smoke": 10**9}


def resolved(workload: Workload, testbed: Testbed) -> Workload:
    """`workload` with phases that are long enough for a real clock."""
    phases = tuple(_resolved(phase, workload, testbed) for phase in workload.phase)
    return workload.model_copy(update={"phase": phases})


def _resolved(phase: Phase, workload: Workload, testbed: Testbed) -> Phase:
    if phase.ios is None:
        return phase
    if phase.resumable or phase.soak or workload.schedule(phase) or workload.power_loss:
        # Measured again, its parts and its times would begin anew.
        return phase.model_copy(update={"ios": None, "duration_max": None})
    if testbed.clock.kind == "virtual":
        return phase
    duration = max(phase.duration, _LEAST_NS[workload.length])
    return phase.model_copy(update={"duration": min(duration, phase.longest)})
