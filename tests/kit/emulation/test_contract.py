"""What a server relies on, with random requests under sanitizers; see contract.c."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.config.device_model import find_preset, preset_names, to_spec

pytestmark = pytest.mark.one_python

SEEDS = 40


def run(contract: Path, spec: Path, sectors: int, page_sectors: int, seed: int, count: int) -> str:
    words = [str(word) for word in (contract, spec, sectors, page_sectors, seed, count)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_device_keeps_its_promises(
    contract: Path, tmp_path: Path, random_device: Callable[[int], Any], seed: int
) -> None:
    device = random_device(seed)
    spec = tmp_path / "spec"
    spec.write_text(device.text)
    run(contract, spec, device.sectors, device.page_sectors, seed, 1500)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_keeps_its_promises(contract: Path, tmp_path: Path, name: str) -> None:
    preset = find_preset(name)
    spec = tmp_path / "spec"
    spec.write_text(to_spec(preset))
    page_sectors = preset.ssd.page // 512 if preset.ssd else 8
    told = run(contract, spec, 8192, page_sectors, 1, 1500)
    if preset.ssd and not preset.ssd.power_loss_protection:  # else the test would be of nothing
        assert int(told.split(" sectors lost")[0].split()[-1]) > 0
