"""Checks of the server: OpenZFS and NFS. Pure.

Sources: OpenZFS module/zfs (arcstats, /sys/module/zfs), zpool-status(8); fs/nfsd/nfsctl.c
(threads, versions).
"""

from __future__ import annotations

import re

from kit.doctor.client import programs
from kit.doctor.facts import Unknown
from kit.doctor.finding import Examination, ExaminedHost, State, Verdict
from kit.doctor.machine import memory_kib
from kit.instruments.drives.reading import PciLink
from kit.nfs import unlisted_exports

ZFS_VERSION = "/sys/module/zfs/version"
THREADS, VERSIONS = "/proc/fs/nfsd/threads", "/proc/fs/nfsd/versions"
NVME = "/sys/class/nvme"
ARCSTATS = "/proc/spl/kstat/zfs/arcstats"
# Readable by root only on many kernels.
ROOT_FILES = (THREADS, VERSIONS)
# `device` is a link: the directory above its target is that of the port, at the other end.
_LINK_FILES = tuple(
    f"device/{each}_link_{part}" for each in ("current", "max", "../max") for part in ("speed", "width")
)
FILES = (
    ZFS_VERSION, THREADS, VERSIONS, ARCSTATS, "/sys/module/zfs/parameters/zfs_arc_max",
    *(f"{NVME}/nvme*/{name}" for name in _LINK_FILES),
)  # fmt: skip
PROGRAMS = (
    "blkid", "dd", "exportfs", "fio", "flock", "install", "lsblk", "tail", "udevadm", "wipefs", "zdb",
    "zfs", "zpool",
)  # fmt: skip
_NFS_PROGRAMS = ("exportfs",)
DEVICE_PROGRAMS = ("nvme", "smartctl", "hdparm", "sdparm", "mdadm")
COMMANDS = {
    "zfs": ("zfs", "--version"),
    "pyzfs": ("/usr/bin/python3", "-I", "-c", "import libzfs_core"),
    "exportfs": unlisted_exports.READ,
    "pools": ("zpool", "list", "-H", "-p", "-o", "name,health"),
    "marks": ("zfs", "get", "-H", "-p", "-d", "0", "-o", "name,value", "hsp:run"),
    "status": ("zpool", "status", "-t"),
}
# These commands would load the module, as `zfs version` does (`zfs --version` does not).
NEEDS = dict.fromkeys(("pyzfs", "pools", "marks", "status"), "/sys/module/zfs")
_OLDEST, _NEWEST = (2, 1), (2, 4)
_FEW_THREADS = 8
_POOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.: -]{0,254}")
_BUSY = re.compile(
    r"(?:scrub|resilver)(?: \([^)]*\))? in progress|(?:Evacuation|expansion) of \S+ in progress|"
    r"(?<=\()[0-9]+% (?:trimmed|initialized), started"
)
_NEARLY_ALL = 0.95
_NO_NFSD = "the kernel's NFS server is not loaded"
_ARCSTAT = re.compile(r"^(\w+) +[0-9] +([0-9]{1,18})$", re.MULTILINE | re.ASCII)


def _zfs_module(subject: ExaminedHost) -> Verdict:
    version = subject.facts.optional(ZFS_VERSION)
    if version is None:
        return "fail", "the module zfs is not loaded"
    release = _release(version)
    return "fail" if release < _OLDEST else "ok" if release <= _NEWEST else "note", version


def _release(version: str) -> tuple[int, int]:
    """Major and minor version; 2.3.99 is the development version of 2.4."""
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})(?![0-9])[A-Za-z0-9_.+~:-]{0,60}", version)
    if not match:
        raise Unknown(f"invalid version {version[:60]!r}")
    return int(match[1]), int(match[2]) + (match[3] == "99")


def _zfs_userland(subject: ExaminedHost) -> Verdict:
    command = subject.facts.command("zfs")
    match = re.match(r"zfs-([0-9]\S{0,60})$", command.out, re.MULTILINE)
    if not match:
        raise Unknown(f"`zfs --version` prints: {command.words()}")
    module = subject.facts.optional(ZFS_VERSION)
    if module is None:
        return "warn", f"{match[1]}; no module is loaded"
    # Package revisions of the two may differ: 2.3.9-1 and 2.3.9-0 are the same release.
    same = re.split("[-+~]", match[1])[0] == re.split("[-+~]", module)[0]
    return "ok" if same else "warn", f"{match[1]}, module {module}"


