"""Compiled modules that do not fit the guest: Debian's kernel or OpenZFS moved on since.

make-root.sh, the hooks and the build are real. In place of mmdebstrap stands a program that makes a
tree with a kernel of its own and runs the build's hooks on it, so that no package is installed: what
is looked at is how the build decides, and that it asks for the modules to be compiled.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.lab.image import image as lab_image
from kit.lab.image.image import ImageInputs, build, find
from kit.lab.image.inputs import HERE
from kit.lab.image.tree import StaleModules

pytestmark = pytest.mark.faults

OLD, NEW = "6.12.1+deb13-cloud-amd64", "6.12.99+deb13-cloud-amd64"

# Arguments are mmdebstrap's. Notes which packages were asked for; compiles nothing.
MMDEBSTRAP = """\
#!/usr/bin/env python3
import json, os, pathlib, shlex, shutil, subprocess, sys, tempfile

notes, kernel = pathlib.Path(os.environ["TEST_NOTES"]), os.environ["TEST_KERNEL"]
include = next(a.partition("=")[2] for a in sys.argv if a.startswith("--include="))
with notes.open("a") as file:
    file.write(json.dumps(include.split(",")) + "\\n")
if "dkms" in include:
    sys.exit("the headers cannot be had")
root = pathlib.Path(tempfile.mkdtemp())
try:
    (root / "boot").mkdir()
    (root / "boot" / f"vmlinuz-{kernel}").touch()
    (root / "lib" / "modules" / kernel).mkdir(parents=True)
    for hook in (a.partition("=")[2] for a in sys.argv if a.startswith("--customize-hook=")):
        words = shlex.split(hook)
        if words[0] == "copy-in":
            for source in words[1:-1]:
                shutil.copy(source, root / words[-1].lstrip("/"))
        elif words[0] == "copy-out":
            sys.exit("not reached: the modules do not fit")
        else:
            subprocess.run([hook, root], check=True)
finally:
    shutil.rmtree(root)
"""


def write_modules(tar: Path, kernel: str) -> None:
    """As build-modules.sh packs them: a directory that bears the kernel's version."""
    tar.parent.mkdir(parents=True, exist_ok=True)
    entry = tarfile.TarInfo(f"lib/modules/{kernel}/updates/dkms")
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    with tarfile.open(tar, "w") as archive:
        archive.addfile(entry)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the modules of a private cache lie; mmdebstrap is the one above, its kernel is NEW."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mmdebstrap").write_text(MMDEBSTRAP)
    (programs / "mmdebstrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "cache"))
    monkeypatch.setenv("TEST_NOTES", os.fspath(tmp_path / "notes"))
    monkeypatch.setenv("TEST_KERNEL", NEW)
    return tmp_path / "cache" / "hsp" / "modules" / f"{ImageInputs().modules_digest()}.tar"


def trees_asked_for(tmp_path: Path) -> list[list[str]]:
    return [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]


def test_make_root_says_which_kernel_the_modules_are_for(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "boot").mkdir(parents=True)
    (root / "boot" / f"vmlinuz-{NEW}").touch()
    write_modules(root / "modules.tar", OLD)
    with tarfile.open(root / "hsp-guest.tar", "w"):
        pass
    done = subprocess.run(
        [HERE / "make-root.sh", root], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"modules were built for {OLD} but the guest has kernel {NEW}\n"


@pytest.mark.image
def test_modules_for_another_kernel_are_compiled_again(
    tmp_path: Path, modules: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_modules(modules, OLD)
    with pytest.raises(HostError, match="the headers cannot be had"):
        build(ImageInputs(), Progress())
    # The guest was tried with the cached modules, then the tree that compiles was asked for.
    assert trees_asked_for(tmp_path) == [
        list(ImageInputs().guest_packages),
        list(ImageInputs().builder_packages),
    ]
    assert "the cached modules are older than Debian's packages" in capsys.readouterr().err
    assert not modules.exists()
    assert find(ImageInputs()) is None


@pytest.mark.image
def test_modules_that_fit_are_not_compiled_again(tmp_path: Path, modules: Path) -> None:
    """The tree is too empty to become a guest; that must not look like modules that do not fit."""
    write_modules(modules, NEW)
    with pytest.raises(HostError, match="building the lab image failed") as caught:
        build(ImageInputs(), Progress(quiet=True))
    assert not isinstance(caught.value, StaleModules)
    assert trees_asked_for(tmp_path) == [list(ImageInputs().guest_packages)]
    assert modules.exists()


@pytest.mark.image
def test_modules_compiled_just_now_that_do_not_fit_end_the_build(
    tmp_path: Path, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian changed between the two trees: the next build may fit, this one must not go round."""
    trees = []

    def compile_old(build: lab_image._Build, place: object) -> None:
        trees.append(build.modules)
        write_modules(build.modules, OLD)

    monkeypatch.setattr(lab_image._Build, "compile_modules", compile_old)
    with pytest.raises(StaleModules, match="for another kernel than the guest's"):
        build(ImageInputs(), Progress(quiet=True))
    assert trees == [modules]


def test_modules_of_another_openzfs_than_the_guests_tools_are_compiled_again(
    tmp_path: Path, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_modules(modules, NEW)
    compiled: list[tuple[str, ...]] = []

    def tree(place: object, inputs: object, packages: tuple[str, ...], *_: object, **__: object) -> None:
        """What make-root.sh leaves when the tools came out newer than the modules."""
        if packages != ImageInputs().guest_packages:
            compiled.append(packages)
            raise HostError("the headers cannot be had")
        work = next((modules.parents[1] / "images").glob(".build-*"))
        out = work / "hsp-out"
        out.mkdir()
        (out / "zfs").write_text("2.3.2-2\n")
        (out / "packages.tsv").write_text("zfsutils-linux\t2.3.9-0+deb13u1\n")

    monkeypatch.setattr(lab_image, "make_tree", tree)
    with pytest.raises(HostError, match="the headers cannot be had"):
        build(ImageInputs(), Progress(quiet=True))
    assert compiled == [ImageInputs().builder_packages]
    assert not modules.exists()
