"""The lab's guest image: built once from Debian's packages, cached by what it is made from.

    ~/.cache/hsp/images/<digest>/  vmlinuz  initrd.img  root.img  manifest.json
    ~/.cache/hsp/modules/<digest>.tar       the compiled OpenZFS modules

A directory is there whole or not at all: it is built beside its place and renamed last.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import filelock
import platformdirs

from kit.errors import HostError
from kit.hosts.base import CommandFailed, DeadlineExceeded
from kit.hosts.local import LocalHost
from kit.lab.image.inputs import (
    BUILDER_PACKAGES,
    COMPONENTS,
    GUEST_PACKAGES,
    HERE,
    KEYRING,
    ImageInputs,
    apt_sources,
    debian_mirror,
)
from kit.progress import Progress

__all__ = ["Image", "ImageInputs", "build", "cache_dir", "find"]

FORMAT = 1
_FILES = ("vmlinuz", "initrd.img", "root.img")
_VERSIONS = (
    "bpftrace", "fio", "linux-image-cloud-amd64", "nfs-common", "nfs-kernel-server",
    "openssh-server", "python3-pyzfs", "zfsutils-linux",
)  # fmt: skip
# Two trees while they are built, the image twice, and the modules.
NEEDED_BYTES = 5 << 30
# What make-root.sh says then.
_STALE = "modules were built for"
_BUILD_DEADLINE_S = 3600.0
_LOCK_DEADLINE_S = 3600.0


@dataclass(frozen=True)
class Image:
    """A finished image."""

    path: Path
    manifest: dict[str, Any]

    def check(self) -> None:
        """Sizes against the manifest. Raises HostError."""
        for name, recorded in self.manifest["files"].items():
            file = self.path / name
            found = file.stat().st_size if file.exists() else -1
            if found != recorded["bytes"]:
                raise HostError(
                    f"the lab image is damaged: {file} has {max(found, 0)} bytes, "
                    f"it was built with {recorded['bytes']}",
                    "build it again: hsp lab build --rebuild",
                )

    def verify(self) -> None:
        """As `check`, and the contents too (takes seconds). Raises HostError."""
        self.check()
        for name, recorded in self.manifest["files"].items():
            if _sha256(self.path / name) != recorded["sha256"]:
                raise HostError(
                    f"the lab image is damaged: {self.path / name} is not what was built",
                    "build it again: hsp lab build --rebuild",
                )


def cache_dir() -> Path:
    return Path(platformdirs.user_cache_dir("hsp"))


def find(inputs: ImageInputs) -> Image | None:
    """The finished image for these inputs, if there is one. Raises HostError if it is damaged."""
    path = cache_dir() / "images" / inputs.digest()
    try:
        manifest = json.loads((path / "manifest.json").read_text())
    except (OSError, ValueError):
        return None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return None
    image = Image(path, manifest)
    image.check()
    return image


def build(inputs: ImageInputs, progress: Progress, rebuild: bool = False) -> Image:
    """The image, built if need be. Steps: modules, guest tree, manifest, rename.

    A second build of the same image waits for the first and uses its result. Raises HostError.
    """
    with _lock(inputs, progress):
        place = cache_dir() / "images" / inputs.digest()
        if rebuild:
            shutil.rmtree(place, ignore_errors=True)
        elif image := find(inputs):
            return image
        # Whoever else built here is dead: the lock is ours.
        for stale in place.parent.glob(f".build-{place.name}-*"):
            shutil.rmtree(stale, ignore_errors=True)
        _check_tools()
        _check_space(cache_dir())
        work = place.parent / f".build-{place.name}-{os.getpid()}"
        work.mkdir(mode=0o755)
        try:
            manifest = _build_in(work, inputs, progress)
            with progress.step("recording what was built"):
                _finish(work, manifest)
            shutil.rmtree(place, ignore_errors=True)
            work.rename(place)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        image = find(inputs)
        assert image is not None
        return image


@contextmanager
def _lock(inputs: ImageInputs, progress: Progress) -> Iterator[None]:
    path = cache_dir() / "images" / f".{inputs.digest()}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        with contextlib.suppress(filelock.Timeout):
            with lock.acquire(timeout=0):
                yield
            return
        with progress.step("waiting for another build of the same image"), lock.acquire(_LOCK_DEADLINE_S):
            pass
        with lock.acquire(timeout=_LOCK_DEADLINE_S):
            yield
    except OSError as error:
        raise _no_space_or(error, path.parent) from error
    except filelock.Timeout:
        raise HostError(
            f"another build of the same image has held {path} for more than {_LOCK_DEADLINE_S:g} s",
            "is it still running?",
        ) from None


def _check_tools() -> None:
    needed = {
        "mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs", "setpriv": "util-linux", "xz": "xz-utils",
    }  # fmt: skip
    missing = {tool: package for tool, package in needed.items() if shutil.which(tool) is None}
    if missing:
        raise HostError(
            f"{', '.join(missing)} is not installed; the lab image is built with it",
            f"install it: apt-get install {' '.join(sorted(set(missing.values())))}",
        )


def _check_space(path: Path) -> None:
    free = shutil.disk_usage(path).free
    if free < NEEDED_BYTES:
        raise HostError(
            f"{path} has {free / 2**30:.1f} GiB free, building the lab image needs {NEEDED_BYTES >> 30} GiB",
            "free some space, or set XDG_CACHE_HOME to a place that has it",
        )


def _build_in(work: Path, inputs: ImageInputs, progress: Progress) -> dict[str, Any]:
    """Leave the three files and the tools' words in `work`; returns the manifest without files."""
    took: dict[str, float] = {}
    started = time.monotonic()
    log = cache_dir() / "images" / f"{inputs.digest()}.log"
    (work / "preferences").write_text(inputs.preferences())
    modules = cache_dir() / "modules" / f"{inputs.modules_digest()}.tar"
    if not modules.exists():
        with (
            progress.step("compiling the OpenZFS modules (about six minutes on two cores)"),
            _hooks() as hooks,
        ):
            _compile_modules(work, inputs, modules, log, hooks)
        took["modules"] = round(time.monotonic() - started, 1)
    started = time.monotonic()
    try:
        _install_guest(work, inputs, modules, log, progress)
    except HostError as error:
        if "modules" in took or _STALE not in error.message:
            raise
        progress.note("Debian has another kernel or OpenZFS than when the modules were compiled")
        modules.unlink()
        return _build_in(work, inputs, progress)
    took["guest"] = round(time.monotonic() - started, 1)
    out = work / "hsp-out"
    packages = dict(line.split("\t") for line in (out / "packages.tsv").read_text().splitlines())
    return {
        "format": FORMAT,
        "digest": inputs.digest(),
        "inputs": asdict(inputs),
        "kernel": (out / "kernel").read_text().strip(),
        "zfs": (out / "zfs").read_text().strip(),
        "versions": {name: packages[name] for name in _VERSIONS},
        "seconds": took,
    }


