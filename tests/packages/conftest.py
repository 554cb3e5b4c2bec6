"""A wheel of this tree, and bare trees of both releases of Debian."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages.bare import ROOT, SUITES, Bare, make_tree


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As docs/releasing.md builds it, without the network."""
    pytest.importorskip("hatchling", reason="pip install -e '.[test]'")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (found,) = folder.iterdir()
    return found


@pytest.fixture(params=SUITES)
def bare(request: pytest.FixtureRequest, trees: Path) -> Iterator[Bare]:
    """A tree of its own for each test: what it changes lies over the tree that was made once."""
    lower = trees / request.param
    if not lower.exists():
        make_tree(request.param, lower)
    with tempfile.TemporaryDirectory(prefix="hsp-bare-", dir="/var/tmp") as folder:
        upper, work, root = (Path(folder, name) for name in ("upper", "work", "root"))
        for path in (upper, work, root):
            path.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "-o", options, "overlay", root], check=True)
        try:
            yield Bare(request.param, root)
        finally:
            subprocess.run(["umount", root], check=True)


@pytest.fixture(scope="session")
def trees() -> Iterator[Path]:
    """Where the trees lie."""
    if os.geteuid() or not shutil.which("mmdebstrap"):
        pytest.skip("a bare Debian needs root and mmdebstrap")
    with tempfile.TemporaryDirectory(prefix="hsp-bare-", dir="/var/tmp") as folder:
        yield Path(folder)
