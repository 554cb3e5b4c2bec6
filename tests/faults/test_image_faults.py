"""Image builds that are interrupted, disturbed, or meet what another left behind. mmdebstrap is real."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock
import pytest

from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.lab.image import tree
from kit.lab.image.image import ImageInputs, build, find
from tests.faults.test_set_up_faults import fake_image
from tests.process import ROOT

NO_SUCH = ImageInputs(suite="no-such-release")

# They need no lab, but mirrors and minutes: once is enough, whatever the version of Python.
PROTECTS = ("kit/lab/image", "hsp")
pytestmark = [pytest.mark.faults, pytest.mark.lab, pytest.mark.timeout(600)]
# These build, or wait for a build.
builds = pytest.mark.image


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The image cache of this test. Trees go below tmp_path as well, so that leftovers show."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))
    monkeypatch.setenv("TMPDIR", os.fspath(tmp_path))
    return tmp_path / "hsp" / "images"


class Build:
    """`hsp lab up --build` as a process that can be signalled."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kit.cli", "lab", "up", "--build", *options],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A test runner in the background passes on that it ignores Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def end(self, deadline_s: float = 60) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=deadline_s)
        return self.process.returncode, out, err


@pytest.fixture
def start() -> Iterator[Callable[..., Build]]:
    started: list[Build] = []

    def begin(*options: str) -> Build:
        started.append(Build(*options))
        return started[-1]

    yield begin
    for run in started:
        if run.process.poll() is None:
            run.process.kill()
            run.process.communicate()


# Beside the build of the lab's own image (tests/lab/conftest.py) packages are slow to come.
def until(what: Callable[[], object], deadline_s: float = 240) -> None:
    end = time.monotonic() + deadline_s
    while not what():
        assert time.monotonic() < end, "it did not come to that in time"
        time.sleep(0.1)


def command_lines(text: Path) -> list[str]:
    """Of the processes that work on anything below `text`."""
    lines = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if entry.name.isdigit() and entry.name != str(os.getpid()) and os.fspath(text) in line:
            lines.append(line)
    return lines


def unpacking(images: Path) -> bool:
    """Whether mmdebstrap has a tree half made: packages are being installed in it."""
    logs = list(images.glob("*.log"))
    return bool(logs) and "installing" in logs[0].read_text()


@builds
def test_an_interrupted_build_ends_with_130_and_leaves_nothing(
    images: Path, tmp_path: Path, start: Callable[..., Build]
) -> None:
    run = start()
    until(lambda: unpacking(images))
    is_ended_by(signal.SIGINT, run, tmp_path)


def is_ended_by(number: signal.Signals, run: Build, tmp_path: Path) -> None:
    run.process.send_signal(number)
    code, out, err = run.end()
    assert (code, out) == (130, ""), err
    assert find(ImageInputs()) is None
    assert command_lines(tmp_path) == []
    assert leftovers(tmp_path) == []


def test_what_is_started_for_a_build_that_has_just_died_does_not_begin(tmp_path: Path) -> None:
    """Between the fork and the asking for a signal nobody tells that the parent has died."""

    def begins() -> bool:
        argv = [*tree._contained(tree.Scratch(tmp_path, tmp_path))[:-2], "echo", "there"]
        return "there" in subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True).stdout

    if os.geteuid() != 0:
        pytest.skip("an ordinary user's namespaces are mmdebstrap's own")
    with tree.scratch(tmp_path, "x"):
        assert begins()
    assert not begins()


@builds
def test_a_killed_build_ends_mmdebstrap_and_the_next_removes_what_is_left(
    images: Path, tmp_path: Path, start: Callable[..., Build]
) -> None:
    run = start()
    until(lambda: unpacking(images))
    run.process.kill()
    run.process.communicate()
    assert find(ImageInputs()) is None
    until(lambda: not command_lines(tmp_path), 10)
    # Nothing of the tree is mounted where a cleaning hand would follow it into the real /sys.
    assert os.fspath(tmp_path) not in Path("/proc/self/mounts").read_text()
    for log in images.glob("*.log"):
        log.unlink()
    again = start()
    until(lambda: unpacking(images) and len(list(images.glob(".build-*"))) == 1)
    is_ended_by(signal.SIGTERM, again, tmp_path)


def leftovers(path: Path) -> list[str]:
    """All that is there but locks and logs, which stay on purpose."""
    return [
        os.fspath(file)
        for file in path.rglob("*")
        if file.is_file() and not re.fullmatch(r"\..*\.lock|.*\.log", file.name)
    ] + [os.fspath(place) for place in path.rglob("*mmdebstrap*")]


@builds
def test_a_dead_builds_directory_is_not_taken_for_an_image_and_goes(images: Path) -> None:
    stale = images / f".build-{NO_SUCH.digest()}-1"
    stale.mkdir(parents=True)
    for name in ("vmlinuz", "initrd.img", "root.img"):
        (stale / name).write_bytes(b"x")
    assert find(NO_SUCH) is None
    with pytest.raises(HostError):
        build(NO_SUCH, Progress(quiet=True))
    assert not stale.exists()


@builds
@pytest.mark.parametrize(
    ("pin", "text", "hint"),
    [
        ("zfs-linux/no-such-release", "no-such-release", ""),
        ("dkms=0.0-nonesuch", r"pin dkms=0\.0-nonesuch matches no package; .* 3\.", "in that version"),
    ],
)
def test_a_pin_that_nothing_matches_ends_the_build(images: Path, pin: str, text: str, hint: str) -> None:
    """apt itself would pass over it."""
    inputs = ImageInputs(pins=(pin,))
    with pytest.raises(HostError, match=text) as caught:
        build(inputs, Progress(quiet=True))
    assert hint in caught.value.hint
    assert find(inputs) is None


@builds
def test_the_second_of_two_builds_waits_and_takes_the_firsts_result(
    images: Path, start: Callable[..., Build]
) -> None:
    digest = ImageInputs().digest()
    images.mkdir(parents=True)
    with filelock.FileLock(images / f".{digest}.lock"):
        second = start("--json")
        # It is said after 30 s, however long it takes to start up.
        said = second.process.stderr.readline() if second.process.stderr else ""
        assert "waiting for another build of the same image" in said
        fake_image(images.parents[1])
    code, out, err = second.end()
    # What the first has left here is no kernel: it is not built again, but booted, to be saved.
    assert (code, out) == (5, ""), err
    assert "waiting for another build of the same image" in err
    assert "compiling" not in err and "installing" not in err
    assert "booting a guest, to be saved: failed" in err


def test_a_manifest_that_is_cut_off_is_no_image(images: Path) -> None:
    place = images / ImageInputs().digest()
    place.mkdir(parents=True)
    (place / "manifest.json").write_text('{"format": 1, "fil')
    assert find(ImageInputs()) is None
