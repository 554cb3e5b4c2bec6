"""A run under way: what its steps share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kit.core.progress import Progress
from kit.plan.plan import Plan
from kit.recovery import work_directory
from kit.recovery.journal import Journal
from kit.run.site import Site
from kit.store.run_directory import RunDir


@dataclass(frozen=True)
class Context:
    """`manifest` is filled in by each step."""

    plan: Plan
    site: Site
    run_dir: RunDir
    journal: Journal
    progress: Progress
    manifest: dict[str, Any]

    @property
    def run_id(self) -> str:
        return self.run_dir.path.name

    @property
    def work_dir(self) -> str:
        """The run's own directory on each host."""
        return work_directory.path_of(self.run_id)

    @property
    def mount_point(self) -> str:
        """Where clients mount the export."""
        return f"/mnt/hsp-{self.run_id}"
