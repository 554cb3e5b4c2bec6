"""What a server relies on, with random requests under sanitizers; see contract.c."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kit.config.device_model import DeviceModel, find_preset, preset_names, resolve, to_spec
from kit.emulation import compilation
from tests.kit.emulation.loads import random_device

pytestmark = pytest.mark.slow

SEEDS = 40


@pytest.fixture(scope="session")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver contract.c with the models, under the address and undefined behaviour sanitizers."""
    program = tmp_path_factory.mktemp("contract") / "contract"
    argv = [
        "cc", "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all", f"-I{compilation.HERE / 'models'}", *compilation.models(),
        Path(__file__).with_name("contract.c"), "-lm", "-o", program,
    ]  # fmt: skip
    subprocess.run(argv, check=True, timeout=100)
    return program


def run(
    contract: Path, spec: Path, sectors: int, page_sectors: int, seed: int, count: int, bus_per_s: int = 0
) -> str:
    words = [str(word) for word in (contract, spec, sectors, page_sectors, seed, count, bus_per_s)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_device_keeps_its_promises(contract: Path, tmp_path: Path, seed: int) -> None:
    device = random_device(seed)
    spec = tmp_path / "spec"
    spec.write_text(device.text)
    bus_per_s = 0 if seed % 4 else 40_000_000
    run(contract, spec, device.sectors, device.page_sectors, seed, 1500, bus_per_s)


@pytest.mark.parametrize(
    "model",
    [
        resolve("disk-7200", overrides={"queue_depth": 32}),
        resolve("disk-7200", overrides={"queue_depth": 4, "write_cache": "256KiB"}),
        resolve("controller-battery", overrides={"read_ahead": "64KiB", "cache_size": "128KiB"}),
        resolve("controller-bypass", overrides={"cache": "write-through", "backing": "nvme-consumer"}),
    ],
    ids=["queue", "queue-and-cache", "read-ahead", "write-through"],
)
@pytest.mark.parametrize("bus_per_s", [0, 40_000_000])
def test_a_queue_a_cache_and_a_bus_keep_them_too(
    contract: Path, tmp_path: Path, model: DeviceModel, bus_per_s: int
) -> None:
    spec = tmp_path / "spec"
    spec.write_text(to_spec(model))
    output = run(contract, spec, 8192, 32, 1, 3000, bus_per_s)
    answered_later = int(output.split(" answered later")[0].split()[-1])
    # Those of a queue, and reads over a bus; the other models know each answer at once.
    assert (answered_later > 300) == bool(bus_per_s or (model.disk and model.disk.queue_depth > 1)), output


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_keeps_its_promises(contract: Path, tmp_path: Path, name: str) -> None:
    preset = find_preset(name)
    spec = tmp_path / "spec"
    spec.write_text(to_spec(preset))
    page_sectors = preset.ssd.page // 512 if preset.ssd else 8
    output = run(contract, spec, 8192, page_sectors, 1, 1500)
    if preset.ssd and not preset.ssd.power_loss_protection:  # else the test would be of nothing
        assert int(output.split(" sectors lost")[0].split()[-1]) > 0
