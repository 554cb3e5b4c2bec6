"""Phases that begin with empty caches, or lose them meanwhile: what must be there for them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kit.config.tables.fault_table import Scheduled
from kit.config.tables.phase_table import Phase


def has_curve(phase: Phase, scheduled: Iterable[Scheduled]) -> bool:
    """Whether it is measured how the caches get warm: from the begin, or after an import."""
    imports = any(each.what == "export-import" for each in scheduled)
    return (phase.cold and not phase.metadata) or (imports and "l2arc" in phase.tiers)


def problems(
    phase: Phase, operations: Collection[str], present: Collection[str], testbed: str
) -> Iterator[str]:
    """`operations`: of its load; `present`: roles of devices in the pool by then."""
    # Of a tree it matters that the ARC is empty.
    if not phase.cold or phase.metadata:
        return
    if "cache" not in present:
        yield (
            f"cold = true is about how an L2ARC gets warm, and the testbed '{testbed}' has no cache device "
            "in this phase: add one to the testbed, or remove this key"
        )
    if "read" not in operations:
        yield "cold = true, and its load reads nothing that could get warm: give it a load that reads"
