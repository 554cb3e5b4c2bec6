"""A lab that outlives its CLI holds nothing of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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


# A lab whose QEMU runs and whose guest never comes up.
BOOT = """
import sys
import time
from pathlib import Path

import pytest
from kit.cli import lab, main
from kit.lab.guest import Lab
from kit.lab.image.image import Image

lab.build = lambda inputs, progress: Image(Path("/nowhere"), {})
lab.warm.open_lab = lambda spec, image, progress: Lab(spec)
sys.argv = ["hsp", "lab", "up"]
main.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_boot_that_is_ended_says_interrupted_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    tmp_path.chmod(0o700)
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text("#!/bin/sh\nexec sleep 120\n")
    qemu.chmod(0o755)
    up = subprocess.Popen(
        [sys.executable, "-c", BOOT],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": os.fspath(ROOT),
            "XDG_RUNTIME_DIR": os.fspath(tmp_path),
        },
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    end = time.monotonic() + 60
    while not (labs := list(tmp_path.glob("hsp/lab-*/lab.json"))) and time.monotonic() < end:
        time.sleep(0.05)
    pid = json.loads(labs[0].read_text())["qemu_pid"]
    time.sleep(0.5)
    up.send_signal(number)
    _, err = up.communicate(timeout=60)
    by = "" if number == signal.SIGINT else f" ({number.name})"
    assert up.returncode == 130
    assert err.endswith(f"hsp: interrupted{by}\n") and "waiting for the guest: interrupted after" in err
    assert "failed" not in err and "Traceback" not in err
    assert not Path(f"/proc/{pid}").exists() and not list(tmp_path.glob("hsp/lab-*"))
