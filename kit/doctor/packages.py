"""Packages of a host's distribution that bring what a check misses. Pure.

Sources: the package archives of Debian 12 and 13, Ubuntu 24.04, Fedora 42.
"""

from __future__ import annotations

import re

from kit.doctor.facts import HostFacts, Unknown

OS_RELEASE = "/etc/os-release"
_TOOLS = "nvme-cli smartmontools hdparm sdparm mdadm"
_OF_APT = {
    "pyzfs": "python3-pyzfs",
    "server-programs": "zfsutils-linux nfs-kernel-server util-linux udev fio",
    "device-programs": _TOOLS,
    "nfsd": "nfs-kernel-server",
    "mountd": "nfs-kernel-server rpcbind",
    "bpftrace": "bpftrace",
    "fio": "fio",
    "client-programs": "nfs-common iproute2 mount util-linux fio",
}
_OF_DNF = {
    "server-programs": "nfs-utils util-linux fio",
    "device-programs": _TOOLS,
    "nfsd": "nfs-utils",
    "mountd": "nfs-utils rpcbind",
    "bpftrace": "bpftrace",
    "fio": "fio",
    "client-programs": "nfs-utils iproute util-linux fio",
}
_ZFS = ("zfs-module", "zfs-userland", "pyzfs", "server-programs")
# zfs-dkms compiles the module for the kernel whose headers are there.
_BUILT = "linux-headers-$(uname -r) zfs-dkms zfsutils-linux"
_CONTRIB = " (first add contrib to Components in /etc/apt/sources.list.d/debian.sources, or to sources.list)"


def advice(facts: HostFacts, check: str) -> str:
    """What to install for a check on a host of that distribution; "" if that is not known."""
    kinds = _kinds(facts)
    if "debian" in kinds or "ubuntu" in kinds:
        is_ubuntu = "ubuntu" in kinds
        names = _OF_APT.get(check, "")
        if check in ("zfs-module", "zfs-userland"):
            names = "zfsutils-linux" if is_ubuntu else _BUILT
        manager, before = "apt-get", _CONTRIB if check in _ZFS and not is_ubuntu else ""
    elif kinds & {"fedora", "rhel", "centos"}:
        names, manager = _OF_DNF.get(check, ""), "dnf"
        before = " (zfs is in the repository of OpenZFS)" if check in _ZFS else ""
    else:
        return ""
    return f"There: {manager} install {names}{before}." if names else ""


def _kinds(facts: HostFacts) -> set[str]:
    """ID and ID_LIKE of os-release(5)."""
    try:
        text = facts.optional(OS_RELEASE) or ""
    except Unknown:
        return set()
    lines = re.findall(r"^ID(?:_LIKE)?=[\"']?([a-z0-9 ._-]{1,80})[\"']?$", text, re.MULTILINE)
    return {word for line in lines for word in line.split()}
