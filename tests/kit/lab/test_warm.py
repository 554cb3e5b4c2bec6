"""kit.lab.warm: which saved guest fits, and what is wrong with one that does not. Nothing is started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from kit.core.cache import sha256
from kit.core.clock import Clock
from kit.lab import warm
from kit.lab.image.image import Image, ImageInputs
from kit.lab.qemu import ExtraDisk, LabSpec

SPEC = LabSpec(Path("/images/x"), Clock("virtual", 4))
IMAGE = Image(Path("/images/x"), {"files": {"root.img": {"bytes": 1, "sha256": "a"}}})


@pytest.fixture
def qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / warm.QEMU
    path.write_text("7.2")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "cache"))
    return path


@pytest.mark.parametrize(
    "change",
    [
        {"memory_mib": 2048},
        {"ssh_ports": 4},
        {"clock": Clock("real")},
        {"image_dir": Path("/images/y")},
        {"extra_disks": (ExtraDisk("vd0", "virtio", "S", 1 << 20),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_machine_is_another_guest(qemu: Path, change: dict[str, Any]) -> None:
    digest = warm.digest_of(SPEC, IMAGE)
    other = replace(SPEC, **change)
    assert warm.digest_of(other, Image(other.image_dir, IMAGE.manifest)) != digest


def test_another_image_or_qemu_of_the_same_name_is_another_guest(qemu: Path) -> None:
    digest = warm.digest_of(SPEC, IMAGE)
    rebuilt = Image(IMAGE.path, {"files": {"root.img": {"bytes": 1, "sha256": "b"}}})
    assert warm.digest_of(SPEC, rebuilt) != digest
    qemu.write_text("7.2 with a fix")
    assert warm.digest_of(SPEC, IMAGE) != digest


def test_a_seed_makes_no_other_guest(qemu: Path) -> None:
    assert warm.digest_of(replace(SPEC, seed=1), IMAGE) == warm.digest_of(replace(SPEC, seed=2), IMAGE)


def test_who_boots_anyway() -> None:
    assert warm.can_be_saved(SPEC)
    assert not warm.can_be_saved(replace(SPEC, clock=Clock("real")))
    assert not warm.can_be_saved(replace(SPEC, extra_kernel_args=("root=/dev/null",)))
    assert not warm.can_be_saved(replace(SPEC, extra_disks=(ExtraDisk("ns1", "nvme", "S", 1 << 20),)))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "warm" / "0123456789abcdef"
    place.mkdir(parents=True)
    files = {}
    for name in ("root-01234567", "memory-01234567"):
        (place / name).write_bytes(name.encode() * 1000)
        files[name] = {"bytes": (place / name).stat().st_size, "sha256": sha256(place / name)}
    (place / "manifest.json").write_text(
        json.dumps({"format": warm.FORMAT, "token": "01234567", "files": files})
    )
    return place


def test_what_is_whole_is_used(place: Path) -> None:
    assert warm.damage(place) == ""


@pytest.mark.skipif(not shutil.which("qemu-img"), reason="qemu-img is not installed")
@pytest.mark.parametrize("has_data_file", [False, True])
def test_a_disk_that_lies_on_another_file_is_not_resumed(
    place: Path, tmp_path: Path, has_data_file: bool
) -> None:
    image, shadow, root = tmp_path / "root.img", tmp_path / "shadow", place / "root-01234567"
    for file in (image, shadow):
        file.write_bytes(bytes(1 << 20))

    def make(backing: Path, *more: str) -> str:
        root.unlink()
        base = ["-F", "raw", "-b", str(backing)]
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *more, *base, str(root)], check=True)
        manifest = json.loads((place / "manifest.json").read_text())
        manifest["files"][root.name] = {"bytes": root.stat().st_size, "sha256": sha256(root)}
        (place / "manifest.json").write_text(json.dumps(manifest))
        return warm.damage(place, image)

    assert make(image) == ""
    if has_data_file:
        assert "a data file of its own" in make(image, "-o", f"data_file={tmp_path / 'data'}")
    else:
        assert str(shadow) in make(shadow)


def test_what_is_cut_short_or_changed_or_missing_is_named(place: Path) -> None:
    memory = place / "memory-01234567"
    content = memory.read_bytes()
    memory.write_bytes(content[:-1])
    assert f"{memory} has {len(content) - 1} bytes, {len(content)} were written" in warm.damage(place)
    memory.write_bytes(content[:-1] + b"!")
    assert warm.damage(place) == f"{memory} was changed after it was written"
    memory.unlink()
    assert warm.damage(place) == f"{memory}: No such file or directory"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 1}', '{"format": 1, "token": "../../x", "files": {}}', "nul"]
)
def test_a_manifest_that_is_none(place: Path, text: str) -> None:
    (place / "manifest.json").write_text(text)
    assert "manifest.json is damaged" in warm.damage(place)


def test_of_another_format(place: Path) -> None:
    (place / "manifest.json").write_text('{"format": 99}')
    assert warm.damage(place) == "it has format 99"


def test_nothing_there_is_no_saved_guest(tmp_path: Path) -> None:
    assert "No such file" in warm.damage(tmp_path / "x")


def test_what_this_version_would_not_resume_is_not_kept(qemu: Path) -> None:
    cache = qemu.parent / "cache" / "hsp"
    image = Image(cache / "images" / ImageInputs().digest(), IMAGE.manifest)
    image.path.mkdir(parents=True)
    (image.path / "manifest.json").write_text(json.dumps(image.manifest))
    disks = (ExtraDisk("vd0", "virtio", "S", 1 << 20),)
    spec = replace(SPEC, image_dir=image.path, extra_disks=disks)
    place = cache / "warm" / warm.digest_of(spec, image)
    place.mkdir(parents=True)
    recorded = asdict(spec) | {"image_dir": os.fspath(image.path)}
    for change, kept in (
        ({}, True),
        ({"memory_mib": 1}, False),
        ({"image_dir": "x"}, False),
        ({"clock": {"kind": "virtual", "dilation": 0}}, False),
    ):
        (place / "manifest.json").write_text(json.dumps({"spec": recorded | change}))
        assert warm.current(place) == kept
    (place / "manifest.json").write_text(json.dumps({"spec": recorded}))
    qemu.write_text("another QEMU")
    assert not warm.current(place)
    qemu.unlink()
    assert warm.current(place), "without QEMU nobody can say"