def _pyzfs(subject: ExaminedHost) -> Verdict:
    command = subject.facts.command("pyzfs")
    if command.code:
        return "fail", (command.err.strip().splitlines() or ["it does not load"])[-1]
    if command.out or command.err.strip():
        raise Unknown(f"its import prints: {command.words()}")
    return "ok", "libzfs_core loads"


def _programs(subject: ExaminedHost) -> Verdict:
    unused = () if subject.requirements.over_nfs else _NFS_PROGRAMS
    return programs(subject, tuple(name for name in PROGRAMS if name not in unused))


def _device_programs(subject: ExaminedHost) -> Verdict:
    missing = [name for name in DEVICE_PROGRAMS if not any(subject.facts.program(name))]
    return ("note", f"not installed: {', '.join(missing)}") if missing else ("ok", ", ".join(DEVICE_PROGRAMS))


def _drive_links(subject: ExaminedHost) -> Verdict:
    """Without a load: a link may be slower then, to save power. A run reads it under load."""
    texts, found = [], set[State]()
    for path in subject.facts.paths(re.escape(NVME) + r"/nvme[0-9]+/device/current_link_speed"):
        drive, name = path.removesuffix("/device/current_link_speed"), path.split("/")[4]
        link, most, port = (_link(subject, drive, each) for each in ("current", "max", "../max"))
        if not link or not most or not port:
            continue
        best = most.at_most(port)
        if link.mts < best.mts:
            found.add("warn")
            texts.append(f"{name} has {link}, both ends can do {best}")
        elif best.mts < most.mts:
            found.add("note")
            texts.append(f"{name} can do {most}, its slot {best}")
        else:
            texts.append(f"{name} {link}")
    # Every host has a /run: a list without it is garbled, and shows no drive that is not there.
    if not texts and not subject.facts.present("/run"):
        raise Unknown("there is no /run")
    state: State = "warn" if "warn" in found else "note" if found else "ok"
    return state, "; ".join(texts) or "no NVMe drive with a link of PCIe"


def _link(subject: ExaminedHost, drive: str, which: str) -> PciLink | None:
    files = (f"{drive}/device/{which}_link_{part}" for part in ("speed", "width"))
    return PciLink.parse(" x".join(subject.facts.optional(file) or "" for file in files))


def _thread_count(subject: ExaminedHost) -> int | None:
    """Threads of the kernel's NFS server; None if it is not loaded."""
    if subject.facts.optional(THREADS) is None:
        return None
    threads = subject.facts.integer(THREADS)
    if threads < 0:
        raise Unknown(f"invalid number of threads {threads}")
    return threads


def _nfsd(subject: ExaminedHost) -> Verdict:
    threads = _thread_count(subject)
    if threads is None:
        return "fail", _NO_NFSD
    return ("ok", "runs") if threads else ("fail", "has no thread: it is stopped")


def _nfsd_threads(subject: ExaminedHost) -> Verdict:
    threads, outstanding = _thread_count(subject), subject.requirements.outstanding
    if threads is None:
        return "fail", "none"
    text = f"the workload has {outstanding} requests in flight" if outstanding else "a workload may need more"
    few: State = "note" if not outstanding and threads < _FEW_THREADS else "ok"
    state = "warn" if threads < (outstanding or subject.requirements.clients) else few
    return state if threads else "fail", f"{threads}; {text}"


def _nfs_versions(subject: ExaminedHost) -> Verdict:
    text = subject.facts.optional(VERSIONS, r"([+-][0-9](\.[0-9])?(\s+|$))+")
    if text is None:
        return "fail", _NO_NFSD
    words = text.split()
    offered = {word[1:] for word in words if word[0] == "+"}
    # Some kernels do not list 4.0; there 4 includes it.
    if "4" in offered and not {"+4.0", "-4.0"} & set(words):
        offered.add("4.0")
    required = subject.requirements.nfs_version
    shown = f"offered: {', '.join(sorted(offered)) or 'none'}"
    if required is not None and required not in offered:
        return "fail", f"{shown}; the workload needs {required}"
    return "ok" if offered else "fail", shown


