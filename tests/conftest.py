"""Settings of every test."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

# How long one example takes says something about the machine, not about the code.
settings.register_profile("kit", deadline=None)
settings.load_profile("kit")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """`./hsp test -k NAME` goes through every environment: one without such a test has not failed."""
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.option.keyword:
        session.exitstatus = pytest.ExitCode.OK


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """small_disk(MiB): a directory that is a real filesystem of that size."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small filesystem needs root")
    with ExitStack() as stack:

        def mount(size_mib: int) -> Path:
            path = tmp_path / f"disk-{size_mib}"
            path.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", path], check=True)
            stack.callback(subprocess.run, ["umount", path], check=True)
            return path

        yield mount
