"""Where the time of requests went, from the tracer's counts. Pure."""

from __future__ import annotations

from collections import Counter

from kit.store.parts.split import Part, SplitRow
from kit.trace.output import Trace
from kit.trace.split import PARTS
from kit.trace.tier import Vdevs, tier_of


def rows_of(trace: Trace, vdevs: Vdevs) -> list[SplitRow]:
    """By op and tier, in experiment time. With sync=disabled (`vdevs.log` None) a commit does not wait."""
    rows: dict[tuple[str, str], Counter[Part]] = {}
    ios, unjoined = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for key, parts in trace.parts.items():
        op_tier = key[0], tier_of(*key, vdevs)
        rows.setdefault(op_tier, Counter()).update(parts)
        ios[op_tier] += sum(trace.counts.get(key, {}).values())
        unjoined[op_tier] += trace.unjoined.get(key, 0)
    made = []
    for (op, tier), mine in sorted(rows.items()):
        if vdevs.log is None and op != "read":
            mine["zil"] += mine.pop("unknown", 0)
            unjoined[op, tier] = 0
        parts = {part: mine[part] for part in PARTS.values() if mine[part]}
        made.append(
            SplitRow(
                op=op,
                tier=tier,
                ios=ios[op, tier],
                unjoined=unjoined[op, tier],
                sum_ns=mine.total(),
                parts=parts,
            )
        )
    return made
