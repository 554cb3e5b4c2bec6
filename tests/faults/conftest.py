"""Tests with the marker `image` run when what they protect has changed since they passed on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.core.files import cache_dir

ROOT = Path(__file__).parents[2]
PROTECTED = ("hsp", "kit/lab/image", "tests/faults")


def _fingerprint() -> str:
    """Of all that the tests of the image protect, and of the tests."""
    digest = hashlib.sha256()
    for top in PROTECTED:
        path = ROOT / top
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix != ".pyc":
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{file.relative_to(ROOT)} {content}\n".encode())
    return digest.hexdigest()


def _stamp(item: pytest.Item) -> Path:
    """Exists if the test passed with the files as they are."""
    name = hashlib.sha256(item.nodeid.encode()).hexdigest()[:16]
    return cache_dir() / "passed" / f"{name}-{_fingerprint()[:16]}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip those that passed; all run where somebody asks for them (-m image, -m long)."""
    asked = {"image", "long"} & {*config.option.markexpr.replace("not long", "").split()}
    for item in items:
        if item.get_closest_marker("image") and not asked and _stamp(item).exists():
            words = f"passed before on this machine, with the same {', '.join(PROTECTED)} (-m image runs it)"
            item.add_marker(pytest.mark.skip(reason=words))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if item.get_closest_marker("image") and report.when == "call" and report.passed:
        stamp = _stamp(item)
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
    return report
