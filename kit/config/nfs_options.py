"""NFS versions and mount options: which may be asked for, and whether what is in effect is that. Pure.

/proc/mounts has its own spelling (fs/nfs/super.c, nfs_show_mount_options): some options are written
only where they are not the default, actimeo never as itself.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

VERSIONS = ("3", "4.0", "4.1", "4.2")
_OPTION = re.compile(r"[a-z_]+(=[A-Za-z0-9.:-]+)?")
_REFUSED = {
    **dict.fromkeys(("soft", "softerr", "softreval"), "soft mounts lose data silently"),
    "bg": "it returns before it is mounted",
    **dict.fromkeys(("vers", "nfsvers", "minorversion"), "the version is nfs.version"),
    "fsc": "reads would be answered by a disk of the client",
    **dict.fromkeys(("remount", "bind", "rbind", "move"), "it is no option of a new mount"),
    "sloppy": "what the client does not know would be left out silently",
}
# Written as another option, or one that has no effect on NFSv4, which locks by itself.
_LOCKS = frozenset({"lock", "nolock"})
_ACTIMEO = ("acregmin", "acregmax", "acdirmin", "acdirmax")
# Defaults that /proc/mounts does not name: in effect unless it has the opposite.
_UNWRITTEN = {
    "ac": "noac",
    "cto": "nocto",
    "acl": "noacl",
    "rdirplus": "nordirplus",
    "sharecache": "nosharecache",
    "resvport": "noresvport",
    "async": "sync",
    "fg": "bg",
    "exec": "noexec",
    "suid": "nosuid",
    "dev": "nodev",
    "nofsc": "fsc",
    "nosoftreval": "softreval",
    "lookupcache=all": "lookupcache=none",
}
# Only mount.nfs uses them; the kernel never sees them.
_OF_THE_HELPER = frozenset({"retry"})
_SPELLED = {"lookupcache=positive": "lookupcache=pos", "tcp": "proto=tcp"}
_IPV6 = {
    "tcp": "proto=tcp6",
    "udp": "proto=udp6",
    **{
        f"{name}={netid}": f"{name}={netid}6"
        for name in ("proto", "mountproto")
        for netid in ("tcp", "udp", "rdma")
    },
}


def _version(value: Any) -> Any:
    """TOML may say 3, 4.1 or "4.1"."""
    text = str(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else ""
    text = {"3.0": "3"}.get(text, text)
    if text == "4":
        raise ValueError("4 would leave it to client and server; say 4.0, 4.1 or 4.2")
    if text not in VERSIONS:
        raise ValueError(f"expected one of {', '.join(VERSIONS)}")
    return text


Version = Annotated[Literal["3", "4.0", "4.1", "4.2"], BeforeValidator(_version)]
"""An NFS version as `vers=` takes it. In TOML a number or text: 3, 4.0, "4.2"; 4 alone is refused."""


def check_option(option: str) -> None:
    """Raises ValueError for what is no mount option, or not for measuring."""
    if not _OPTION.fullmatch(option):
        raise ValueError(f"'{option}' is not a mount option")
    name = option.split("=")[0]
    if name in _REFUSED:
        raise ValueError(f"'{option}' is not for measuring: {_REFUSED[name]}")


def of_family(options: tuple[str, ...], source: str) -> tuple[str, ...]:
    """The options for what is mounted: over IPv6 the transports have other names (netids).

    nfs(5): `proto=tcp` is TCP over IPv4, and an IPv6 address is then refused. Safe to do twice.
    """
    if not source.startswith("["):
        return options
    return tuple(_IPV6.get(option, option) for option in options)


def not_in_effect(version: str, asked: tuple[str, ...], effective: str) -> list[str]:
    """Those of `vers=` and the options that `effective` (of /proc/mounts) does not have."""
    found = effective.split(",")
    wanted = [(f"vers={version}", f"vers={version}")]
    for option in asked:
        name, _, value = option.partition("=")
        if name == "actimeo":
            wanted += [(option, f"{each}={value}") for each in _ACTIMEO]
        else:
            wanted.append((option, _SPELLED.get(option, option)))
    return list(dict.fromkeys(said for said, written in wanted if not _is_in(written, found, version)))


def _is_in(option: str, found: list[str], version: str) -> bool:
    name, _, value = option.partition("=")
    if option in found or name in _OF_THE_HELPER:
        return True
    if option in _LOCKS and version != "3":
        return True
    if option == "lock":
        return "nolock" not in found
    if option == "nolock":
        return "local_lock=all" in found
    if name in _ACTIMEO and not any(each.startswith(f"{name}=") for each in found):
        # Not written where it is the client's default (fs/nfs/internal.h, NFS_DEF_AC*).
        return value == {"acregmin": "3", "acregmax": "60", "acdirmin": "30", "acdirmax": "60"}[name]
    opposite = _UNWRITTEN.get(option)
    return opposite is not None and opposite not in found
