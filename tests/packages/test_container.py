"""The container image: built of a clean checkout on a bare Debian 13. The whole demo runs in it.

pytest -m long tests/packages/test_container.py      needs root, mmdebstrap, and docker or podman
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit import __version__
from kit.core.cache import cache_dir
from kit.core.progress import Progress
from kit.lab.image.image import ImageInputs, build
from tests.packages.bare import ROOT, make_tree

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

_DEADLINE_S = 1800.0
FILE = ".ci/container/Containerfile"


def call(*words: str | os.PathLike[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=_DEADLINE_S)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def works(engine: str) -> bool:
    found = shutil.which(engine)
    return bool(found) and not subprocess.run([engine, "info"], capture_output=True, timeout=60).returncode


@pytest.fixture(scope="module")
def engine() -> str:
    found = next(filter(works, ("docker", "podman")), None)
    if os.geteuid() or not shutil.which("mmdebstrap") or not found:
        pytest.skip("a container image needs root, mmdebstrap, and docker or podman that works")
    return found


@pytest.fixture(scope="module")
def made(engine: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image's name."""
    folder = tmp_path_factory.mktemp("container")
    tag = f"hsp-test-{uuid.uuid4().hex[:12]}"
    base = f"{tag}-base"
    make_tree("trixie", folder / "tree")
    call("tar", "-C", folder / "tree", "-cf", folder / "base.tar", ".")
    shutil.rmtree(folder / "tree")
    call("git", "clone", "--quiet", ROOT, folder / "checkout")
    try:
        call(engine, "import", folder / "base.tar", base)
        (folder / "base.tar").unlink()
        words = ["--network", "host", "--build-arg", f"BASE={base}", "--tag", tag, "--file"]
        call(engine, "build", *words, folder / "checkout" / FILE, folder / "checkout")
        yield tag
    finally:
        for name in (tag, base):
            subprocess.run([engine, "rmi", "--force", name], capture_output=True, timeout=300)


def test_it_is_the_kit_without_the_checkouts_history(engine: str, made: str) -> None:
    assert call(engine, "run", "--rm", made, "--version") == f"hsp {__version__}\n"
    assert "phase" in call(engine, "run", "--rm", made, "plan", "top-speeds")
    listed = call(engine, "run", "--rm", "--entrypoint", "ls", made, "-A", "/opt/hsp").split()
    assert {"hsp", "kit", "docs"} <= {*listed} and not {".git", ".tox"} & {*listed}


def test_the_lab_runs_in_it_without_privileges(engine: str, made: str, tmp_path: Path) -> None:
    """With the image of this machine's cache: to make one is tried by the lab's own tests."""
    build(ImageInputs(), Progress())
    volumes = ["-v", f"{tmp_path}:/data/results", "-v", f"{cache_dir() / 'images'}:/root/.cache/hsp/images"]
    summary = json.loads(call(engine, "run", "--rm", *volumes, made, "demo", "--json"))
    assert summary["verdict"] == "valid", summary["reasons"]
    assert {"dram", "l2arc", "disk", "slog", "pool"} <= {row["tier"] for row in summary["rows"]}
    assert "<html" in (tmp_path / "top-speeds" / "latest" / "report.html").read_text()
