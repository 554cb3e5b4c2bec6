"""`hsp show`: what goes where, and what a browser is asked."""

from __future__ import annotations

import os
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from kit.store.run_directory import RunDir
from tests.conftest import Called
from tests.reports import synthetic

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return synthetic.write(tmp_path / "a run", synthetic.manifest(), synthetic.latency())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked to open; a user with a display."""
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: asked.append(url) or True)
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    return asked


def test_the_result_is_on_stdout(hsp_here: Called, run: RunDir) -> None:
    done = hsp_here("show", str(run.path))
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("VALID  4,284 of 4,284 I/Os matched")
    assert lines[-2:] == [f"run:    {run.path}", f"report: {run.report.as_uri()}"]
    assert "a%20run" in lines[-1]
    data = hsp_here("show", str(run.path), "--json")
    assert data.stdout.startswith('{\n "format": 1') and data.stderr == f"report: {run.report}\n"


def call(run: RunDir, out: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """hsp show, its stdout as the shell writes it."""
    script = f'exec "$0" -m kit.cli show "$1" {out}'
    return subprocess.run(
        ["sh", "-c", script, sys.executable, str(run.path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT), **environ}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(("out", "code"), [(">&-", 0), ("| head -n 1 >&2", 0), (">/dev/full", 5)])
def test_a_reader_that_is_gone_is_no_error_and_a_full_disk_is(run: RunDir, out: str, code: int) -> None:
    done = call(run, out)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    assert ("No space left" in done.stderr) is (code == 5)


def test_a_terminal_that_is_gone_is_no_error(run: RunDir) -> None:
    ours, theirs = os.openpty()
    os.close(ours)
    done = subprocess.run(
        [sys.executable, "-m", "kit.cli", "show", str(run.path)],
        cwd=ROOT, stdout=theirs, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "") and run.report.exists()


def test_a_terminal_without_utf8(run: RunDir) -> None:
    done = call(run, "", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "142 us" in done.stdout and done.stdout.isascii()


def test_open_asks_the_browser(hsp_here: Called, run: RunDir, opened: list[str]) -> None:
    done = hsp_here("show", str(run.path), "--open")
    assert (done.returncode, opened, done.stderr) == (0, [run.report.as_uri()], "")


@pytest.mark.parametrize(
    ("name", "value", "reason"), [("DISPLAY", "", "no display"), ("SUDO_USER", "me", "as root")]
)
def test_without_a_display_or_as_root_by_sudo_the_address_is_said(
    hsp_here: Called, run: RunDir, opened: list[str], monkeypatch: pytest.MonkeyPatch,
    name: str, value: str, reason: str,
) -> None:  # fmt: skip
    if name == "SUDO_USER" and os.geteuid() != 0:
        pytest.skip("only root may be root by sudo")
    monkeypatch.setenv(name, value)
    done = hsp_here("show", str(run.path), "--open")
    assert done.returncode == 0 and not opened
    assert reason in done.stderr and f"open {run.report.as_uri()}" in done.stderr


def test_a_browser_that_does_not_start(
    hsp_here: Called, run: RunDir, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    assert f"open {run.report.as_uri()}" in hsp_here("show", str(run.path), "--open").stderr
