"""Inputs of a lab image: suite, kernel, pins, packages, files; and the Debian mirror of this machine."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from kit.core.cache import content_digest
from kit.core.errors import ConfigError
from kit.core.files import cache_dir
from kit.hosts.local import LocalHost

HERE = Path(__file__).parent
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

GUEST_PACKAGES = (
    "bpftrace", "fio", "initramfs-tools", "iproute2", "kmod", "linux-image-{kernel}", "lvm2", "lz4",
    "mdadm", "nfs-common", "nfs-kernel-server", "nvme-cli", "openssh-server", "procps", "python3-pyzfs",
    "smartmontools", "sudo", "udev", "util-linux", "zfsutils-linux",
)  # fmt: skip
BUILDER_PACKAGES = ("dkms", "linux-headers-{kernel}")
DEFAULT_SUITE = "trixie"
DEFAULT_KERNEL = "cloud-amd64"
COMPONENTS = "main,contrib"  # OpenZFS is in contrib

# What stands behind linux-image- and linux-headers-: a flavour, or a version and a flavour.
_KERNEL = re.compile(r"^[a-z0-9][a-z0-9.+~-]{1,60}$")
_SUITE = re.compile(r"^[a-z][a-z0-9-]{1,40}$")
# SOURCE=VERSION or SOURCE/RELEASE, as apt writes package=version and package/release.
_PIN = re.compile(r"^([a-z0-9][a-z0-9+.-]+)(=[A-Za-z0-9.+~:*-]+|/[a-z][a-z0-9-]+)$")
_PIN_PARTS = re.compile(r"([=/])")


@dataclass(frozen=True)
class ImageInputs:
    """Suite, pins and kernel of an image.

    A pin selects the version of all packages built from a source package. `kernel`: the name of its packages,
    as `cloud-amd64` (the release's newest) or `6.12.107+deb13-cloud-amd64`.
    """

    suite: str = DEFAULT_SUITE
    pins: tuple[str, ...] = ()
    kernel: str = DEFAULT_KERNEL

    def __post_init__(self) -> None:
        if not _SUITE.fullmatch(self.suite):
            raise ConfigError(
                f"--suite: '{self.suite}' is not the name of a Debian release", "such as trixie or bookworm"
            )
        if not _KERNEL.fullmatch(self.kernel):
            raise ConfigError(
                f"--kernel: '{self.kernel}' is not the name of a kernel of Debian",
                "what stands behind linux-image- in the name of its package: cloud-amd64, or "
                "6.12.107+deb13-cloud-amd64",
            )
        for pin in self.pins:
            if not _PIN.fullmatch(pin):
                raise ConfigError(
                    f"--pin: '{pin}' is neither SOURCE=VERSION nor SOURCE/RELEASE",
                    "for example zfs-linux/trixie-backports or zfs-linux=2.3.2-2",
                )

    @property
    def cache(self) -> Path:
        """Directory with the folders `images` and `modules`."""
        return cache_dir()

    @property
    def make_root(self) -> Path:
        """The hook that makes the disk of the guest's tree."""
        return HERE / "make-root.sh"

    @property
    def guest_packages(self) -> tuple[str, ...]:
        return tuple(name.format(kernel=self.kernel) for name in GUEST_PACKAGES)

    @property
    def builder_packages(self) -> tuple[str, ...]:
        """Of the tree in which the modules are compiled."""
        return tuple(name.format(kernel=self.kernel) for name in BUILDER_PACKAGES)

    @property
    def releases(self) -> tuple[str, ...]:
        """Additional releases that pins take packages from."""
        named = {pin.partition("/")[2] for pin in self.pins} - {""}
        return tuple(sorted(named - {self.suite}))

    def preferences(self) -> str:
        """Text for apt_preferences(5): a pinned version is preferred to a newer one."""
        text = ""
        for pin in self.pins:
            source, kind, value = _PIN_PARTS.split(pin, maxsplit=1)
            version = f"version {value}" if kind == "=" else f"release n={value}"
            text += f"Package: src:{source}\nPin: {version}\nPin-Priority: 1001\n\n"
        return text

    def modules_digest(self) -> str:
        """Digest of the inputs of the compiled kernel modules."""
        values = json.dumps([self.suite, self.pins, self.builder_packages])
        return content_digest(values, [HERE / "build-modules.sh"], HERE)

    def digest(self) -> str:
        """Digest of all inputs of the image, except the mirror."""
        files = [path for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        values = json.dumps([self.suite, self.pins, self.builder_packages, self.guest_packages, COMPONENTS])
        return content_digest(values, sorted(path for path in files if path.suffix != ".py"), HERE)


def debian_mirror() -> str:
    """URL of the Debian mirror in this machine's apt configuration; "" if there is none (Ubuntu)."""
    fields = "$(REPO_URI)|$(CODENAME)|$(ORIGIN)|$(LABEL)|$(COMPONENT)"
    result = LocalHost().run(
        ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], check=False
    )
    return pick_mirror(result.stdout)


def pick_mirror(index_targets: str) -> str:
    """URL of the main Debian archive among apt's index targets; "" if there is none. Pure."""
    for line in index_targets.splitlines():
        uri, codename, origin, label, component = (line.split("|") + [""] * 5)[:5]
        if (origin, label, component) == ("Debian", "Debian", "main") and "-" not in codename:
            return uri.rstrip("/")
    return ""