def _install_guest(work: Path, inputs: ImageInputs, modules: Path, log: Path, progress: Progress) -> None:
    """Leave hsp-out/ in `work`. Raises HostError, with _STALE in it if the modules do not fit."""
    with progress.step("installing the guest and making its disk"), _hooks() as hooks:
        shutil.copyfile(modules, work / "modules.tar")
        _pack_guest_files(work / "hsp-guest.tar")
        _mmdebstrap(
            work, inputs, GUEST_PACKAGES, log,
            f"copy-in {_quoted(work / 'modules.tar')} {_quoted(work / 'hsp-guest.tar')} /",
            os.fspath(hooks / "make-root.sh"),
            f"copy-out /hsp-out {_quoted(work)}",
        )  # fmt: skip
        # mmdebstrap's copy-out fills the holes in.
        LocalHost().run(["fallocate", "--dig-holes", os.fspath(work / "hsp-out" / "root.img")])


def _compile_modules(work: Path, inputs: ImageInputs, modules: Path, log: Path, hooks: Path) -> None:
    _mmdebstrap(
        work, inputs, BUILDER_PACKAGES, log,
        os.fspath(hooks / "build-modules.sh"),
        f"copy-out /modules.tar {_quoted(work)}",
    )  # fmt: skip
    modules.parent.mkdir(parents=True, exist_ok=True)
    (work / "modules.tar").rename(modules)


