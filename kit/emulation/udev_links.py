"""By-id links and serials for emulated devices, so that a testbed can list them like real ones.

A udev(7) rule below /run makes them, which is removed at the next boot at the latest. `hsp host disks` and
lsblk show the serial `hsp-emulated-NAME`; ZFS finds the links of the partitions that it makes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from kit.hosts.base import Host

RULES = "/run/udev/rules.d/61-hsp-emulated.rules"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_KERNEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_APPLY = """\\
set -e
mkdir -p "${1%/*}"
cat >"$1"
shift
udevadm control --reload
udevadm trigger --action=change --settle "$@"
"""


def serial(name: str) -> str:
    """Serial of the emulated device `name`."""
    return f"hsp-emulated-{name}"


def rules(paths: Mapping[str, str]) -> str:
    """udev rules for the devices (path by name). Pure; raises ValueError for an invalid name or path."""
    lines = []
    for name, path in paths.items():
        kernel_name = PurePosixPath(path).name
        if not _NAME.fullmatch(name) or not _KERNEL_NAME.fullmatch(kernel_name):
            raise ValueError(f"'{name}' ({path}) cannot be used in a udev rule")
        whole = f'SUBSYSTEM=="block", KERNEL=="{kernel_name}", ENV{{DEVTYPE}}=="disk"'
        lines.append(
            f'{whole}, ENV{{ID_SERIAL}}="{serial(name)}", ENV{{ID_SERIAL_SHORT}}="{serial(name)}", '
            f'SYMLINK+="disk/by-id/{serial(name)}"'
        )
        # A partition has a "p" before its number if the disk's name ends in a digit.
        between = "p" if kernel_name[-1].isdigit() else ""
        part = f'SUBSYSTEM=="block", KERNEL=="{kernel_name}{between}[0-9]*", ENV{{DEVTYPE}}=="partition"'
        lines.append(f'{part}, SYMLINK+="disk/by-id/{serial(name)}-part%n"')
    return "".join(f"{line}\n" for line in lines)


def link_by_id(host: Host, paths: Mapping[str, str]) -> dict[str, str]:
    """Make the links; returns them by name. Raises HostError."""
    nodes = [f"--name-match={path}" for path in paths.values()]
    host.run(["sh", "-c", _APPLY, "sh", RULES, *nodes], stdin=rules(paths).encode())
    links = {name: f"/dev/disk/by-id/{serial(name)}" for name in paths}
    host.run(["ls", "-L", *links.values()])
    return links


def unlink(host: Host) -> None:
    """Remove the rules; the links disappear with their devices."""
    host.run(["rm", "-f", RULES])
    host.run(["udevadm", "control", "--reload"], check=False)
