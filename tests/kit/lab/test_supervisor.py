"""A lab that outlives its CLI holds nothing of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.process import ROOT

# The supervisor is real; what it supervises has nothing to say.
UP = """
from kit.lab.guest import _Supervisor

lab = _Supervisor(files={}, argv=["sleep", "120"], info={})
print(lab.state, flush=True)
lab.detach()
"""


def test_who_reads_the_output_of_lab_up_sees_its_end(tmp_path: Path) -> None:
    """Standard error goes into a pipe, as in `hsp lab up 2>&1 | tee log`."""
    tmp_path.chmod(0o700)
    up = subprocess.Popen(
        [sys.executable, "-c", UP],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT), "XDG_RUNTIME_DIR": os.fspath(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = up.communicate(timeout=60)
        assert up.returncode == 0, output
        assert (Path(output.strip()) / "lab.json").exists()
    finally:
        for file in tmp_path.glob("hsp/lab-*/lab.json"):
            os.kill(json.loads(file.read_text())["supervisor_pid"], signal.SIGTERM)
