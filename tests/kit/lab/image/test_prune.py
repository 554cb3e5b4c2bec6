"""What `hsp clean --cache` removes from the cache, and what it must never touch."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from kit.core.cache import lock_of
from kit.core.units import format_decimal_bytes
from kit.lab.guest import _Supervisor, running_labs
from kit.lab.image import tree as image_tree
from kit.lab.image.image import ImageInputs
from kit.lab.image.prune import prune
from tests.process import hsp

Called = Callable[..., subprocess.CompletedProcess[str]]
OTHER = "0123456789abcdef"
BACKPORTS = ImageInputs(pins=("zfs-linux/trixie-backports",))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.fspath(tmp_path / "runtime"))
    (tmp_path / "runtime").mkdir(mode=0o700)
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", os.fspath(tmp_path / "scratch"))
    return tmp_path / "cache" / "hsp"


def image(cache: Path, digest: str, inputs: ImageInputs | None = None) -> Path:
    """A finished image whose disk is mostly a hole, and the log of its build."""
    place = cache / "images" / digest
    place.mkdir(parents=True)
    for name in ("vmlinuz", "initrd.img"):
        (place / name).write_bytes(b"x" * 5000)
    with (place / "root.img").open("wb") as file:
        file.write(b"x" * 5000)
        file.truncate(1 << 30)
    made_from = {"inputs": asdict(inputs)} if inputs else {}
    (place / "manifest.json").write_text(json.dumps({"format": 1, **made_from}))
    (cache / "images" / f"{digest}.log").write_text("words\n")
    return place


def modules(cache: Path, digest: str) -> Path:
    tar = cache / "modules" / f"{digest}.tar"
    tar.parent.mkdir(parents=True, exist_ok=True)
    tar.write_bytes(b"x" * 5000)
    return tar


def dead_build(cache: Path, digest: str) -> Path:
    work = cache / "images" / f".build-{digest}-1"
    (work / "hsp-out").mkdir(parents=True)
    (work / "hsp-out" / "root.img").write_bytes(b"x" * 5000)
    return work


def nothing_runs() -> set[Path]:
    return set()


def names(path: Path) -> set[str]:
    """All but locks."""
    return {os.fspath(file.relative_to(path)) for file in path.rglob("*") if file.suffix != ".lock"}


def test_what_this_version_uses_stays_and_the_rest_goes(cache: Path) -> None:
    default = ImageInputs()
    image(cache, default.digest(), default)
    modules(cache, default.modules_digest())
    image(cache, BACKPORTS.digest(), BACKPORTS)
    modules(cache, BACKPORTS.modules_digest())
    before = names(cache)
    unused = [
        image(cache, OTHER),
        cache / "images" / f"{OTHER}.log",
        modules(cache, OTHER),
        dead_build(cache, OTHER),
        dead_build(cache, default.digest()),
    ]
    pruned = prune(nothing_runs)
    assert {leftover.path for leftover in pruned.removed} == set(unused)
    assert names(cache) == before
    assert (pruned.kept, pruned.failed) == ({}, {})


def test_an_image_of_a_suite_and_pins_that_would_be_made_otherwise_now_goes(cache: Path) -> None:
    old = image(cache, OTHER, BACKPORTS)
    tar = modules(cache, BACKPORTS.modules_digest())
    prune(nothing_runs)
    assert not old.exists()
    assert not tar.exists()


@pytest.mark.parametrize("manifest", ["", "[]", '{"inputs": 3}', '{"inputs": {"suite": "../x", "pins": []}}'])
def test_an_image_that_says_nothing_of_itself_goes(cache: Path, manifest: str) -> None:
    place = image(cache, OTHER)
    (place / "manifest.json").write_text(manifest)
    prune(nothing_runs)
    assert not place.exists()


def test_the_bytes_are_those_that_the_disk_gets_back(cache: Path) -> None:
    place = image(cache, OTHER)
    (cache / "images" / f"{OTHER}.log").unlink()
    du = subprocess.run(["du", "-s", "-B1", place], capture_output=True, text=True, check=True)
    used_bytes = int(du.stdout.split()[0])
    assert prune(nothing_runs).used_bytes == used_bytes < 1 << 30


def test_a_dry_run_says_the_same_and_removes_nothing(cache: Path) -> None:
    image(cache, OTHER)
    modules(cache, OTHER)
    dead_build(cache, ImageInputs().digest())
    before = names(cache)
    planned = prune(nothing_runs, dry_run=True)
    assert names(cache) == before
    assert prune(nothing_runs).removed == planned.removed
    assert len(planned.removed) == 4


def test_a_build_that_goes_on_keeps_what_is_its_own(cache: Path) -> None:
    work, place, tar = dead_build(cache, OTHER), image(cache, OTHER), modules(cache, OTHER)
    with lock_of(cache / "images", OTHER), lock_of(cache / "modules", OTHER):
        pruned = prune(nothing_runs)
    assert pruned.removed == []
    assert set(pruned.kept) == {work, place, place.with_suffix(".log"), tar}
    assert work.exists() and place.exists() and tar.exists()
    assert len(prune(nothing_runs).removed) == 4


def test_an_image_that_somebody_has_open_stays(cache: Path) -> None:
    place = image(cache, OTHER)
    with (place / "root.img").open("rb"):
        pruned = prune(nothing_runs)
    assert pruned.kept == {place: "a running lab uses it"}
    assert pruned.removed == []


def test_the_image_of_a_running_lab_stays_until_the_lab_has_ended(cache: Path, hsp_here: Called) -> None:
    """The supervisor is real; what it supervises has the image's name and nothing of it open."""
    place = image(cache, OTHER)
    lab = _Supervisor(files={}, argv=["sleep", "120"], info={"image": os.fspath(place)})
    try:
        assert [found["image"] for found in running_labs()] == [os.fspath(place)]
        done = hsp_here("clean", "--cache", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {
            "dry_run": False, "bytes": 0, "removed": [], "kept": {os.fspath(place): "a running lab uses it"},
        }  # fmt: skip
        assert (place / "root.img").exists()
    finally:
        lab.close()
    done = hsp_here("clean", "--cache")
    assert done.returncode == 0, done.stderr
    assert f"removed: {place} (image of another version" in done.stdout
    assert not place.exists()


def test_the_command_tells_paths_and_bytes(cache: Path, hsp_here: Called) -> None:
    tar = modules(cache, OTHER)
    used_bytes = tar.stat().st_blocks * 512
    planned = hsp_here("clean", "--cache", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    size = format_decimal_bytes(used_bytes)
    assert f"would remove: {tar} (modules of another version, {size})" in planned.stdout
    assert f"{size} would be freed" in planned.stdout
    assert tar.exists()
    done = json.loads(hsp("clean", "--cache", "--json").stdout)
    assert done["bytes"] == used_bytes
    assert done["removed"] == [
        {"path": os.fspath(tar), "what": "modules of another version", "bytes": used_bytes}
    ]
    assert not tar.exists()


def test_names_that_no_build_gives_are_left_alone(cache: Path) -> None:
    images = cache / "images"
    for name in ("mine", OTHER.upper(), f"{OTHER}0", f"{OTHER}.bak", ".build-x-1", f".build-{OTHER}-x"):
        (images / name).mkdir(parents=True)
    modules(cache, "mine")
    before = names(cache)
    assert prune(nothing_runs).removed == []
    assert names(cache) == before


def test_of_a_link_only_the_link_goes(cache: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    (cache / "images").mkdir(parents=True)
    (cache / "images" / OTHER).symlink_to(elsewhere)
    pruned = prune(nothing_runs)
    assert pruned.failed == {}
    assert list((cache / "images").glob(f"*{OTHER}*[!k]")) == []  # the lock stays
    assert (elsewhere / "file").read_text() == "mine"


def test_without_a_cache_there_is_nothing_and_none_is_made(cache: Path, hsp_here: Called) -> None:
    done = hsp_here("clean", "--cache")
    assert (done.returncode, done.stdout) == (0, "0 B freed\n")
    assert not cache.exists()


def test_a_cache_that_is_no_directory_is_named(cache: Path, hsp_here: Called) -> None:
    cache.mkdir(parents=True)
    (cache / "images").touch()
    done = hsp_here("clean", "--cache")
    assert done.returncode == 5, done.stderr
    assert os.fspath(cache / "images") in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_what_is_mounted_in_a_leftover_is_not_emptied(cache: Path, hsp_here: Called) -> None:
    work = dead_build(cache, OTHER)
    mounted = work / "a b"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], check=True)
    try:
        (mounted / "file").write_text("mine")
        tar = modules(cache, OTHER)
        done = hsp_here("clean", "--cache")
        assert done.returncode == 5, done.stderr
        assert f"{work}: {mounted} is mounted in it" in done.stderr
        assert (mounted / "file").read_text() == "mine"
        assert not tar.exists()  # one that stays does not keep the others
    finally:
        subprocess.run(["umount", mounted], check=True)


def test_hooks_of_an_ordinary_users_dead_build_go_and_those_of_a_living_one_stay(
    cache: Path, tmp_path: Path
) -> None:
    def scratch(name: str) -> Path:
        path = tmp_path / "scratch" / f"hsp-{os.geteuid()}-{name}"
        path.mkdir()
        return path

    dead, living = scratch(f"{OTHER}-abcdefgh"), scratch(f"{OTHER}-abcdefg_")
    other = scratch("my-own")
    (tmp_path / "scratch" / f"hsp-{os.geteuid()}-{OTHER}-abcdefgi").symlink_to(other)
    held = os.open(living, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        removed = {leftover.path for leftover in prune(nothing_runs).removed}
        # The machine's real /var/tmp is looked at as well.
        assert {path for path in removed if tmp_path in path.parents} == {dead}
    finally:
        os.close(held)
    assert (dead.exists(), living.exists(), other.exists()) == (False, True, True)


def test_a_living_build_holds_its_hooks(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.geteuid()
    calls = iter([1])  # the first question is whether this is root
    monkeypatch.setattr(os, "geteuid", lambda: next(calls, real))
    monkeypatch.setattr(image_tree, "NEEDED_TREE_BYTES", 0)
    with image_tree.scratch(tmp_path, OTHER) as place:
        assert place.hooks.parent == tmp_path / "scratch"
        assert image_tree.dead_scratch() == []
    assert not place.hooks.exists()
