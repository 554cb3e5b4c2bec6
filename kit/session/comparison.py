"""Comparison of two sides of stored runs, which are read and judged again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import reports
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.store import json_file, run_directory
from kit.store.manifest import read_manifest
from reports.analysis import comparability
from reports.analysis.compare import compare as compared


def comparison(a: list[StoredRun], b: list[StoredRun], across: list[str]) -> dict[str, Any]:
    """Compare two sides (docs/formats.md, "Comparison"). Raises ConfigError, MeasurementUnknown."""
    differing = comparability.check(
        [(r.name, r.settings) for r in a], [(r.name, r.settings) for r in b], across
    )
    _refuse_unknown([*a, *b])
    result = compared([r.summary for r in a], [r.summary for r in b])
    caveats = dict.fromkeys(r.summary.by_nature for r in [*a, *b])
    result["caveats"] = [caveat for caveat in caveats if caveat]
    result["across"] = {key: list(pair) for key, pair in differing.items()}
    return result


class StoredRun:
    """A stored run, read and judged again."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = run_directory.existing_run(Path(name))
        self.manifest = read_manifest(self.directory)
        plan = self.directory.path / "plan.json"
        stored = json_file.read_json(plan) if plan.exists() else {}
        try:
            self.settings = comparability.settings(self.manifest, stored if isinstance(stored, dict) else {})
        except RecursionError:
            raise ConfigError(f"{name}: manifest.json or plan.json is nested too deep") from None
        self.identities = {str(self.directory.path), self.manifest.run or str(self.directory.path)}
        self.summary = reports.judged(self.directory)

    @property
    def trusted(self) -> bool:
        """Whether its result can be used: known, or unknown only by the nature of its kind of run."""
        return self.summary.verdict != "unknown" or self.summary.by_nature is not None


def _refuse_unknown(runs: list[StoredRun]) -> None:
    lines = [f"  {run.name}: {reason}" for run in runs if not run.trusted for reason in run.summary.reasons]
    if lines:
        raise MeasurementUnknown(
            "runs with an unknown verdict cannot be compared:\n" + "\n".join(lines),
            "leave them out, or measure again",
        )
