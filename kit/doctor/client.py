"""Checks of a client: fio, programs, NFS in the kernel. Pure."""

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
# mount(8) does not use PATH to find its helpers.
_HELPERS = ("mount.nfs",)
_MOUNT_PROGRAMS = ("mount", "mount.nfs", "umount")


def fio_version(facts: Facts) -> str:
    """Version of fio, without its name. Raises Unknown."""
    output = facts.output("fio").strip()
    match = re.fullmatch(r"fio-([0-9]{1,4}\.[0-9]{1,4}[A-Za-z0-9.+~-]{0,40})", output)
    if not match:
        raise Unknown(f"`fio --version` prints {output[:60]!r}")
    return match[1]


def _fio(subject: Subject) -> Iterator[Judgement]:
    facts = subject.facts
    if not any(facts.program("fio")):
        yield Judgement("fio", "fail", "not installed")
        return
    version = fio_version(facts)
    major, minor = (int(re.sub(r"\D.*", "", part)) for part in version.split(".")[:2])
    old = (major, minor) < MIN_FIO
    if subject.requirements.libnfs and "nfs" not in facts.output("fio-engines").split():
        yield Judgement("fio", "fail", f"{version} without the engine nfs, which the workload needs")
        return
    yield Judgement("fio", "warn" if old else "ok", version)


def programs(subject: Subject, check: str, names: tuple[str, ...]) -> Iterator[Judgement]:
    """Check that the programs are in PATH."""
    missing, hidden = [], []
    for name in names:
        path, elsewhere = subject.facts.program(name)
        if path is None and elsewhere is None:
            missing.append(name)
        elif path is None and name not in _HELPERS:
            hidden.append(str(elsewhere))
    problems = [f"not installed: {', '.join(missing)}"] if missing else []
    problems += [f"installed, but not in the PATH of commands: {', '.join(hidden)}"] if hidden else []
    yield Judgement(check, "fail" if problems else "ok", "; ".join(problems) or ", ".join(names))


def _programs(subject: Subject) -> Iterator[Judgement]:
    names = tuple(name for name in PROGRAMS if not (subject.requirements.libnfs and name in _MOUNT_PROGRAMS))
    yield from programs(subject, "client-programs", names)


def _nfs_client(subject: Subject) -> Iterator[Judgement]:
    lines = subject.facts.text("/proc/filesystems").splitlines()
    kinds = {words[-1] for words in (line.split() for line in lines) if words}
    # Every kernel has proc; a list without it is garbled.
    if "proc" not in kinds:
        raise Unknown("/proc/filesystems is not a list of filesystems")
    supported = sorted(kinds & {"nfs", "nfs4"})
    if supported:
        yield Judgement("nfs-client", "ok", f"the kernel has {' and '.join(supported)}")
    elif subject.facts.command("nfs-module").code == 0:
        yield Judgement("nfs-client", "ok", "the module is installed, not loaded yet")
    else:
        yield Judgement("nfs-client", "fail", "the kernel has neither nfs nor a module of it")


def versions_alike(versions: dict[str, str]) -> Iterator[tuple[str, Judgement]]:
    """For each client, by name: whether all clients have the same version of fio."""
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
