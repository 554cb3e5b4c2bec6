"""Every workload on a host ten times slower and on one ten times faster than its lab: valid on both.

A dilation makes the guest's CPU faster. Slower than with dilation 1 it gets where an instruction takes more
than a nanosecond. A whole night; some workloads are hours.

pytest -m "lab and long" tests/lab/test_dilation.py -k "top-speeds or why-slow"
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from pathlib import Path

import pytest

from kit.config.testbed import read_testbed
from kit.config.workload_base import WORKLOADS
from kit.core.errors import ConfigError
from kit.lab.image.image import Image
from kit.lab.qemu import QEMU
from kit.session.side import Side
from tests.lab.conftest import hsp

PROTECTS = ("workloads",)
# Beside other work on two cores; of a quiet machine the most.
_MOST_S = 4 * 3600
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(_MOST_S)]

_FACTOR = 10
_MOST_DILATION = 64
NAMES = sorted(path.stem for path in WORKLOADS.glob("*.toml"))


def _testbed(workload: str, dilation: int, folder: Path) -> Path:
    """The lab of a workload with another dilation."""
    text = Side.of(workload, None).testbed.read_text()
    changed, count = re.subn(r"(?m)^dilation = \d+", f"dilation = {dilation}", text)
    assert count == 1
    path = folder / "testbed.toml"
    path.write_text(changed)
    return path


def _faster(workload: str, usual: int, folder: Path) -> int:
    """Ten times the usual dilation; the next power of two where fio's own histograms are read."""
    tenfold = min(usual * _FACTOR, _MOST_DILATION)
    try:
        Side.of(workload, _testbed(workload, tenfold, folder)).plan()
    except ConfigError:
        return min(1 << (tenfold - 1).bit_length(), _MOST_DILATION)
    return tenfold


def _slow_qemu(shift: int, folder: Path) -> None:
    """A QEMU whose CPU takes 2**shift ns for an instruction: its path comes first."""
    path = folder / QEMU
    found = shutil.which(QEMU)
    path.write_text(f'#!/bin/bash\nexec "{found}" "${{@/#shift=0,/shift={shift},}}"\n')
    path.chmod(0o755)


@pytest.mark.parametrize("speed", ["slower", "faster"])
@pytest.mark.parametrize("workload", NAMES)
def test_a_workload_is_valid_on_a_host_ten_times(
    workload: str, speed: str, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = read_testbed(Side.of(workload, None).testbed).clock.dilation
    dilation = _faster(workload, usual, tmp_path) if speed == "faster" else 1
    if speed == "slower":
        _slow_qemu(math.ceil(math.log2(_FACTOR / usual)), tmp_path)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    process = hsp(
        "run",
        workload,
        "--testbed",
        str(_testbed(workload, dilation, tmp_path)),
        results=tmp_path / "results",
    )
    out, err = process.communicate(timeout=_MOST_S)
    print(err[-6000:], out[-6000:])
    verdicts = {
        str(path.parent.relative_to(tmp_path)): json.loads(path.read_text())["verdict"]
        for path in tmp_path.glob("results/**/summary.json")
    }
    assert process.returncode == 0 and set(verdicts.values()) == {"valid"}, (verdicts, err[-2000:])
