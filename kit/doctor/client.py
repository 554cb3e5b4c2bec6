"""What a client needs to make load. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kit.doctor.facts import Facts, Unknown
from kit.doctor.finding import Examined, Judgement, Subject

FILES = ("/proc/filesystems",)
PROGRAMS = ("fio", "getent", "install", "ip", "mount", "mount.nfs", "umount")
COMMANDS = {
    "fio": ("fio", "--version"),
    "fio-engines": ("fio", "--enghelp"),
    "nfs-module": ("modprobe", "--dry-run", "--quiet", "nfs"),
}
MIN_FIO = (3, 30)
# mount(8) looks for its helpers here, whatever PATH says.
_HELPERS = ("mount.nfs",)
_OF_MOUNTS = ("mount", "mount.nfs", "umount")


def fio_version(facts: Facts) -> str:
    """As fio says it, without the name. Raises Unknown."""
    said = facts.output("fio").strip()
    found = re.fullmatch(r"fio-([0-9]{1,4}\.[0-9]{1,4}[A-Za-z0-9.+~-]{0,40})", said)
    if not found:
        raise Unknown(f"`fio --version` says {said[:60]!r}")
    return found[1]


def _fio(subject: Subject) -> Iterator[Judgement]:
    facts = subject.facts
    if not any(facts.program("fio")):
        yield Judgement("fio", "fail", "not installed")
        return
    version = fio_version(facts)
    major, minor = (int(re.sub(r"\D.*", "", part)) for part in version.split(".")[:2])
    old = (major, minor) < MIN_FIO
    if subject.wanted.libnfs and "nfs" not in facts.output("fio-engines").split():
        yield Judgement("fio", "fail", f"{version} without the engine nfs, which the workload asks for")
        return
    yield Judgement("fio", "warn" if old else "ok", version)


def programs(subject: Subject, check: str, names: tuple[str, ...]) -> Iterator[Judgement]:
    """Whether commands of these names would be found."""
    missing, hidden = [], []
    for name in names:
        path, elsewhere = subject.facts.program(name)
        if path is None and elsewhere is None:
            missing.append(name)
        elif path is None and name not in _HELPERS:
            hidden.append(str(elsewhere))
    found = [f"not installed: {', '.join(missing)}"] if missing else []
    found += [f"there, but not in the PATH of commands: {', '.join(hidden)}"] if hidden else []
    yield Judgement(check, "fail" if found else "ok", "; ".join(found) or ", ".join(names))


def _programs(subject: Subject) -> Iterator[Judgement]:
    names = tuple(name for name in PROGRAMS if not (subject.wanted.libnfs and name in _OF_MOUNTS))
    yield from programs(subject, "client-programs", names)


def _nfs_client(subject: Subject) -> Iterator[Judgement]:
    lines = subject.facts.text("/proc/filesystems").splitlines()
    kinds = {words[-1] for words in (line.split() for line in lines) if words}
    # Every kernel has proc; a list without it is not that list.
    if "proc" not in kinds:
        raise Unknown("/proc/filesystems is not a list of filesystems")
    there = sorted(kinds & {"nfs", "nfs4"})
    if there:
        yield Judgement("nfs-client", "ok", f"the kernel has {' and '.join(there)}")
        return
    loads = subject.facts.command("nfs-module").code == 0
    found = (
        "the module is there, not loaded yet" if loads else "the kernel has neither nfs nor a module of it"
    )
    yield Judgement("nfs-client", "ok" if loads else "fail", found)


def versions_alike(versions: dict[str, str]) -> Iterator[tuple[str, Judgement]]:
    """For each of several clients, by name: whether its fio is everybody's."""
    common = max(versions.values(), key=list(versions.values()).count) if versions else ""
    for name, version in versions.items():
        if len(set(versions.values())) == 1:
            yield name, Judgement("fio-alike", "ok", f"{version} on all clients")
        elif version != common:
            yield name, Judgement("fio-alike", "warn", f"{version} here, {common} on most of the others")
        else:
            others = ", ".join(sorted(set(versions.values()) - {version}))
            yield name, Judgement("fio-alike", "warn", f"{version} here, {others} elsewhere")


EXAMINATIONS = (
    Examined(("fio",), _fio),
    Examined(("client-programs",), _programs),
    Examined(("nfs-client",), _nfs_client),
)
