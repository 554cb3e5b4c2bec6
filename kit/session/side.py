"""A side of a comparison: a workload and a testbed, as given on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kit.config.testbed import read_testbed
from kit.config.toml import nearest
from kit.config.workload import read_workload
from kit.config.workload_source import find_workload, read_source
from kit.plan.plan import Plan, make_plan

# By its files: to import the reports takes longer than to plan.
_REFERENCES = Path(__file__).parents[2] / "reports" / "analysis" / "references"


@dataclass(frozen=True)
class Side:
    """A workload (name or file) and a testbed file."""

    workload: str
    testbed: Path

    def plan(self) -> Plan:
        """Make the plan. Raises ConfigError."""
        path = find_workload(self.workload)
        workload = read_workload(path)
        known = sorted(file.stem for file in _REFERENCES.glob("*.toml"))
        if workload.reference not in known:
            hint = nearest(workload.reference, known, "there are")
            text = f"no published ranges are called '{workload.reference}', {hint}"
            read_source(path).refuse(("reference",), text)
        return make_plan(workload, read_testbed(self.testbed), path, self.testbed)
