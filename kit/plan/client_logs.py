"""What clients record in a phase that leaves it to the plan (`log = "auto"`). Pure.

A log of every I/O has the total latency of each, and costs a line an I/O: in the client's memory, on the way
here and when it is read. Counts by interval and bin cost the same at any rate, and a little of the client's
CPU at each reading.
"""

from __future__ import annotations

from typing import Literal

from kit.config.tables.phase_table import Phase
from kit.config.testbed import Testbed
from kit.config.workload import Workload
from kit.load.fio import LONGEST_EVERY_IO_NS, MOST_INTERVALS

# A million lines at 100,000 I/O a second.
_SHORT_NS = 10 * 10**9


def resolved(workload: Workload, testbed: Testbed) -> Workload:
    """`workload` with what each phase records in place of "auto"."""
    return workload.with_phases(
        phase.model_copy(update={"log": _log(phase, testbed)}) if phase.log == "auto" else phase
        for phase in workload.phase
    )


def _log(phase: Phase, testbed: Testbed) -> Literal["every-io", "histograms"]:
    """In the lab a log of every I/O up to 15 minutes: it has one CPU, and I/Os are few."""
    counts = phase.force or phase.open or phase.replay or phase.metadata or phase.resumable
    if counts or phase.longest > LONGEST_EVERY_IO_NS:
        return "histograms"
    if phase.in_order:
        return "every-io"
    dilation = testbed.clock.dilation
    # fio counts in octaves of its own clock.
    is_countable = not dilation & (dilation - 1) and phase.longest <= MOST_INTERVALS * phase.interval
    is_short = testbed.is_lab or phase.longest <= _SHORT_NS
    return "histograms" if is_countable and not is_short else "every-io"
