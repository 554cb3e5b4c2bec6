"""Build and cache of the lab's guest image, from Debian's packages.

    ~/.cache/hsp/images/<digest>/  vmlinuz  initrd.img  root.img  manifest.json
    ~/.cache/hsp/modules/<digest>.tar       the compiled OpenZFS modules

A directory is complete or absent: it is built under another name and renamed last.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kit.core.cache import cache_dir, check_space, locked, replacing, sha256
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.hosts.local import LocalHost
from kit.lab.image.inputs import BUILDER_PACKAGES, DEFAULT_SUITE, GUEST_PACKAGES, HERE, ImageInputs
from kit.lab.image.tree import Scratch, StaleModules, check_tools, hook, make_tree, quoted, scratch

__all__ = ["DEFAULT_SUITE", "Image", "ImageInputs", "build", "find"]

FORMAT = 1
_FILES = ("vmlinuz", "initrd.img", "root.img")
_VERSIONS = (
    "bpftrace", "fio", "linux-image-cloud-amd64", "nfs-common", "nfs-kernel-server",
    "openssh-server", "python3-pyzfs", "zfsutils-linux",
)  # fmt: skip
# The guest's tree with its disk image, a second copy of the image, and the modules.
NEEDED_BYTES = 5 << 30
_COMPILING = "compiling the OpenZFS modules (about three minutes on two cores)"
_INSTALLING = "installing the guest and making its disk"


@dataclass(frozen=True)
class Image:
    """A finished image."""

    path: Path
    manifest: dict[str, Any]

    def check(self) -> None:
        """Check the sizes of the files against the manifest. Raises HostError."""
        for name, recorded in self.manifest["files"].items():
            file = self.path / name
            size_bytes = file.stat().st_size if file.exists() else 0
            if not file.exists() or size_bytes != recorded["bytes"]:
                raise HostError(
                    f"the lab image is damaged: {file} has {size_bytes} bytes, "
                    f"it was built with {recorded['bytes']}",
                    "build it again: hsp lab build --rebuild",
                )


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
    """The image, built if necessary. Steps: modules, guest tree, manifest, rename.

    A second build of the same image waits for the first and uses its result. Raises HostError.
    """
    with locked(cache_dir() / "images", inputs.digest(), "another build of the same image", progress):
        path = cache_dir() / "images" / inputs.digest()
        if rebuild:
            shutil.rmtree(path, ignore_errors=True)
        elif image := find(inputs):
            return image
        with replacing(path, mode=0o755) as work:
            check_tools()
            check_space(cache_dir(), NEEDED_BYTES, "building the lab image")
            manifest = _build_in(work, inputs, progress, rebuild)
            with progress.step("writing the manifest"):
                _finish(work, manifest)
        image = find(inputs)
        assert image is not None
        return image


def _build_in(work: Path, inputs: ImageInputs, progress: Progress, rebuild: bool) -> dict[str, Any]:
    """Build the three files in `work`; returns the manifest without `files`."""
    seconds: dict[str, float] = {}
    log = cache_dir() / "images" / f"{inputs.digest()}.log"
    log.unlink(missing_ok=True)
    (work / "preferences").write_text(inputs.preferences())
    modules = cache_dir() / "modules" / f"{inputs.modules_digest()}.tar"
    # Builds of different images may share the modules; the second build does not compile them again.
    with locked(modules.parent, modules.stem, "another build with the same modules", progress):
        if rebuild:
            modules.unlink(missing_ok=True)
        _make_parts(work, inputs, modules, log, seconds, progress)
    out = work / "hsp-out"
    return {
        "format": FORMAT,
        "digest": inputs.digest(),
        "inputs": asdict(inputs),
        "kernel": (out / "kernel").read_text().strip(),
        "zfs": (out / "zfs").read_text().strip(),
        "versions": {name: _packages(out)[name] for name in _VERSIONS},
        "seconds": seconds,
    }


def _make_parts(
    work: Path, inputs: ImageInputs, modules: Path, log: Path, seconds: dict[str, float], progress: Progress
) -> None:
    """Compile the modules, unless cached ones fit, and install the guest with them."""

    def compile_modules() -> None:
        with _timed("modules", _COMPILING, seconds, progress):
            _compile_modules(work, place, inputs, modules, log)

    def install_guest() -> None:
        with _timed("guest", _INSTALLING, seconds, progress):
            _install_guest(work, place, inputs, modules, log)

    cached = modules.exists()
    with scratch(work, inputs.digest()) as place, progress.numbered(1 if cached else 2):
        if not cached:
            compile_modules()
        try:
            install_guest()
        except StaleModules:
            if not cached:
                raise
            # Debian has a newer kernel or OpenZFS since the modules were compiled.
            progress.note("the cached modules are older than Debian's packages; compiling them again")
            modules.unlink()
            with progress.numbered(2):
                compile_modules()
                install_guest()


@contextmanager
def _timed(name: str, text: str, seconds: dict[str, float], progress: Progress) -> Iterator[None]:
    start = time.monotonic()
    with progress.step(text):
        yield
    seconds[name] = round(time.monotonic() - start, 1)


def _compile_modules(work: Path, place: Scratch, inputs: ImageInputs, modules: Path, log: Path) -> None:
    make_tree(
        place, inputs, BUILDER_PACKAGES, log,
        setup=[f"copy-in {quoted(work / 'preferences')} /etc/apt"],
        customize=[hook(place, "build-modules.sh"), f"copy-out /modules.tar {quoted(work)}"],
    )  # fmt: skip
    (work / "modules.tar").rename(modules)


def _install_guest(work: Path, place: Scratch, inputs: ImageInputs, modules: Path, log: Path) -> None:
    """Make hsp-out/ in `work`. Raises HostError; StaleModules if `modules` does not fit."""
    shutil.copyfile(modules, work / "modules.tar")
    _pack_guest_files(work / "hsp-guest.tar")
    make_tree(
        place, inputs, GUEST_PACKAGES, log,
        setup=[f"copy-in {quoted(work / 'preferences')} /etc/apt"],
        customize=[
            f"copy-in {quoted(work / 'modules.tar')} {quoted(work / 'hsp-guest.tar')} /",
            hook(place, "make-root.sh"),
            f"copy-out /hsp-out {quoted(work)}",
        ],
    )  # fmt: skip
    out = work / "hsp-out"
    compiled, userland = (out / "zfs").read_text().strip(), _packages(out)["zfsutils-linux"]
    if compiled != userland:
        shutil.rmtree(out)
        raise StaleModules(f"the modules are OpenZFS {compiled}, the guest's tools are {userland}; see {log}")
    # mmdebstrap's copy-out writes the holes as zeroes.
    LocalHost().run(["fallocate", "--dig-holes", os.fspath(out / "root.img")])


def _packages(out: Path) -> dict[str, str]:
    """Version of each package installed in the guest."""
    return dict(line.split("\t") for line in (out / "packages.tsv").read_text().splitlines())


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
    """Remove everything but the image's files, and write the manifest last."""
    for name in _FILES:
        (work / "hsp-out" / name).rename(work / name)
    for leftover in list(work.iterdir()):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        elif leftover.name not in _FILES:
            leftover.unlink()
    manifest["files"] = {
        name: {"bytes": (work / name).stat().st_size, "sha256": sha256(work / name)} for name in _FILES
    }
    (work / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
