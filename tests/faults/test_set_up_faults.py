"""What stops a run before any load, through the command line as a user meets it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.cache import sha256
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.lab.image.image import FORMAT, ImageInputs, build, find
from tests.process import ROOT, hsp

pytestmark = pytest.mark.faults

Called = Callable[..., subprocess.CompletedProcess[str]]


def fails(done: subprocess.CompletedProcess[str], *texts: str) -> None:
    assert done.returncode == 5, done.stderr
    for text in texts:
        assert text in done.stderr


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH directory to which each test links only what shall be there."""
    path = tmp_path / "bin"
    path.mkdir()
    for name in ("apt-get", "setpriv", "mke2fs", "xz", "tar", "fallocate", "flock", "nm", "objcopy"):
        program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if program:
            (path / name).symlink_to(program)
    return path


def fake_image(cache: Path) -> Path:
    """A finished image directory as far as its manifest goes."""
    place = cache / "hsp" / "images" / ImageInputs().digest()
    place.mkdir(parents=True)
    files = ("vmlinuz", "initrd.img", "root.img")
    for name in files:
        (place / name).write_bytes(b"x" * 100)
    digest = sha256(place / files[0])
    manifest = {
        "format": FORMAT,
        "kernel": "6.12.1",
        "zfs": "2.3.2",
        "files": {name: {"bytes": 100, "sha256": digest} for name in files},
    }
    (place / "manifest.json").write_text(json.dumps(manifest))
    return place


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('size = "384MiB"', 'sise = "384MiB"', ["device[0].sise", "size"]),
        ('memory = "4GiB"', "memory = 4", ["lab.memory", "integer 4"]),
        ('memory = "4GiB"', 'memory = "4Gigs"', ["'Gigs'", "GiB"]),
        ('role = "log"', 'role = "logs"', ["device[3].role", "log"]),
        ('preset = "disk-7200"', 'preset = "disk-7201"', ["device[0]", "known presets", "disk-7200"]),
        ('read_ahead = "512KiB"', 'read_ahead = "512K"', ["device[0]", "read_ahead"]),
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


def test_a_working_set_that_leaves_no_reads_to_the_l2arc_is_refused(hsp_here: Called, tmp_path: Path) -> None:
    for file in (ROOT / "workloads").iterdir():
        shutil.copy(file, tmp_path)
    workload = tmp_path / "top-speeds.toml"
    workload.write_text(workload.read_text().replace('\nsize = "auto" ', '\nsize = "16MiB" '))
    done = hsp_here("run", "./top-speeds.toml", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "working_set.size: phase 'read' asks for l2arc, but of 16MiB in records of 512B" in done.stderr
    assert "what to do" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "top-speed"], "there is no workload 'top-speed'"),
        (["run", "./missing.toml"], "missing.toml"),
        (["show", "nowhere"], "no such run directory"),
        (["lab", "up", "--build", "--suite", "../x"], "--suite"),
        (["lab", "up", "--build", "--pin", "zfs linux"], "--pin"),
        (["lab", "shell"], "no lab is up"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_is_exit_2(hsp_here: Called, tmp_path: Path, arguments: list[str], words: str) -> None:
    done = hsp_here(*arguments, cwd=tmp_path, XDG_RUNTIME_DIR=os.fspath(tmp_path))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stdout == ""


def test_without_mmdebstrap(hsp_here: Called, tmp_path: Path, tools: Path) -> None:
    done = hsp_here(
        "lab", "up", "--build", cwd=tmp_path, PATH=os.fspath(tools), XDG_CACHE_HOME=os.fspath(tmp_path)
    )
    fails(done, "error: mmdebstrap is not installed", "apt-get install mmdebstrap\n")


def test_without_qemu(tmp_path: Path, tools: Path) -> None:
    fake_image(tmp_path)
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    done = hsp(
        "run", "top-speeds", cwd=tmp_path, PATH=os.fspath(tools),
        XDG_CACHE_HOME=os.fspath(tmp_path), XDG_RUNTIME_DIR=os.fspath(runtime),
    )  # fmt: skip
    fails(done, "qemu-system-x86_64 is not installed", "apt-get install qemu-system-x86")
    assert not list(runtime.rglob("lab-*"))


def test_a_truncated_image_is_named(hsp_here: Called, tmp_path: Path) -> None:
    root = fake_image(tmp_path) / "root.img"
    root.write_bytes(b"x" * 60)
    done = hsp_here("run", "top-speeds", cwd=tmp_path, XDG_CACHE_HOME=os.fspath(tmp_path))
    fails(done, f"{root} has 60 bytes, it was built with 100", "build it again: hsp lab up --build")


def test_no_space_for_the_image(hsp_here: Called, small_disk: Callable[[int], Path], tmp_path: Path) -> None:
    done = hsp_here("lab", "up", "--build", cwd=tmp_path, XDG_CACHE_HOME=os.fspath(small_disk(16)))
    fails(done, "GiB free, building the lab image needs", "XDG_CACHE_HOME")


def test_no_space_for_the_results(
    hsp_here: Called, small_disk: Callable[[int], Path], tmp_path: Path
) -> None:
    fake_image(tmp_path)
    results = os.fspath(small_disk(16) / "r")
    words = ("run", "top-speeds", "--results", results)
    fails(hsp_here(*words, cwd=tmp_path, XDG_CACHE_HOME=os.fspath(tmp_path)), "MiB free, a run needs")


def test_a_failing_build_shows_why_names_its_log_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))
    inputs, images = ImageInputs(suite="no-such-release"), tmp_path / "hsp" / "images"
    with pytest.raises(HostError, match="building the lab image failed") as caught:
        build(inputs, Progress(quiet=True))
    log = images / f"{inputs.digest()}.log"
    assert "no-such-release" in caught.value.message and os.fspath(log) in caught.value.message
    assert "no-such-release" in log.read_text()
    assert "the name of the release" in caught.value.hint
    assert caught.value.exit_code == 5
    assert find(inputs) is None
    assert not list(images.glob(".build-*"))
