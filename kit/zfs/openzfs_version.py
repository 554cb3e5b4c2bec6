"""The OpenZFS version of a server, and the features that depend on it.

Sources: the tags zfs-2.1.x to zfs-2.4.x of OpenZFS; /sys/module/zfs/version and zfs-version(8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.core.errors import HostError
from kit.hosts.base import Host

_MODULE = "/sys/module/zfs/version"
_NUMBERS = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,5}))?(?![\d.])")
_NEWEST = (2, 4)


@dataclass(frozen=True, order=True)
class ZfsVersion:
    """Ordered by its numbers. `text` is the module's own version string, with the packager's suffix."""

    major: int
    minor: int
    patch: int = 0
    text: str = ""

    def __str__(self) -> str:
        return f"OpenZFS {self.major}.{self.minor}"

    @property
    def has_json(self) -> bool:
        """`zpool status -j` and other JSON output."""
        return self >= ZfsVersion(2, 3)

    @property
    def has_zil_by_dataset(self) -> bool:
        """zil_* in a dataset's objset kstat; earlier versions have only totals of all pools."""
        return self >= ZfsVersion(2, 2)

    @property
    def has_arc_iohit(self) -> bool:
        """A probe for a hit on a block that another thread is reading."""
        return self >= ZfsVersion(2, 2)

    @property
    def has_direct_io(self) -> bool:
        """Direct I/O, and counters of all I/O by pool (`iostats`)."""
        return self >= ZfsVersion(2, 3)


def parse(text: str) -> ZfsVersion:
    """Parse `2.3.9-1`, `zfs-2.1.11-1+deb12u1` and similar. Raises ValueError."""
    text = text.strip()
    match = _NUMBERS.match(text.removeprefix("zfs-").removeprefix("kmod-"))
    if not match:
        raise ValueError(f"'{text[:80]}' is not a version of OpenZFS")
    return ZfsVersion(int(match[1]), int(match[2]), int(match[3] or 0), text)


def read(server: Host) -> ZfsVersion:
    """The version of the loaded module. Raises HostError if none is loaded, or it is older than 2.1."""
    result = server.run(["cat", _MODULE], check=False)
    if result.returncode:
        raise HostError(
            f"{server.name} has no OpenZFS module loaded ({_MODULE})",
            "load it there: modprobe zfs",
        )
    try:
        version = parse(result.stdout)
    except ValueError as error:
        raise HostError(f"{server.name}: {_MODULE}: {error}") from None
    if version < ZfsVersion(2, 1):
        raise HostError(
            f"{server.name} runs OpenZFS {version.text}; the kit knows 2.1 to 2.4",
            "install a newer OpenZFS on the server",
        )
    return version


def notes(server: Host, version: ZfsVersion) -> list[str]:
    """Remarks for the report: an untested version, or tools of another version than the module.

    Raises HostError if tools and module are of different series: they are then incompatible.
    """
    texts = []
    if (version.major, version.minor) > _NEWEST:
        texts.append(
            f"OpenZFS {version.text} on {server.name} is newer than 2.4, the newest the kit was tried with"
        )
    result = server.run(["zfs", "version"], check=False)
    tools = result.stdout.splitlines()[0] if result.returncode == 0 and result.stdout.strip() else ""
    try:
        userland = parse(tools)
    except ValueError:
        return [
            *texts,
            f"the version of the tools zfs and zpool on {server.name} is not known: {result.describe()}",
        ]
    if (userland.major, userland.minor) != (version.major, version.minor):
        raise HostError(
            f"on {server.name} the zfs module is {version.text}, but the tools zfs and zpool are "
            f"{userland.text.removeprefix('zfs-')}",
            "after an update the old module stays loaded until the server is booted again",
        )
    if userland.patch != version.patch:
        texts.append(
            f"on {server.name} the zfs module is {version.text}, but its tools are "
            f"{userland.text.removeprefix('zfs-')}"
        )
    return texts
