"""`hsp run` on real devices: the question on a terminal, and no question where nobody can answer."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTBED = ROOT / "docs" / "examples" / "mynas.toml"
SERIALS = ["V1GABCDE", "V1GFGHIJ", "S64FNE0R900001", "PHKE730000AB375AGN"]


@pytest.fixture
def testbed(tmp_path: Path) -> Path:
    """The example, with a server that refuses every connection."""
    text = TESTBED.read_text().replace("ssh://root@nas", "ssh://root@127.0.0.1:1")
    path = tmp_path / "t.toml"
    path.write_text(text.replace("ssh://root@client1", "ssh://root@127.0.0.1:2"))
    return path


def words(testbed: Path, tmp_path: Path) -> list[str]:
    return [
        *("run", "top-speeds", "--testbed", os.fspath(testbed)),
        *("--results", os.fspath(tmp_path / "results")),
    ]


def run(testbed: Path, tmp_path: Path, *more: str, stdin: int = subprocess.DEVNULL) -> tuple[int, str]:
    argv = [sys.executable, "-m", "kit.cli", *words(testbed, tmp_path), *more]
    done = subprocess.run(
        argv, cwd=ROOT, stdin=stdin, capture_output=True, text=True, timeout=100, check=False
    )
    return done.returncode, done.stderr


@contextlib.contextmanager
def terminal(lines: Sequence[str]) -> Iterator[int]:
    """A terminal at which somebody has typed these lines, and nobody will type more."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, "".join(f"{line}\n" for line in lines).encode() + b"\x04")
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def test_without_a_terminal_it_is_refused_at_once(testbed: Path, tmp_path: Path) -> None:
    code, output = run(testbed, tmp_path)
    assert code == 4
    assert "stdin is not a terminal" in output
    for serial in SERIALS:
        assert f"--erase-serial {serial}" in output
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("lines", [["y"], ["yes"], [*SERIALS[:3], "no"], SERIALS[::-1], []])
def test_a_wrong_answer_is_a_refusal(
    hsp_here: Callable[..., subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
    testbed: Path,
    tmp_path: Path,
    lines: list[str],
) -> None:
    with terminal(lines) as typed, os.fdopen(os.dup(typed)) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        done = hsp_here(*words(testbed, tmp_path), cwd=ROOT)
    assert done.returncode == 4, done.stderr
    assert "Type its serial number" in done.stderr and "nothing was touched" in done.stderr


def test_the_serials_are_an_agreement(
    hsp_here: Callable[..., subprocess.CompletedProcess[str]], testbed: Path, tmp_path: Path
) -> None:
    """It goes on to the hosts, which are not there."""
    with terminal(SERIALS) as typed:
        on_a_terminal = run(testbed, tmp_path, stdin=typed)
    flags = (word for serial in SERIALS for word in ("--erase-serial", serial))
    done = hsp_here(*words(testbed, tmp_path), *flags, cwd=ROOT)
    for code, output in (on_a_terminal, (done.returncode, done.stderr)):
        assert code == 5, output
        assert "127.0.0.1:1" in output
