"""Pruning of the cache: removal of entries that this version of the kit will not use again.

Kept are: the image and the modules that this version makes by default; images of other suites and pins
that this version would build with the same digest; saved guests of these images; aged states of the present
device models; everything that a running guest has open; everything of a build in progress. Files with other
names than builds use are ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import filelock

from kit.core import proc_path
from kit.core.cache import cache_dir, cannot_use, lock_of
from kit.core.errors import ConfigError
from kit.lab.image.inputs import ImageInputs
from kit.lab.image.tree import dead_scratch

_IMAGE = re.compile(r"^([0-9a-f]{16})(\.log)?$")
_WORK = re.compile(r"^\.build-([0-9a-f]{16})-[0-9]+$")
_MODULES = re.compile(r"^([0-9a-f]{16})\.tar$")
_DEAD = "left by a build that was killed"


@dataclass(frozen=True)
class Leftover:
    """A path to remove. `used_bytes`: allocated blocks, less than the size if there are holes."""

    path: Path
    what: str
    used_bytes: int


@dataclass
class Pruned:
    """Result: removed paths (or those to remove in a dry run); paths kept or failed, with the reason."""

    removed: list[Leftover] = field(default_factory=list)
    kept: dict[Path, str] = field(default_factory=dict)
    failed: dict[Path, str] = field(default_factory=dict)

    @property
    def used_bytes(self) -> int:
        return sum(leftover.used_bytes for leftover in self.removed)


def prune(
    images_in_use: Callable[[], set[Path]],
    dry_run: bool = False,
    made: Mapping[str, Callable[[Path], bool]] = MappingProxyType({}),
) -> Pruned:
    """Remove unused entries, each under the lock that a build of it would hold.

    `images_in_use` is called before each removal. `made`: other folders of the cache by name, with a function
    that tells whether this version still uses a directory in it. Raises HostError if the cache is unreadable.
    """
    result = Pruned()
    images, modules = cache_dir() / "images", cache_dir() / "modules"
    try:
        for digest, paths in _by_digest([*_named(images, _IMAGE), *_named(images, _WORK)]).items():
            with _free(images, digest, paths, result) as free:
                for path in paths if free else []:
                    _prune_image(path, digest, images_in_use, dry_run, result)
        used = {inputs.modules_digest() for inputs in [ImageInputs(), *_still_made(images)]}
        for digest, paths in _by_digest(_named(modules, _MODULES)).items():
            if digest not in used:
                with _free(modules, digest, paths, result) as free:
                    for path in paths if free else []:
                        _remove(path, "modules of another version", dry_run, result)
        for name, is_used in made.items():
            _prune_made(cache_dir() / name, is_used, dry_run, result)
        for path in dead_scratch():
            _remove(path, _DEAD, dry_run, result)
    except OSError as error:
        raise cannot_use(cache_dir(), error) from error
    return result


def _prune_image(
    path: Path, digest: str, images_in_use: Callable[[], set[Path]], dry_run: bool, result: Pruned
) -> None:
    """Remove one path of an image. The caller holds the digest's lock, so no build of it is running."""
    image = cache_dir() / "images" / digest
    if path.name not in (digest, f"{digest}.log"):
        _remove(path, _DEAD, dry_run, result)
    elif is_still_made(image):
        return
    elif image.resolve() in {used.resolve() for used in images_in_use()} | _open_directories():
        if path == image:
            result.kept[path] = "a running lab uses it"
    else:
        kind = "image of another version" if path == image else "log of a build without an image"
        _remove(path, kind, dry_run, result)


def _prune_made(folder: Path, is_used: Callable[[Path], bool], dry_run: bool, result: Pruned) -> None:
    for digest, paths in _by_digest([*_named(folder, _IMAGE), *_named(folder, _WORK)]).items():
        with _free(folder, digest, paths, result) as free:
            for path in paths if free else []:
                if path.name != digest:
                    _remove(path, _DEAD, dry_run, result)
                elif is_used(path):
                    continue
                elif path.resolve() in _open_directories():
                    result.kept[path] = "a running lab uses it"
                else:
                    _remove(path, f"{folder.name} state of another version", dry_run, result)


