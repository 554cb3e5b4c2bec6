"""What runs of older versions say in words alone. Beside checks/old_names.py no other place reads such words.

Each function gives the key that has the value now; where a file lacks it, the value is read out of the words.
"""

from __future__ import annotations

import re

from kit.store.manifest import Manifest
from kit.store.phase import Event, Problem
from kit.store.series import SkippedCell

_LOAD = re.compile(r"closed loop, (\d{1,9}) outstanding")
_EARLY = re.compile(
    r"interrupted by the user: the load was stopped early|the load was stopped early: .+", re.DOTALL
)
_FAULT, _DECLARED = "fault: ", "declared: "


def ended_early(problem: Problem) -> bool:
    return problem.ended_early or _EARLY.fullmatch(problem.text) is not None


def undeclared_fault(event: Event) -> str | None:
    """What was injected, if the event is a fault that the workload does not declare."""
    if event.fault is not None:
        return None if event.fault.declared else event.fault.what
    if event.kind != "fault" or event.text.startswith(_DECLARED):
        return None
    return event.text.removeprefix(_FAULT)


def most_outstanding(manifest: Manifest) -> int | None:
    """I/Os on their way at most; None if the manifest does not say."""
    found = _LOAD.fullmatch(manifest.load or "")
    return manifest.outstanding if manifest.outstanding is not None else int(found[1]) if found else None


def problem_of(skipped: SkippedCell) -> str:
    """Why the cell cannot be, without the key that is refused."""
    if skipped.problem is not None:
        return skipped.problem
    return skipped.reason.partition(": ")[2] or skipped.reason
