"""summary.json: verdict, accounting and ranges (docs/formats.md)."""

from __future__ import annotations

from kit.store.run_directory import RunDir
from kit.store.stored import Json, read_versioned


def read_summary(run: RunDir) -> Json:
    """summary.json of a run. Raises ConfigError."""
    return read_versioned(run.path / "summary.json")
