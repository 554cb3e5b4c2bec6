"""Stored texts of outputs, in the folder `snapshots` beside a test. `--update-snapshots` writes them anew."""

from __future__ import annotations

import difflib
from pathlib import Path


def compare(path: Path, found: str, *, update: bool) -> None:
    """Fail with the lines that differ from the stored text."""
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    stored = path.read_text() if path.is_file() else ""
    lines = difflib.unified_diff(stored.splitlines(True), found.splitlines(True), str(path), "found")
    assert found == stored, f"{''.join(lines)}\nif this is the better text: pytest --update-snapshots"