def _named(directory: Path, pattern: re.Pattern[str]) -> list[tuple[str, Path]]:
    """Digest and path of the entries of `directory` that match `pattern`; none if it does not exist."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    return [(match[1], directory / name) for name in names if (match := pattern.match(name))]


def _by_digest(candidates: list[tuple[str, Path]]) -> dict[str, list[Path]]:
    grouped: dict[str, list[Path]] = {}
    for digest, path in candidates:
        grouped.setdefault(digest, []).append(path)
    return grouped


@contextmanager
def _free(directory: Path, digest: str, paths: list[Path], result: Pruned) -> Iterator[bool]:
    """Whether no build of this is running; if so, the lock is held for the block.

    Lock files are not removed: if another process waits for one, both would get the lock.
    """
    if not directory.is_dir():
        yield True
        return
    lock = lock_of(directory, digest)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        result.kept.update(dict.fromkeys(paths, "a build is running"))
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _inputs(image: Path) -> ImageInputs | None:
    """The inputs of an image, if this version would make the same image from them."""
    try:
        recorded = json.loads((image / "manifest.json").read_text())["inputs"]
        inputs = ImageInputs(str(recorded["suite"]), tuple(str(pin) for pin in recorded["pins"]))
    except (OSError, ValueError, KeyError, TypeError, ConfigError):
        return None
    return inputs if inputs.digest() == image.name else None


def is_still_made(image: Path) -> bool:
    """Whether this version would make an image with that digest, by default or from its recorded inputs."""
    return image.name == ImageInputs().digest() or _inputs(image) is not None


def _still_made(images: Path) -> list[ImageInputs]:
    return [inputs for _, path in _named(images, _IMAGE) if (inputs := _inputs(path)) is not None]


def _open_directories() -> set[Path]:
    """Directories of the files that processes have open.

    A running guest has its root disk open, even if it was started with another XDG_RUNTIME_DIR, where
    running_labs() does not see it.
    """
    directories = set()
    for process in Path("/proc").iterdir():
        # The process may have ended or belong to another user, and a file may just be closed.
        with contextlib.suppress(OSError):
            for link in list((process / "fd").iterdir()) if process.name.isdigit() else []:
                with contextlib.suppress(OSError):
                    directories.add(Path(os.readlink(link)).parent)
    return directories


def _remove(path: Path, what: str, dry_run: bool, result: Pruned) -> None:
    try:
        leftover = Leftover(path, what, _used_bytes(path))
        mounts = _mounts_below(path)
        if mounts:
            result.failed[path] = f"{mounts[0]} is mounted in it"
            return
        if not dry_run:
            _remove_whole(path)
    except OSError as error:
        result.failed[path] = f"{error.filename or path}: {error.strerror or error}"
        return
    result.removed.append(leftover)


def _remove_whole(path: Path) -> None:
    """Remove a path. A directory is renamed first: after an interruption it looks like a dead build."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    if _IMAGE.match(path.name):
        aside = path.with_name(f".build-{path.name}-{os.getpid()}")
        path = path.rename(aside)
    shutil.rmtree(path)


def _mounts_below(path: Path) -> list[str]:
    """Mount points below `path`: a removal must not follow a mount, for example into the real /dev."""
    prefix = os.fspath(path.resolve()) + "/"
    mounts = proc_path.rows(os.fsdecode(Path("/proc/self/mounts").read_bytes()))
    points = [proc_path.unescape(fields[1]) for fields in mounts]
    return [point for point in points if f"{point}/".startswith(prefix)]


def _used_bytes(path: Path) -> int:
    total = path.lstat().st_blocks * 512
    if path.is_dir() and not path.is_symlink():
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                total += (Path(folder) / name).lstat().st_blocks * 512
    return total
