"""Images of the lab that are not as they were built: none is booted, each is named, and can be mended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kit.core.progress import Progress
from kit.lab.image import damage, image
from kit.lab.image.damage import DamagedImage
from kit.lab.image.image import ImageInputs, build, find
from tests.conftest import Called
from tests.faults.test_set_up_faults import fake_image
from tests.process import hsp

INPUTS = ImageInputs()
QUIET = Progress(quiet=True)
Edit = Callable[[dict[str, Any]], Any]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished image in a cache of its own, without a lab."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path))
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.fspath(tmp_path / "runtime"))
    return fake_image(tmp_path)


def edit_manifest(place: Path, edit: Edit) -> None:
    manifest = json.loads((place / "manifest.json").read_text())
    edit(manifest)
    (place / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda m: m.pop("files"), "files: Field required"),
        (lambda m: m.update(files={}), "files.vmlinuz: Field required"),
        (lambda m: m.update(files=None), "files: "),
        (lambda m: m.update(files=[1]), "files: "),
        (lambda m: m["files"].pop("root.img"), "files.root.img: Field required"),
        (lambda m: m["files"].update({"root.img": 100}), "files.root.img: "),
        (lambda m: m["files"]["root.img"].pop("bytes"), "files.root.img.bytes: Field required"),
        (lambda m: m["files"]["root.img"].update(bytes="100"), "files.root.img.bytes: "),
        (lambda m: m["files"]["root.img"].update(bytes=-1), "files.root.img.bytes: "),
        (lambda m: m["files"]["root.img"].update(bytes=True), "files.root.img.bytes: "),
        (lambda m: m["files"]["root.img"].update(bytes=99), "root.img has 100 bytes, it was built with 99"),
        (lambda m: m["files"]["root.img"].pop("sha256"), "files.root.img.sha256: Field required"),
        (lambda m: m["files"]["root.img"].update(sha256=""), "files.root.img.sha256: "),
        (lambda m: m["files"]["root.img"].update(sha256="0" * 64), "root.img was changed"),
        (lambda m: m.pop("kernel"), "kernel: Field required"),
        (lambda m: m.update(zfs=2), "zfs: "),
    ],
)
def test_a_manifest_that_describes_no_image(place: Path, edit: Edit, words: str) -> None:
    edit_manifest(place, edit)
    with pytest.raises(DamagedImage) as caught:
        find(INPUTS)
    assert words in caught.value.message and os.fspath(place) in caught.value.message
    assert caught.value.hint == "build it again: hsp lab up --build"


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"format": 99}', b"\xff", b"[" * 99999, None])
def test_what_no_build_has_finished_is_no_image(place: Path, content: bytes | None) -> None:
    (place / "manifest.json").unlink()
    if content is None:
        os.mkfifo(place / "manifest.json")
    else:
        (place / "manifest.json").write_bytes(content)
    assert find(INPUTS) is None


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("name", damage.FILES)
@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda file: file.write_bytes(b"x" * 99), "has 99 bytes, it was built with 100"),
        (lambda file: file.write_bytes(b""), "has 0 bytes"),
        (lambda file: file.write_bytes(b"x" * 99 + b"y"), "was changed after it was built"),
        (lambda file: file.unlink(), "No such file or directory"),
        (lambda file: (file.unlink(), file.mkdir()), "is not a regular file"),
        (fifo, "is not a regular file"),
        (lambda file: (file.unlink(), file.symlink_to("/dev/zero")), "is not a regular file"),
    ],
    ids=["short", "empty", "flipped", "missing", "directory", "fifo", "device"],
)
@pytest.mark.parametrize("booted_before", [False, True])
def test_a_file_that_is_not_as_it_was_built(
    place: Path, name: str, break_it: Callable[[Path], object], words: str, booted_before: bool
) -> None:
    if booted_before:
        build(INPUTS, QUIET)
    break_it(place / name)
    for use in (find, lambda inputs: build(inputs, QUIET)):
        with pytest.raises(DamagedImage) as caught:
            use(INPUTS)
        assert f"{place / name}" in caught.value.message and words in caught.value.message


def test_a_bit_that_is_flipped_without_a_trace_in_size_and_mtime(place: Path) -> None:
    root = place / "root.img"
    build(INPUTS, QUIET)
    before = root.stat()
    with root.open("r+b") as file:
        file.write(b"y")
    os.utime(root, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert root.stat().st_mtime_ns == before.st_mtime_ns
    with pytest.raises(DamagedImage, match=r"root\.img was changed"):
        build(INPUTS, QUIET)


def test_an_image_is_read_once_until_it_changes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    digest = damage.sha256
    monkeypatch.setattr(damage, "sha256", lambda path: (read.append(path.name), digest(path))[1])
    find(INPUTS)
    assert read == list(damage.FILES) and not (place / "checked.json").exists()
    build(INPUTS, QUIET)
    read.clear()
    for _ in range(2):
        assert build(INPUTS, QUIET) and find(INPUTS)
    assert read == []
    # A copy of the image is new on its disk.
    content = (place / "root.img").read_bytes()
    (place / "copy").write_bytes(content)
    (place / "copy").rename(place / "root.img")
    build(INPUTS, QUIET)
    assert read == list(damage.FILES)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"root.img": []}'])
def test_what_is_remembered_may_be_damaged_too(place: Path, content: bytes) -> None:
    build(INPUTS, QUIET)
    (place / "checked.json").write_bytes(content)
    assert build(INPUTS, QUIET)
    root = place / "root.img"
    root.write_bytes(root.read_bytes()[:-1] + b"y")
    (place / "checked.json").write_bytes(content)
    with pytest.raises(DamagedImage):
        build(INPUTS, QUIET)


def test_status_names_the_damage(hsp_here: Called, place: Path) -> None:
    done = hsp_here("list", "labs")
    assert (done.returncode, done.stdout) == (0, f"image: {place}\nno lab is up\n")
    edit_manifest(place, lambda manifest: manifest.pop("files"))
    done = hsp_here("list", "labs")
    assert done.returncode == 0, done.stderr
    assert "the lab image is damaged: " in done.stdout and "files: Field required" in done.stdout
    assert "build it again: hsp lab up --build\nno lab is up\n" in done.stdout
    done = hsp_here("list", "labs", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["image"] is None and "Field required" in answer["damage"] and answer["labs"] == []


@pytest.mark.parametrize("broken", ["manifest", "root.img", "disk"])
def test_lab_build_mends_it(place: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build's own steps, which need a mirror and minutes, put the same files there again."""

    def make(self: image._Build, rebuild: bool) -> dict[str, Any]:
        (self.work / "hsp-out").mkdir()
        for name in damage.FILES:
            (self.work / "hsp-out" / name).write_bytes(b"new")
        return {"format": image.FORMAT, "kernel": "6.12.2", "zfs": "2.3.3"}

    monkeypatch.setattr(image._Build, "make", make)
    monkeypatch.setattr(image, "check_tools", lambda: None)
    monkeypatch.setattr(image, "NEEDED_BYTES", 0)
    if broken == "manifest":
        edit_manifest(place, lambda manifest: manifest.update(files={}))
    else:
        (place / "root.img").write_bytes(b"x" * 99 + b"y")
    if broken == "disk":
        # The file system saw no change: what is stored of the file is what it is now.
        states = damage._states(place, json.loads((place / "manifest.json").read_text()))
        (place / "checked.json").write_text(json.dumps(states))
        build(INPUTS, QUIET)
    else:
        with pytest.raises(DamagedImage):
            build(INPUTS, QUIET)
    mended = build(INPUTS, QUIET, mend=True)
    assert mended.path == place and mended.manifest["zfs"] == "2.3.3"
    assert (place / "root.img").read_bytes() == b"new"
    assert find(INPUTS) == build(INPUTS, QUIET) == mended


def test_a_damaged_image_that_cannot_be_built_again_stays_for_a_look(place: Path, tmp_path: Path) -> None:
    edit_manifest(place, lambda manifest: manifest.update(files={}))
    before = (place / "manifest.json").read_bytes()
    done = hsp("lab", "up", "--build", PATH=os.fspath(tmp_path))
    assert done.returncode == 5, done.stderr
    assert "the lab image is damaged" in done.stderr and "it is built again" in done.stderr
    assert "mmdebstrap" in done.stderr and "Traceback" not in done.stderr
    assert (place / "manifest.json").read_bytes() == before