@contextmanager
def _hooks() -> Iterator[Path]:
    """Copies of the hook scripts that are executable, and readable for mmdebstrap's subordinate user.

    An installed package's files need not be executable, and a home directory need not be open.
    """
    with tempfile.TemporaryDirectory(prefix="hsp-hooks-") as name:
        path = Path(name)
        path.chmod(0o755)
        for script in HERE.glob("*.sh"):
            shutil.copyfile(script, path / script.name)
            (path / script.name).chmod(0o755)
        yield path


def _quoted(path: Path) -> str:
    """For mmdebstrap's own copy-in and copy-out hooks, which are split like a shell's words."""
    return shlex.quote(os.fspath(path))


def _mmdebstrap(work: Path, inputs: ImageInputs, packages: tuple[str, ...], log: Path, *hooks: str) -> None:
    """One tree, made and thrown away; what shall stay leaves it by a copy-out hook. Raises HostError."""
    mirror = debian_mirror()
    argv = [
        # If this process is killed, the build ends too.
        "setpriv", "--pdeathsig", "TERM", "--",
        "mmdebstrap", "--variant=minbase", "--format=null", "--architectures=amd64",
        f"--components={COMPONENTS}", f"--include={','.join(packages)}",
        f"--setup-hook=copy-in {_quoted(work / 'preferences')} /etc/apt",
        *(f"--customize-hook={hook}" for hook in hooks),
    ]  # fmt: skip
    if not mirror and KEYRING.exists():
        argv.append(f"--keyring={KEYRING}")
    argv += [inputs.suite, "-", *(apt_sources(inputs, mirror))]
    with log.open("ab") as output:
        try:
            LocalHost().run(argv, deadline_s=_BUILD_DEADLINE_S, output=output)
        except (CommandFailed, DeadlineExceeded) as error:
            tail = "\n".join(f"  {line}" for line in _last_lines(log))
            raise HostError(
                f"building the lab image failed; the last lines of {log}:\n{tail}",
                "is Debian's mirror reachable, and is the release's name right?",
            ) from error


def _last_lines(log: Path, count: int = 12) -> list[str]:
    text = log.read_bytes()[-20_000:].decode(errors="replace")
    return [line for line in text.splitlines() if line.strip()][-count:]


def _pack_guest_files(tar: Path) -> None:
    places = {
        "hsp-init": "usr/local/sbin",
        "hsp-sshd-ports": "usr/local/sbin",
        "hsp_sshd_config": "etc/ssh",
    }
    tree = tar.with_suffix(".d")
    for name, place in places.items():
        (tree / place).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / "guest" / name, tree / place / name)
        (tree / place / name).chmod(0o755 if "sbin" in place else 0o644)
    LocalHost().run(["tar", "-C", os.fspath(tree), "--owner=0", "--group=0", "-cf", os.fspath(tar), "."])


def _finish(work: Path, manifest: dict[str, Any]) -> None:
    """Only the image's own files stay; the manifest is written last."""
    for name in _FILES:
        (work / "hsp-out" / name).rename(work / name)
    for leftover in list(work.iterdir()):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        elif leftover.name not in _FILES:
            leftover.unlink()
    manifest["files"] = {
        name: {"bytes": (work / name).stat().st_size, "sha256": _sha256(work / name)} for name in _FILES
    }
    (work / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _no_space_or(error: OSError, path: Path) -> HostError:
    return HostError(
        f"{path}: {error.strerror}", "the cache directory must be writable; XDG_CACHE_HOME chooses another"
    )
