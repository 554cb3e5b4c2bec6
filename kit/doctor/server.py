"""Checks of the server: OpenZFS and NFS. Pure.

Sources: OpenZFS module/zfs (arcstats, /sys/module/zfs), zpool-status(8); fs/nfsd/nfsctl.c
(threads, versions).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kit.doctor.client import programs
from kit.doctor.facts import Unknown
from kit.doctor.finding import Examined, Judgement, State, Subject
from kit.doctor.machine import memory_kib

ZFS_VERSION = "/sys/module/zfs/version"
THREADS, VERSIONS = "/proc/fs/nfsd/threads", "/proc/fs/nfsd/versions"
ARCSTATS = "/proc/spl/kstat/zfs/arcstats"
# Readable by root only on many kernels.
ROOT_FILES = (THREADS, VERSIONS)
FILES = (ZFS_VERSION, THREADS, VERSIONS, ARCSTATS, "/sys/module/zfs/parameters/zfs_arc_max")
PROGRAMS = (
    "blkid", "dd", "exportfs", "fio", "flock", "install", "lsblk", "tail", "udevadm", "wipefs", "zdb",
    "zfs", "zpool",
)  # fmt: skip
DEVICE_PROGRAMS = ("nvme", "smartctl")
COMMANDS = {
    "zfs": ("zfs", "--version"),
    "pyzfs": ("/usr/bin/python3", "-I", "-c", "import libzfs_core"),
    "exportfs": ("exportfs", "-v"),
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
    r"(?:scrub|resilver)(?: \([^)]*\))? in progress|(?<=\()[0-9]+% (?:trimmed|initialized), started"
)
_NEARLY_ALL = 0.95


def _zfs_module(subject: Subject) -> Iterator[Judgement]:
    version = subject.facts.optional(ZFS_VERSION)
    if version is None:
        yield Judgement("zfs-module", "fail", "the module zfs is not loaded")
        return
    release = _release(version)
    state: State = "ok" if _OLDEST <= release <= _NEWEST else "note"
    yield Judgement("zfs-module", "fail" if release < _OLDEST else state, version)


def _release(version: str) -> tuple[int, int]:
    """Major and minor version; 2.3.99 is the development version of 2.4."""
    match = re.fullmatch(r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})(?![0-9])[A-Za-z0-9_.+~:-]{0,60}", version)
    if not match:
        raise Unknown(f"invalid version {version[:60]!r}")
    return int(match[1]), int(match[2]) + (match[3] == "99")


def _zfs_userland(subject: Subject) -> Iterator[Judgement]:
    command = subject.facts.command("zfs")
    match = re.match(r"zfs-([0-9]\S{0,60})$", command.out, re.MULTILINE)
    if not match:
        raise Unknown(f"`zfs --version` prints: {command.words()}")
    module = subject.facts.optional(ZFS_VERSION)
    if module is None:
        yield Judgement("zfs-userland", "warn", f"{match[1]}; no module is loaded")
        return
    # Package revisions of the two may differ: 2.3.9-1 and 2.3.9-0 are the same release.
    same = re.split("[-+~]", match[1])[0] == re.split("[-+~]", module)[0]
    yield Judgement("zfs-userland", "ok" if same else "warn", f"{match[1]}, module {module}")


def _pyzfs(subject: Subject) -> Iterator[Judgement]:
    command = subject.facts.command("pyzfs")
    if command.code:
        yield Judgement("pyzfs", "fail", (command.err.strip().splitlines() or ["it does not load"])[-1])
    elif command.out or command.err.strip():
        raise Unknown(f"its import prints: {command.words()}")
    else:
        yield Judgement("pyzfs", "ok", "libzfs_core loads")


def _programs(subject: Subject) -> Iterator[Judgement]:
    yield from programs(subject, "server-programs", PROGRAMS)


def _device_programs(subject: Subject) -> Iterator[Judgement]:
    missing = [name for name in DEVICE_PROGRAMS if not any(subject.facts.program(name))]
    text = f"not installed: {', '.join(missing)}" if missing else ", ".join(DEVICE_PROGRAMS)
    yield Judgement("device-programs", "note" if missing else "ok", text)


def _nfsd(subject: Subject) -> Iterator[Judgement]:
    if subject.facts.optional(THREADS) is None:
        yield Judgement("nfsd", "fail", "the kernel's NFS server is not loaded")
        yield Judgement("nfsd-threads", "fail", "none")
        return
    threads = subject.facts.integer(THREADS)
    if threads < 0:
        raise Unknown(f"invalid number of threads {threads}")
    yield Judgement(
        "nfsd", "ok" if threads else "fail", "runs" if threads else "has no thread: it is stopped"
    )
    outstanding = subject.requirements.outstanding
    if not threads:
        state: State = "fail"
    elif threads < (outstanding or subject.requirements.clients):
        state = "warn"
    else:
        state = "note" if outstanding is None and threads < _FEW_THREADS else "ok"
    needed = (
        "a workload may need more"
        if outstanding is None
        else f"the workload has {outstanding} requests in flight"
    )
    yield Judgement("nfsd-threads", state, f"{threads}; {needed}")


def _nfs_versions(subject: Subject) -> Iterator[Judgement]:
    text = subject.facts.optional(VERSIONS)
    if text is None:
        yield Judgement("nfs-versions", "fail", "the kernel's NFS server is not loaded")
        return
    words = text.split()
    if not words or not all(re.fullmatch(r"[+-][0-9](\.[0-9])?", word) for word in words):
        raise Unknown(f"{VERSIONS} is {text[:60]!r}")
    offered = {word[1:] for word in words if word[0] == "+"}
    # Some kernels do not list 4.0; there 4 includes it.
    if "4" in offered and not {"+4.0", "-4.0"} & set(words):
        offered.add("4.0")
    required = subject.requirements.nfs_version
    shown = ", ".join(sorted(offered)) or "none"
    if required is not None and required not in offered:
        yield Judgement("nfs-versions", "fail", f"offered: {shown}; the workload needs {required}")
    else:
        yield Judgement("nfs-versions", "ok" if offered else "fail", f"offered: {shown}")


def _mountd(subject: Subject) -> Iterator[Judgement]:
    running = subject.facts.names("processes")
    if not running:
        raise Unknown("the list of processes is empty")
    if not running & {"rpc.mountd", "nfsv4.exportd"}:
        yield Judgement("mountd", "fail", "neither rpc.mountd nor nfsv4.exportd runs")
    elif not {"rpc.mountd", "rpcbind"} <= running:
        for_v3 = subject.requirements.nfs_version in (None, "3")
        text = "rpcbind or rpc.mountd does not run, so NFSv3 cannot be mounted"
        state: State = "fail" if subject.requirements.nfs_version == "3" else "warn" if for_v3 else "note"
        yield Judgement("mountd", state, text)
    else:
        yield Judgement("mountd", "ok", "rpc.mountd and rpcbind run")


def _exports(subject: Subject) -> Iterator[Judgement]:
    command = subject.facts.command("exportfs")
    if command.code:
        yield Judgement("exports", "fail", f"`exportfs -v` failed: {command.words()}")
        return
    lines = command.out.splitlines()
    if not all(line[:1] in '/\t"' for line in lines if line):
        raise Unknown(f"`exportfs -v` prints: {command.words()}")
    paths = sorted({line.split()[0] for line in lines if line[:1] in '/"' and line.split()})
    if paths:
        yield Judgement("exports", "note", f"{len(paths)} exported already: {', '.join(paths)}")
    else:
        yield Judgement("exports", "ok", "none yet")


def _pools(subject: Subject) -> Iterator[Judgement]:
    pools = _table(subject, "pools")
    if not pools:
        yield Judgement("pools", "ok", "none is imported")
        return
    marks = {name: run for name, run in _table(subject, "marks").items() if run not in ("-", "")}
    degraded = any(health != "ONLINE" for health in pools.values())
    shown = ", ".join(
        f"{name} ({health}{', of run ' + marks[name] if name in marks else ''})"
        for name, health in sorted(pools.items())
    )
    yield Judgement("pools", "warn" if degraded or marks else "note", shown)


def _table(subject: Subject, command: str) -> dict[str, str]:
    """Two columns separated by a tab, as zpool and zfs print them with -H."""
    rows = [line.split("\t") for line in subject.facts.output(command).splitlines()]
    if not all(len(row) == 2 and _POOL_NAME.fullmatch(row[0]) for row in rows):
        raise Unknown(f"`{command}` is not a table of pools")
    return {row[0]: row[1] for row in rows}


def _scrub(subject: Subject) -> Iterator[Judgement]:
    command = subject.facts.command("status")
    busy = sorted({match[0] for match in _BUSY.finditer(command.out)})
    if busy:
        yield Judgement("scrub", "warn", "; ".join(busy))
    elif command.code or not re.search(
        r"^(no pools available$|  pool: )", command.out + command.err, re.MULTILINE
    ):
        raise Unknown(f"`zpool status` prints: {command.words()}")
    else:
        yield Judgement("scrub", "ok", "none")


def _arc(subject: Subject) -> Iterator[Judgement]:
    text = subject.facts.text(ARCSTATS)
    size, limit = (_arcstat(text, name) for name in ("size", "c_max"))
    total, available = (memory_kib(subject, name) << 10 for name in ("MemTotal", "MemAvailable"))
    shown = f"{size >> 20} MiB now, at most {limit >> 20} of {total >> 20} MiB"
    if not 0 < limit or size < 0:
        raise Unknown("invalid sizes in arcstats")
    if limit > _NEARLY_ALL * total:
        yield Judgement("arc", "warn", f"{shown}: no memory is left for programs")
    elif limit - size > available:
        yield Judgement("arc", "warn", f"{shown}, but only {available >> 20} MiB are free")
    elif (subject.facts.optional("/sys/module/zfs/parameters/zfs_arc_max") or "0") != "0":
        yield Judgement("arc", "note", f"{shown} (zfs_arc_max is set)")
    else:
        yield Judgement("arc", "ok", shown)


def _arcstat(text: str, name: str) -> int:
    match = re.search(rf"^{name} +[0-9] +([0-9]{{1,18}})$", text, re.MULTILINE)
    if not match:
        raise Unknown(f"no {name} in arcstats")
    return int(match[1])


EXAMINATIONS = (
    Examined(("zfs-module",), _zfs_module),
    Examined(("zfs-userland",), _zfs_userland),
    Examined(("pyzfs",), _pyzfs),
    Examined(("server-programs",), _programs),
    Examined(("device-programs",), _device_programs),
    Examined(("nfsd", "nfsd-threads"), _nfsd),
    Examined(("nfs-versions",), _nfs_versions),
    Examined(("mountd",), _mountd),
    Examined(("exports",), _exports),
    Examined(("pools",), _pools),
    Examined(("scrub",), _scrub),
    Examined(("arc",), _arc),
)
