"""What a lab image is made from, and where Debian's packages come from on this machine. Pure but for apt."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.core.errors import ConfigError
from kit.hosts.local import LocalHost

HERE = Path(__file__).parent
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

GUEST_PACKAGES = (
    "bpftrace", "fio", "initramfs-tools", "iproute2", "kmod", "linux-image-cloud-amd64", "lvm2", "lz4",
    "mdadm", "nfs-common", "nfs-kernel-server", "nvme-cli", "openssh-server", "procps", "python3-pyzfs",
    "smartmontools", "sudo", "udev", "util-linux", "zfsutils-linux",
)  # fmt: skip
BUILDER_PACKAGES = ("dkms", "linux-headers-cloud-amd64")
DEFAULT_SUITE = "trixie"
COMPONENTS = "main,contrib"  # OpenZFS is in contrib

_SUITE = re.compile(r"^[a-z][a-z0-9-]{1,40}$")
# SOURCE=VERSION or SOURCE/RELEASE, as apt writes package=version and package/release.
_PIN = re.compile(r"^([a-z0-9][a-z0-9+.-]+)(=[A-Za-z0-9.+~:*-]+|/[a-z][a-z0-9-]+)$")
_PIN_PARTS = re.compile(r"([=/])")


@dataclass(frozen=True)
class ImageInputs:
    """`pins` choose the version of everything built from a source package."""

    suite: str = DEFAULT_SUITE
    pins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _SUITE.fullmatch(self.suite):
            raise ConfigError(
                f"--suite: '{self.suite}' is not the name of a Debian release", "such as trixie or bookworm"
            )
        for pin in self.pins:
            if not _PIN.fullmatch(pin):
                raise ConfigError(
                    f"--pin: '{pin}' is neither SOURCE=VERSION nor SOURCE/RELEASE",
                    "for example zfs-linux/trixie-backports or zfs-linux=2.3.2-2",
                )

    @property
    def releases(self) -> tuple[str, ...]:
        """Releases beside the suite that pins take packages from."""
        named = {pin.partition("/")[2] for pin in self.pins} - {""}
        return tuple(sorted(named - {self.suite}))

    def preferences(self) -> str:
        """apt_preferences(5): pinned sources win whatever else is newer."""
        text = ""
        for pin in self.pins:
            source, kind, value = _PIN_PARTS.split(pin, maxsplit=1)
            wanted = f"version {value}" if kind == "=" else f"release n={value}"
            text += f"Package: src:{source}\nPin: {wanted}\nPin-Priority: 1001\n\n"
        return text

    def modules_digest(self) -> str:
        """Of what the compiled kernel modules depend on."""
        return _digest([self.suite, self.pins, BUILDER_PACKAGES], [HERE / "build-modules.sh"])

    def digest(self) -> str:
        """Of everything the image is made from, except where it is downloaded from."""
        files = [path for path in HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        lists = [self.suite, self.pins, BUILDER_PACKAGES, GUEST_PACKAGES, COMPONENTS]
        return _digest(lists, [path for path in files if path.suffix != ".py"])


def _digest(values: Sequence[object], files: list[Path]) -> str:
    digest = hashlib.sha256(json.dumps(values).encode())
    for path in sorted(files):
        digest.update(path.relative_to(HERE).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def debian_mirror() -> str:
    """The mirror that this machine's own apt uses for Debian; empty if it uses none (Ubuntu)."""
    fields = "$(REPO_URI)|$(CODENAME)|$(ORIGIN)|$(LABEL)|$(COMPONENT)"
    result = LocalHost().run(
        ["apt-get", "indextargets", "--format", fields, "Created-By: Packages"], check=False
    )
    return pick_mirror(result.stdout)


def pick_mirror(index_targets: str) -> str:
    """Of apt's index targets, the plain Debian archive. Pure."""
    for line in index_targets.splitlines():
        uri, codename, origin, label, component = (line.split("|") + [""] * 5)[:5]
        if (origin, label, component) == ("Debian", "Debian", "main") and "-" not in codename:
            return uri.rstrip("/")
    return ""
