"""Device models of every kind, small enough that everything happens often."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kit.lab.devices.library import SOURCES, sources

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver contract.c with the models, under the address and undefined behaviour sanitizers."""
    program = tmp_path_factory.mktemp("contract") / "contract"
    flags = ["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    files = [*map(str, sources()), str(HERE / "contract.c")]
    argv = ["cc", *flags, "-fno-sanitize-recover=all", f"-I{SOURCES}", *files, "-lm", "-o", str(program)]
    subprocess.run(argv, check=True, timeout=100)
    return program
