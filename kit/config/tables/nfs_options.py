"""NFS versions and mount options: which are allowed, and which of them are in effect. Pure.

/proc/mounts has its own spelling (fs/nfs/super.c, nfs_show_mount_options): it omits some options at
their default value, and shows actimeo as four other options.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from kit.config.toml import describe

VERSIONS = ("3", "4.0", "4.1", "4.2")
_OPTION = re.compile(r"[a-z_]+(=[A-Za-z0-9.:-]+)?")
_REFUSED = {
    **dict.fromkeys(("soft", "softerr", "softreval"), "soft mounts lose data silently"),
    "bg": "mount returns before it is mounted",
    **dict.fromkeys(("vers", "nfsvers", "minorversion"), "the version is nfs.version"),
    "fsc": "reads would be answered by a disk of the client",
    **dict.fromkeys(("remount", "bind", "rbind", "move"), "not an option of a new mount"),
    "sloppy": "the client would ignore unknown options silently",
}
# Shown as local_lock on NFSv3; without effect on NFSv4, where locking is part of the protocol.
_LOCKS = frozenset({"lock", "nolock"})
# With the client's default values, at which they are not shown (fs/nfs/internal.h, NFS_DEF_AC*).
_ACTIMEO = {"acregmin": "3", "acregmax": "60", "acdirmin": "30", "acdirmax": "60"}
# Defaults that /proc/mounts does not show: in effect unless it shows the opposite.
_SHOWN_WITH_NO = (
    "ac", "cto", "acl", "rdirplus", "sharecache", "resvport", "exec", "suid", "dev", "lock",
)  # fmt: skip
_NOT_SHOWN = {
    **{option: f"no{option}" for option in _SHOWN_WITH_NO},
    **{f"no{option}": option for option in ("fsc", "softreval")},
    "async": "sync",
    "fg": "bg",
    "lookupcache=all": "lookupcache=none",
}
# What the Linux client asks for if rsize and wsize do not say (NFS_MAX_FILE_IO_SIZE), and libnfs.
MOST_CALL_BYTES = 1 << 20
# Used by mount.nfs only, not passed to the kernel.
_MOUNT_NFS_ONLY = frozenset({"retry"})
_SHOWN_AS = {"lookupcache=positive": "lookupcache=pos", "tcp": "proto=tcp", "nolock": "local_lock=all"}
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
    """Version as text; TOML may have 3, 4.1 or "4.1"."""
    text = str(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else ""
    text = {"3.0": "3"}.get(text, text)
    if text == "4":
        raise ValueError("4 leaves the minor version to client and server; say 4.0, 4.1 or 4.2")
    if text not in VERSIONS:
        raise ValueError(f"expected one of {', '.join(VERSIONS)}, found {describe(value)}")
    return text


Version = Annotated[
    Literal["3", "4.0", "4.1", "4.2"], BeforeValidator(_version, json_schema_input_type=str | float)
]
"""An NFS version as `vers=` takes it. In TOML a number or text: 3, 4.0, "4.2"; 4 alone is refused."""


def _check_option(option: str) -> str:
    if not _OPTION.fullmatch(option):
        raise ValueError(f"'{option}' is not a mount option")
    name = option.split("=")[0]
    if name in _REFUSED:
        raise ValueError(f"'{option}' is not for measuring: {_REFUSED[name]}")
    return option


MountOption = Annotated[str, AfterValidator(_check_option)]
"""A mount option; refused if it is invalid or must not be used for measurements."""


# Options of nfs(5) that say the same as a key of [nfs].
_OF_KEYS = {"proto": ("proto", "tcp", "udp", "rdma"), "nconnect": ("nconnect",)}
# Of NFS over RDMA (IANA, nfsrdma): a server that speaks both has two ports.
_RDMA_PORT = 20049


def same_as_key(key: str, options: tuple[str, ...]) -> str | None:
    """The first option that says what `key` of [nfs] says."""
    return next((option for option in options if option.partition("=")[0] in _OF_KEYS[key]), None)


def with_keys(options: tuple[str, ...], proto: str | None, nconnect: int | None) -> tuple[str, ...]:
    """`options`, and the options of the keys `proto` and `nconnect`."""
    made = [*options, *([f"proto={proto}"] if proto else [])]
    if proto == "rdma" and not any(option.startswith("port=") for option in options):
        made.append(f"port={_RDMA_PORT}")
    return (*made, *([f"nconnect={nconnect}"] if nconnect else []))


def value_of(name: str, options: str) -> str | None:
    """The value of an option in `options` (of /proc/mounts)."""
    shown = dict(option.split("=", 1) for option in options.split(",") if "=" in option)
    return shown.get(name)


def call_bytes(name: Literal["rsize", "wsize"], options: tuple[str, ...]) -> int:
    """The most bytes of a READ or WRITE of the Linux client, with these options."""
    value = value_of(name, ",".join(options)) or "0"
    return int(value) if value.strip("0").isdecimal() else MOST_CALL_BYTES


def of_family(options: tuple[str, ...], source: str) -> tuple[str, ...]:
    """The options for the address family of `source`: over IPv6 the transports have other netids.

    nfs(5): `proto=tcp` is TCP over IPv4; mount then refuses an IPv6 address. Idempotent.
    """
    if not source.startswith("["):
        return options
    return tuple(_IPV6.get(option, option) for option in options)


def not_in_effect(version: str, requested: tuple[str, ...], effective: str) -> list[str]:
    """Those of `vers=` and the requested options that are missing in `effective` (from /proc/mounts)."""
    shown = effective.split(",")
    missing = []
    for option in (f"vers={version}", *requested):
        name, _, value = option.partition("=")
        parts = [f"{part}={value}" for part in _ACTIMEO] if name == "actimeo" else [option]
        if not all(_is_in(part, shown, version) for part in parts):
            missing.append(option)
    return list(dict.fromkeys(missing))


def _is_in(option: str, shown: list[str], version: str) -> bool:
    name, _, value = option.partition("=")
    if option in shown or _SHOWN_AS.get(option) in shown or name in _MOUNT_NFS_ONLY:
        return True
    if option in _LOCKS and version != "3":
        return True
    if name in _ACTIMEO and not any(text.startswith(f"{name}=") for text in shown):
        return value == _ACTIMEO[name]
    opposite = _NOT_SHOWN.get(option)
    return opposite is not None and opposite not in shown
