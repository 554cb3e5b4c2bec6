"""The program as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def hsp(
    *words: str, cwd: Path = ROOT, deadline_s: float = 110.0, stdin: str | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run `hsp WORDS` of this checkout to its end, with `stdin`; `environ` is added to the environment."""
    return subprocess.run(
        [sys.executable, "-m", "kit.cli", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT), **environ},
        capture_output=True,
        input=stdin,
        text=True,
        timeout=deadline_s,
        check=False,
    )
