"""What a command line names to be measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kit.config.testbed import read_testbed
from kit.config.workload import find_workload, read_workload
from kit.plan.plan import Plan, make_plan


@dataclass(frozen=True)
class Side:
    """What is measured, and on what, as named on the command line."""

    workload: str
    testbed: Path

    def plan(self) -> Plan:
        """Raises ConfigError."""
        path = find_workload(self.workload)
        return make_plan(read_workload(path), read_testbed(self.testbed), path, self.testbed)
