"""Images of full Debian machines: systemd, Debian's own kernel, all that the kit and its users run there.

The lab's image code builds them from another list of packages and with another last hook, in a cache
of their own: ~/.cache/hsp/debian/.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kit.core.cache import content_digest
from kit.core.files import cache_dir
from kit.core.progress import Progress
from kit.lab.image.image import Image, ImageInputs, build

HERE = Path(__file__).parent
SUITES = ("trixie", "bookworm")
KERNEL = "amd64"
# Beside the packages of the lab's guest.
_PACKAGES = (
    "chrony", "cron", "dbus", "e2fsprogs", "ethtool", "hdparm", "iputils-ping", "libpam-systemd",
    "multipath-tools", "nfs-ganesha", "nfs-ganesha-vfs", "nftables", "postgresql", "rpcbind", "sdparm",
    "sg3-utils", "systemd-sysv", "unattended-upgrades", "xfsprogs", "zfs-zed",
)  # fmt: skip


class DebianInputs(ImageInputs):
    """A full machine; all machines of a suite have the same image."""

    @property
    def cache(self) -> Path:
        return cache_dir() / "debian"

    @property
    def make_root(self) -> Path:
        return HERE / "make-machine.sh"

    @property
    def guest_packages(self) -> tuple[str, ...]:
        return (*super().guest_packages, *_PACKAGES)

    def digest(self) -> str:
        values = json.dumps([self.suite, self.pins, self.builder_packages, self.guest_packages])
        return content_digest(values, [self.make_root], HERE)


def image_of(suite: str) -> Image:
    """The image of a release, built if necessary. Raises HostError."""
    return build(DebianInputs(suite, kernel=KERNEL), Progress())


if __name__ == "__main__":
    for suite in sys.argv[1:] or SUITES:
        print(image_of(suite).path)
