"""A side of a comparison: a workload and a testbed, as given on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kit.config.testbed import read_testbed
from kit.config.workload import read_workload
from kit.config.workload_source import find_workload
from kit.plan.plan import Plan, make_plan


@dataclass(frozen=True)
class Side:
    """A workload (name or file) and a testbed file."""

    workload: str
    testbed: Path

    def plan(self) -> Plan:
        """Make the plan. Raises ConfigError."""
        path = find_workload(self.workload)
        return make_plan(read_workload(path), read_testbed(self.testbed), path, self.testbed)
