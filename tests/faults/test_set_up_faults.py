"""What stops a run before any load, through the command line as a user meets it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.lab.image.image import FORMAT, ImageInputs, build, find

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
Called = Callable[..., subprocess.CompletedProcess[str]]


def hsp(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kit.cli", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH directory to which each test links only what shall be there."""
    path = tmp_path / "bin"
    path.mkdir()
    for name in ("apt-get", "setpriv", "mke2fs", "xz", "tar", "fallocate", "flock", "nm", "objcopy"):
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if found:
            (path / name).symlink_to(found)
    return path


def fake_image(cache: Path) -> Path:
    """A finished image directory as far as files and sizes go."""
    place = cache / "hsp" / "images" / ImageInputs().digest()
    place.mkdir(parents=True)
    for name in ("vmlinuz", "initrd.img", "root.img"):
        (place / name).write_bytes(b"x" * 100)
    files = ", ".join(
        f'"{name}": {{"bytes": 100, "sha256": ""}}' for name in ("vmlinuz", "initrd.img", "root.img")
    )
    (place / "manifest.json").write_text(f'{{"format": {FORMAT}, "files": {{{files}}}}}')
    return place


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('size = "384MiB"', 'sise = "384MiB"', ["device[0].sise", "size"]),
        ('memory = "4GiB"', "memory = 4", ["lab.memory", "integer 4"]),
        ('memory = "4GiB"', 'memory = "4Gigs"', ["'Gigs'", "GiB"]),
        ('role = "log"', 'role = "logs"', ["device[3].role", "log"]),
        ('preset = "disk-10k"', 'preset = "disk-10K"', ["device[0]", "known presets", "disk-10k"]),
        ("stroke_percent = 100", "stroke_percent = 101", ["device[0]", "stroke_percent"]),
        ("dilation = 4", "dilation = 4.5", ["lab.dilation"]),
        ('name = "cache0"', 'name = "../x"', ["device[2].name"]),
    ],
)
def test_a_mistake_in_a_file_is_found_with_line_key_and_remedy(
    hsp_here: Called, tmp_path: Path, before: str, after: str, words: list[str]
) -> None:
    text = (ROOT / "kit" / "lab" / "testbed.toml").read_text()
    line = text[: text.index(before)].count("\n") + 1
    (tmp_path / "testbed.toml").write_text(text.replace(before, after, 1))
    done = hsp_here("run", "top-speeds", "--testbed", "testbed.toml", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    for word in [f"testbed.toml:{line}:", *words]:
        assert word in done.stderr
    assert not (tmp_path / "results").exists()


def test_a_working_set_that_fits_into_the_arc_is_refused(hsp_here: Called, tmp_path: Path) -> None:
    for file in (ROOT / "workloads").iterdir():
        shutil.copy(file, tmp_path)
    workload = tmp_path / "top-speeds.toml"
    workload.write_text(workload.read_text().replace('size = "72MiB"', 'size = "48MiB"'))
    done = hsp_here("run", "./top-speeds.toml", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "working_set.size: 48MiB fits into the ARC" in done.stderr
    assert "what to do" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "top-speed"], "there is no workload 'top-speed'"),
        (["run", "./missing.toml"], "missing.toml"),
        (["report", "nowhere"], "no such run directory"),
        (["lab", "build", "--suite", "../x"], "--suite"),
        (["lab", "build", "--pin", "zfs linux"], "--pin"),
        (["lab", "shell"], "no lab is up"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_exit_2(hsp_here: Called, tmp_path: Path, arguments: list[str], words: str) -> None:
    done = hsp_here(*arguments, cwd=tmp_path, XDG_RUNTIME_DIR=os.fspath(tmp_path))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.one_python
def test_without_mmdebstrap(tmp_path: Path, tools: Path) -> None:
    done = hsp("lab", "build", cwd=tmp_path, PATH=os.fspath(tools), XDG_CACHE_HOME=os.fspath(tmp_path))
    assert done.returncode == 5, done.stderr
    assert "error: mmdebstrap is not installed" in done.stderr
    assert "apt-get install mmdebstrap\n" in done.stderr


@pytest.mark.one_python
def test_without_qemu(tmp_path: Path, tools: Path) -> None:
    fake_image(tmp_path)
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    done = hsp(
        "run", "top-speeds", cwd=tmp_path, PATH=os.fspath(tools),
        XDG_CACHE_HOME=os.fspath(tmp_path), XDG_RUNTIME_DIR=os.fspath(runtime),
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "qemu-system-x86_64 is not installed" in done.stderr
    assert "apt-get install qemu-system-x86" in done.stderr
    assert not list(runtime.rglob("lab-*"))


@pytest.mark.one_python
def test_a_truncated_image_is_named(tmp_path: Path) -> None:
    root = fake_image(tmp_path) / "root.img"
    root.write_bytes(b"x" * 60)
    done = hsp("run", "top-speeds", cwd=tmp_path, XDG_CACHE_HOME=os.fspath(tmp_path))
    assert done.returncode == 5, done.stderr
    assert f"{root} has 60 bytes, it was built with 100" in done.stderr
    assert "hsp lab build --rebuild" in done.stderr


@pytest.mark.one_python
def test_no_space_for_the_image(small_disk: Callable[[int], Path], tmp_path: Path) -> None:
    done = hsp("lab", "build", cwd=tmp_path, XDG_CACHE_HOME=os.fspath(small_disk(16)))
    assert done.returncode == 5, done.stderr
    assert "GiB free, building the lab image needs" in done.stderr
    assert "XDG_CACHE_HOME" in done.stderr


@pytest.mark.one_python
def test_no_space_for_the_results(small_disk: Callable[[int], Path], tmp_path: Path) -> None:
    fake_image(tmp_path)
    done = hsp(
        "run", "top-speeds", "--results", os.fspath(small_disk(16) / "r"),
        cwd=tmp_path, XDG_CACHE_HOME=os.fspath(tmp_path),
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "MiB free, a run needs" in done.stderr


@pytest.mark.one_python
def test_a_failing_build_shows_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))
    inputs = ImageInputs(suite="no-such-release")
    with pytest.raises(HostError, match="building the lab image failed") as caught:
        build(inputs, Progress(quiet=True))
    assert "no-such-release" in caught.value.message
    assert caught.value.exit_code == 5
    assert find(inputs) is None
    assert not list((tmp_path / "hsp" / "images").glob(".build-*"))


@pytest.mark.one_python
def test_a_killed_build_leaves_nothing_that_looks_finished(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": os.fspath(ROOT), "XDG_CACHE_HOME": os.fspath(tmp_path)}
    images = tmp_path / "hsp" / "images"
    process = subprocess.Popen(
        [sys.executable, "-m", "kit.cli", "lab", "build"], cwd=ROOT, env=environ, stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 60
    while not list(images.glob("*.log")):
        assert time.monotonic() < end, "mmdebstrap did not start"
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (images / ImageInputs().digest()).exists()
    end = time.monotonic() + 30
    while any(_names(entry, tmp_path) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        assert time.monotonic() < end, "mmdebstrap goes on without its builder"
        time.sleep(0.2)


def _names(entry: Path, path: Path) -> bool:
    try:
        return os.fsencode(path) in (entry / "cmdline").read_bytes()
    except OSError:
        return False