def _mountd(subject: ExaminedHost) -> Verdict:
    running, version = subject.facts.names("processes"), subject.requirements.nfs_version
    if not running:
        raise Unknown("the list of processes is empty")
    if not running & {"rpc.mountd", "nfsv4.exportd"}:
        return "fail", "neither rpc.mountd nor nfsv4.exportd runs"
    if {"rpc.mountd", "rpcbind"} <= running:
        return "ok", "rpc.mountd and rpcbind run"
    state: State = "fail" if version == "3" else "warn" if version is None else "note"
    return state, "rpcbind or rpc.mountd does not run, so NFSv3 cannot be mounted"


def _exports(subject: ExaminedHost) -> Verdict:
    command = subject.facts.command("exportfs")
    if command.code:
        return "fail", f"`exportfs -v` failed: {command.words()}"
    try:
        paths, unlisted = unlisted_exports.read(command.out)
    except ValueError as error:
        raise Unknown(f"{error}: {command.words()}") from error
    if unlisted:
        return "fail", f"in no file, and ZFS would remove them: {', '.join(unlisted)}"
    return ("note", f"{len(paths)} exported already: {', '.join(paths)}") if paths else ("ok", "none yet")


def _pools(subject: ExaminedHost) -> Verdict:
    pools = _table(subject, "pools")
    if not pools:
        return "ok", "none is imported"
    marks = {name: run for name, run in _table(subject, "marks").items() if run not in ("-", "")}
    degraded = any(health != "ONLINE" for health in pools.values())
    shown = ", ".join(
        f"{name} ({health}{', of run ' + marks[name] if name in marks else ''})"
        for name, health in sorted(pools.items())
    )
    return "warn" if degraded or marks else "note", shown


def _table(subject: ExaminedHost, command: str) -> dict[str, str]:
    """Two columns separated by a tab, as zpool and zfs print them with -H."""
    rows = [line.split("\t") for line in subject.facts.output(command).splitlines()]
    if not all(len(row) == 2 and _POOL_NAME.fullmatch(row[0]) for row in rows):
        raise Unknown(f"`{command}` is not a table of pools")
    return {row[0]: row[1] for row in rows}


def _scrub(subject: ExaminedHost) -> Verdict:
    command = subject.facts.command("status")
    busy = sorted({match[0] for match in _BUSY.finditer(command.out)})
    if busy:
        return "warn", "; ".join(busy)
    listed = re.search(r"^(no pools available$|  pool: )", command.out + command.err, re.MULTILINE)
    if command.code or not listed:
        raise Unknown(f"`zpool status` prints: {command.words()}")
    return "ok", "none"


def _arc(subject: ExaminedHost) -> Verdict:
    stats = {name: int(value) for name, value in _ARCSTAT.findall(subject.facts.text(ARCSTATS))}
    absent = {"size", "c_max"} - stats.keys()
    if absent:
        raise Unknown(f"no {min(absent)} in arcstats")
    size, limit = stats["size"], stats["c_max"]
    total, available = (memory_kib(subject, name) << 10 for name in ("MemTotal", "MemAvailable"))
    shown = f"{size >> 20} MiB now, at most {limit >> 20} of {total >> 20} MiB"
    if not limit:
        raise Unknown("invalid sizes in arcstats")
    if limit > _NEARLY_ALL * total:
        return "warn", f"{shown}: no memory is left for programs"
    if limit - size > available:
        return "warn", f"{shown}, but only {available >> 20} MiB are free"
    if (subject.facts.optional("/sys/module/zfs/parameters/zfs_arc_max") or "0") != "0":
        return "note", f"{shown} (zfs_arc_max is set)"
    return "ok", shown


EXAMINATIONS: dict[str, Examination] = {
    "server-programs": _programs,
    "device-programs": _device_programs,
    "drive-links": _drive_links,
}
OF_A_POOL: dict[str, Examination] = {
    "zfs-module": _zfs_module,
    "zfs-userland": _zfs_userland,
    "pyzfs": _pyzfs,
    "pools": _pools,
    "scrub": _scrub,
    "arc": _arc,
}
OF_NFS: dict[str, Examination] = {
    "nfsd": _nfsd,
    "nfsd-threads": _nfsd_threads,
    "nfs-versions": _nfs_versions,
    "mountd": _mountd,
    "exports": _exports,
}
