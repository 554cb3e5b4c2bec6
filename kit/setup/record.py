"""The manifest of a run under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from kit.store.manifest import Manifest
from kit.store.phase import Phase, ProblemCode, problems_of

# Between what was measured before an interruption and what is measured after it, on the time axis.
_PAUSE_NS = 1_000_000_000


@dataclass
class RunRecord:
    """Steps replace the manifest, which is itself frozen, by one that says more.

    `latency`, `keys`: rows of these tables, of phases that were measured.
    """

    manifest: Manifest
    latency: list[pl.DataFrame] = field(default_factory=list)
    keys: list[pl.DataFrame] = field(default_factory=list)

    @property
    def end_ns(self) -> int:
        """Where the time axis of phases that were measured before ends, in ns of the experiment."""
        ends = [phase.end_ns for phase in self.manifest.phases]
        return max(ends) + _PAUSE_NS if ends else 0

    def fill(self, **fields: Any) -> None:
        """Set fields of the manifest: values of their types."""
        self.manifest = self.manifest.model_copy(update=fields)

    def fill_devices(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Set fields of devices of the testbed, by their names."""
        testbed = self.manifest.testbed
        devices = tuple(each.model_copy(update=found.get(str(each.name), {})) for each in testbed.devices)
        self.fill(testbed=testbed.model_copy(update={"devices": devices}))

    def add_problems(self, code: ProblemCode, *texts: str) -> None:
        self.fill(problems=(*self.manifest.problems, *problems_of(code, texts)))

    def add_notes(self, *texts: str) -> None:
        self.fill(notes=(*self.manifest.notes, *texts))

    def add_phase(self, phase: Phase) -> None:
        """In the place of an earlier entry of the same phase."""
        others = (each for each in self.manifest.phases if each.name != phase.name)
        self.fill(phases=(*others, phase))

    def add_versions(self, versions: dict[str, str]) -> None:
        self.fill(versions={**(self.manifest.versions or {}), **versions})
