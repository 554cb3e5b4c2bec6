from __future__ import annotations

from pathlib import Path

import pytest

from kit.store import run_directory
from kit.store.run_directory import RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return run_directory.create_run(tmp_path, "top-speeds")
