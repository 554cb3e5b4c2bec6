"""Build and cache of the lab's guest image, from Debian's packages.

    ~/.cache/hsp/images/<digest>/  vmlinuz  initrd.img  root.img  manifest.json
    ~/.cache/hsp/modules/<digest>.tar       the compiled OpenZFS modules

A directory is complete or absent: it is built under another name and renamed last.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kit.core.cache import check_space, locked, replacing, sha256
from kit.core.progress import Progress
from kit.hosts.local import LocalHost
from kit.lab.image.damage import FILES, DamagedImage, check, read_json
from kit.lab.image.inputs import DEFAULT_KERNEL, DEFAULT_SUITE, HERE, ImageInputs
from kit.lab.image.tree import Scratch, StaleModules, check_tools, hook, make_tree, quoted, scratch

__all__ = ["DEFAULT_KERNEL", "DEFAULT_SUITE", "Image", "ImageInputs", "build", "find"]

FORMAT = 1
_VERSIONS = (
    "bpftrace", "fio", "linux-image-{kernel}", "nfs-common", "nfs-kernel-server",
    "openssh-server", "python3-pyzfs", "zfsutils-linux",
)  # fmt: skip
# Place in the guest and mode; make-root.sh gives them to root.
_GUEST_FILES = {
    "usr/local/sbin/hsp-init": 0o755,
    "usr/local/sbin/hsp-sshd-ports": 0o755,
    "etc/ssh/hsp_sshd_config": 0o644,
}
# The guest's tree with its disk image, a second copy of the image, and the modules.
NEEDED_BYTES = 5 << 30
_COMPILING = "compiling the OpenZFS modules (about three minutes on two cores)"
_INSTALLING = "installing the guest and making its disk"


@dataclass(frozen=True)
class Image:
    """A finished image."""

    path: Path
    manifest: dict[str, Any]


def find(inputs: ImageInputs, remember: bool = False, anew: bool = False) -> Image | None:
    """The finished image for these inputs, if there is one. Raises DamagedImage.

    `remember`, `anew`: as in kit.lab.image.damage.check.
    """
    path = inputs.cache / "images" / inputs.digest()
    manifest = read_json(path / "manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        return None
    check(path, manifest, remember, anew)
    return Image(path, manifest)


def build(inputs: ImageInputs, progress: Progress, rebuild: bool = False, mend: bool = False) -> Image:
    """The image, built if necessary. Steps: modules, guest tree, manifest, rename.

    A second build of the same image waits for the first and uses its result. `mend`: read the whole
    image, and build a damaged one again. Raises HostError; DamagedImage without `mend`.
    """
    with locked(inputs.cache / "images", inputs.digest(), "another build of the same image", progress):
        path = inputs.cache / "images" / inputs.digest()
        if rebuild:
            shutil.rmtree(path, ignore_errors=True)
        elif image := _whole(inputs, progress, mend):
            return image
        with replacing(path, mode=0o755) as work:
            check_tools()
            check_space(inputs.cache, NEEDED_BYTES, "building the lab image")
            modules = inputs.cache / "modules" / f"{inputs.modules_digest()}.tar"
            log = path.with_name(f"{path.name}.log")
            manifest = _Build(work, inputs, progress, modules, log).make(rebuild)
            with progress.step("writing the manifest"):
                _finish(work, manifest)
        image = find(inputs, remember=True)
        assert image is not None
        return image


def _whole(inputs: ImageInputs, progress: Progress, mend: bool) -> Image | None:
    """As `find`; None for a damaged image that is to be mended."""
    try:
        return find(inputs, remember=True, anew=mend)
    except DamagedImage as damage:
        if not mend:
            raise
        progress.note(f"{damage.message}; it is built again")
        return None


@dataclass
class _Build:
    """One build. `work`: its directory. `modules`: the cached modules. `seconds`: duration of its steps."""

    work: Path
    inputs: ImageInputs
    progress: Progress
    modules: Path
    log: Path
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def _versions(self) -> list[str]:
        """Names of the packages whose versions the manifest has."""
        return [name.format(kernel=self.inputs.kernel) for name in _VERSIONS]

    def make(self, rebuild: bool) -> dict[str, Any]:
        """Build the three files in hsp-out/ of `work`; returns the manifest without `files`."""
        self.log.unlink(missing_ok=True)
        (self.work / "preferences").write_text(self.inputs.preferences())
        # Builds of different images may share the modules; the second build does not compile them again.
        with locked(
            self.modules.parent, self.modules.stem, "another build with the same modules", self.progress
        ):
            if rebuild:
                self.modules.unlink(missing_ok=True)
            self._make_parts()
        out = self.work / "hsp-out"
        return {
            "format": FORMAT,
            "digest": self.inputs.digest(),
            "inputs": asdict(self.inputs),
            "kernel": (out / "kernel").read_text().strip(),
            "zfs": (out / "zfs").read_text().strip(),
            "versions": {name: _packages(out)[name] for name in self._versions},
            "seconds": self.seconds,
        }

    def _make_parts(self) -> None:
        """Compile the modules, unless cached ones fit, and install the guest with them."""
        cached = self.modules.exists()
        with scratch(self.work, self.inputs.digest()) as place, self.progress.numbered(1 if cached else 2):
            if not cached:
                self.compile_modules(place)
            try:
                self.install_guest(place)
            except StaleModules:
                if not cached:
                    raise
                # Debian has a newer kernel or OpenZFS since the modules were compiled.
                self.progress.note(
                    "the cached modules are older than Debian's packages; compiling them again"
                )
                self.modules.unlink()
                with self.progress.numbered(2):
                    self.compile_modules(place)
                    self.install_guest(place)

    def compile_modules(self, place: Scratch) -> None:
        with self._timed("modules", _COMPILING):
            self._make_tree(
                place, self.inputs.builder_packages, [hook(place, HERE / "build-modules.sh")], "modules.tar"
            )
            (self.work / "modules.tar").rename(self.modules)

    def install_guest(self, place: Scratch) -> None:
        """Make hsp-out/ in `work`. Raises HostError; StaleModules if the modules do not fit."""
        with self._timed("guest", _INSTALLING):
            tars = [self.work / "modules.tar", self.work / "hsp-guest.tar"]
            shutil.copyfile(self.modules, tars[0])
            _pack_guest_files(tars[1])
            copy_in = f"copy-in {' '.join(map(quoted, tars))} /"
            self._make_tree(
                place, self.inputs.guest_packages, [copy_in, hook(place, self.inputs.make_root)], "hsp-out"
            )
            out = self.work / "hsp-out"
            compiled, userland = (out / "zfs").read_text().strip(), _packages(out)["zfsutils-linux"]
            if compiled != userland:
                shutil.rmtree(out)
                raise StaleModules(
                    f"the modules are OpenZFS {compiled}, the guest's tools are {userland}; see {self.log}"
                )
            # mmdebstrap's copy-out writes the holes as zeroes.
            LocalHost().run(["fallocate", "--dig-holes", os.fspath(out / "root.img")])

    def _make_tree(self, place: Scratch, packages: Sequence[str], hooks: list[str], result: str) -> None:
        """Make a tree, run the hooks on it, and copy its /`result` to `work`."""
        make_tree(
            place, self.inputs, packages, self.log,
            setup=[f"copy-in {quoted(self.work / 'preferences')} /etc/apt"],
            customize=[*hooks, f"copy-out /{result} {quoted(self.work)}"],
        )  # fmt: skip

    @contextmanager
    def _timed(self, name: str, text: str) -> Iterator[None]:
        start = time.monotonic()
        with self.progress.step(text):
            yield
        self.seconds[name] = round(time.monotonic() - start, 1)


def _packages(out: Path) -> dict[str, str]:
    """Version of each package installed in the guest."""
    return dict(line.split("\t") for line in (out / "packages.tsv").read_text().splitlines())


def _pack_guest_files(tar: Path) -> None:
    with tarfile.open(tar, "w") as archive:
        for place, mode in _GUEST_FILES.items():
            path = HERE / "guest" / Path(place).name
            entry = archive.gettarinfo(path, place)
            entry.mode = mode
            with path.open("rb") as file:
                archive.addfile(entry, file)


def _finish(work: Path, manifest: dict[str, Any]) -> None:
    """Remove everything but the image's files, and write the manifest last."""
    for name in FILES:
        (work / "hsp-out" / name).rename(work / name)
    for leftover in list(work.iterdir()):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        elif leftover.name not in FILES:
            leftover.unlink()
    manifest["files"] = {
        name: {"bytes": (work / name).stat().st_size, "sha256": sha256(work / name)} for name in FILES
    }
    (work / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
