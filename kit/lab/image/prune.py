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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import filelock

from kit.core import proc_path
from kit.core.cache import cannot_use, lock_of
from kit.core.errors import ConfigError
from kit.core.files import cache_dir
from kit.lab.image.inputs import ImageInputs
from kit.lab.image.tree import dead_scratch

_IMAGE = re.compile(r"^([0-9a-f]{16})(\.log)?$")
_WORK = re.compile(r"^\.build-([0-9a-f]{16})-[0-9]+$")
_MODULES = re.compile(r"^([0-9a-f]{16})\.tar$")
_DEAD = "left by a build that was killed"


@dataclass(frozen=True)
class RemovablePath:
    """A path to remove. `used_bytes`: allocated blocks, less than the size if there are holes."""

    path: Path
    what: str
    used_bytes: int


@dataclass
class Pruned:
    """Result: removed paths (or those to remove in a dry run); paths kept or failed, with the reason."""

    removed: list[RemovablePath] = field(default_factory=list)
    kept: dict[Path, str] = field(default_factory=dict)
    failed: dict[Path, str] = field(default_factory=dict)

    @property
    def used_bytes(self) -> int:
        return sum(leftover.used_bytes for leftover in self.removed)


def prune(
    images_in_use: Callable[[], set[Path]],
    dry_run: bool = False,
    made: Mapping[str, Callable[[Path], bool]] | None = None,
) -> Pruned:
    """Remove unused entries, each under the lock that a build of it would hold.

    `images_in_use` is called before each removal. `made`: other folders of the cache by name, with a function
    that tells whether this version still uses a directory in it. Raises HostError if the cache is unreadable.
    """
    pruning = _Pruning(images_in_use, dry_run)
    images, modules = cache_dir() / "images", cache_dir() / "modules"
    try:
        pruning.entries(images, _built(images), is_still_made, "image of another version")
        used = {inputs.modules_digest() for inputs in [ImageInputs(), *_still_made(images)]}
        unused = [(digest, path) for digest, path in _named(modules, _MODULES) if digest not in used]
        pruning.entries(modules, unused, lambda _: False, "modules of another version")
        for name, is_used in (made or {}).items():
            folder = cache_dir() / name
            pruning.entries(folder, _built(folder), is_used, f"{name} state of another version")
        for path in dead_scratch():
            pruning.remove(path, _DEAD)
    except OSError as error:
        raise cannot_use(cache_dir(), error) from error
    return pruning.result


@dataclass
class _Pruning:
    images_in_use: Callable[[], set[Path]]
    dry_run: bool
    result: Pruned = field(default_factory=Pruned)

    def entries(
        self, folder: Path, paths: list[tuple[str, Path]], is_used: Callable[[Path], bool], what: str
    ) -> None:
        """Remove the paths of `folder` (digest, path) that are unused and that no build has locked.

        Lock files are not removed: if another process waits for one, both would get the lock.
        """
        for digest in dict.fromkeys(digest for digest, _ in paths):
            own = [path for other, path in paths if other == digest]
            try:
                with lock_of(folder, digest).acquire(timeout=0):
                    for path in own:
                        self._entry(path, folder / digest, is_used, what)
            except filelock.Timeout:
                self.result.kept.update(dict.fromkeys(own, "a build is running"))

    def _entry(self, path: Path, entry: Path, is_used: Callable[[Path], bool], what: str) -> None:
        """Judge one path of an entry; the caller holds the entry's lock, so no build of it is running."""
        if path.name.startswith(".build-"):
            self.remove(path, _DEAD)
        elif is_used(entry):
            return
        elif entry.resolve() in {used.resolve() for used in self.images_in_use()} | _open_directories():
            if path == entry:
                self.result.kept[path] = "a running lab uses it"
        else:
            self.remove(path, "log of a build without an image" if path.suffix == ".log" else what)

    def remove(self, path: Path, what: str) -> None:
        try:
            leftover = RemovablePath(path, what, _used_bytes(path))
            mounts = _mounts_below(path)
            if mounts:
                self.result.failed[path] = f"{mounts[0]} is mounted in it"
                return
            if not self.dry_run:
                _remove_whole(path)
        except OSError as error:
            self.result.failed[path] = f"{error.filename or path}: {error.strerror or error}"
            return
        self.result.removed.append(leftover)


def _built(folder: Path) -> list[tuple[str, Path]]:
    return [*_named(folder, _IMAGE), *_named(folder, _WORK)]


def _named(directory: Path, pattern: re.Pattern[str]) -> list[tuple[str, Path]]:
    """Digest and path of the entries of `directory` that match `pattern`; none if it does not exist."""
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    return [(match[1], directory / name) for name in names if (match := pattern.match(name))]


def _inputs(image: Path) -> ImageInputs | None:
    """The inputs of an image, if this version would make the same image from them."""
    try:
        recorded = json.loads((image / "manifest.json").read_text())["inputs"]
        pins = tuple(str(pin) for pin in recorded["pins"])
        inputs = ImageInputs(str(recorded["suite"]), pins, str(recorded["kernel"]))
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
