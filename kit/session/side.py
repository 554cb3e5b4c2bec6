"""A side of a comparison: a workload and a testbed, as given on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from kit.config.testbed import read_testbed
from kit.config.toml import nearest
from kit.config.workload import Workload, read_workload
from kit.config.workload_source import WORKLOADS, WorkloadSource, find_workload, read_source
from kit.plan.plan import Plan, make_plan

_REFERENCES = WORKLOADS.parent / "reports" / "analysis" / "references"


@dataclass(frozen=True)
class Side:
    """A workload (name or file) and a testbed file."""

    workload: str
    testbed: Path

    def plan(self) -> Plan:
        """Make the plan. Raises ConfigError."""
        path = find_workload(self.workload)
        plan = make_plan(read_workload(path), read_testbed(self.testbed), path, self.testbed)
        source = read_source(path)
        _check_reference(plan.workload, source)
        if any(each.inside or each.inside_share_min is not None for each in plan.workload.expect):
            # So late because the reports take long to load.
            import_module("kit.session.published_expectations").check(plan, source)
        return plan


def _check_reference(workload: Workload, source: WorkloadSource) -> None:
    """The published ranges must exist; a workload without any says "". Raises ConfigError."""
    known = sorted(path.stem for path in _REFERENCES.glob("*.toml"))
    if workload.reference and workload.reference not in known:
        text = f"no reference '{workload.reference}', {nearest(workload.reference, known, 'references')}"
        source.refuse(("reference",), text)
