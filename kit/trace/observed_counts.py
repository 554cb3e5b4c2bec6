"""What the tracer of an observed server does not count: each read from DRAM would pay for it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.core.bins import bin_edges

if TYPE_CHECKING:
    from kit.trace.output import Trace


def complete(trace: Trace) -> None:
    """Extremes below a millisecond are ends of bins; READ and WRITE of NFSv3 have the mean of all."""
    last = trace.snapshots[-1].counts if trace.snapshots else {}
    for key, counts in last.items():
        low, high = bin_edges([min(counts), max(counts)])
        trace.lowest.setdefault(key, int(low[0]))
        trace.highest.setdefault(key, int(high[1]) - 1)
    for op in ("read", "write"):
        calls, done = trace.started.get(op, 0) - trace.of_v4.get(op, 0), trace.done.get(op, 0)
        if calls > 0:
            sum_ns = sum(ns for (of, _, _), ns in trace.sums.items() if of == op)
            trace.operations[f"NFSv3 {op.upper()}"] = calls, sum_ns * calls // done if done else 0
