"""Checks of a client: fio, programs, NFS in the kernel. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kit.doctor.facts import HostFacts, Unknown
from kit.doctor.finding import Examination, ExaminedHost, Verdict, undetermined

FILES = ("/proc/filesystems",)
PROGRAMS = ("fio", "getent", "install", "ip", "mount", "mount.nfs", "setpriv", "umount")
COMMANDS = {
    "fio": ("fio", "--version"),
    "fio-engines": ("fio", "--enghelp"),
    "nfs-module": ("modprobe", "--dry-run", "--quiet", "nfs"),
}
MIN_FIO = (3, 30)
# mount(8) does not use PATH to find its helpers.
_HELPERS = ("mount.nfs",)
_MOUNT_PROGRAMS = ("mount", "mount.nfs", "setpriv", "umount")


def _fio_version(facts: HostFacts) -> str:
    """Version of fio, without its name. Raises Unknown."""
    output = facts.output("fio").strip()
    match = re.fullmatch(r"fio-([0-9]{1,4}\.[0-9]{1,4}[A-Za-z0-9.+~-]{0,40})", output)
    if not match:
        raise Unknown(f"`fio --version` prints {output[:60]!r}")
    return match[1]


def _fio(subject: ExaminedHost) -> Verdict:
    facts = subject.facts
    if not any(facts.program("fio")):
        return "fail", "not installed"
    version = _fio_version(facts)
    if subject.requirements.libnfs and "nfs" not in facts.output("fio-engines").split():
        return "fail", f"{version} without the engine nfs, which the workload needs"
    major, minor = re.findall("[0-9]+", version)[:2]
    return "warn" if (int(major), int(minor)) < MIN_FIO else "ok", version


def programs(subject: ExaminedHost, names: tuple[str, ...]) -> Verdict:
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
    return "fail" if problems else "ok", "; ".join(problems) or ", ".join(names)


def _programs(subject: ExaminedHost) -> Verdict:
    names = tuple(name for name in PROGRAMS if not (subject.requirements.libnfs and name in _MOUNT_PROGRAMS))
    return programs(subject, names)


def _nfs_client(subject: ExaminedHost) -> Verdict:
    lines = subject.facts.text("/proc/filesystems").splitlines()
    kinds = {words[-1] for words in (line.split() for line in lines) if words}
    # Every kernel has proc; a list without it is garbled.
    if "proc" not in kinds:
        raise Unknown("/proc/filesystems is not a list of filesystems")
    supported = sorted(kinds & {"nfs", "nfs4"})
    if supported:
        return "ok", f"the kernel has {' and '.join(supported)}"
    if subject.facts.command("nfs-module").code == 0:
        return "ok", "the module is installed, not loaded yet"
    return "fail", "the kernel has neither nfs nor a module of it"


def fio_alike(clients: Mapping[str, HostFacts]) -> dict[str, Verdict]:
    """Whether all clients have the same version of fio; verdicts and facts by client."""
    verdicts: dict[str, Verdict] = {}
    versions: dict[str, str] = {}
    for name, facts in clients.items():
        try:
            versions[name] = _fio_version(facts)
        except Unknown as unknown:
            verdicts[name] = undetermined(unknown)
    common = max(versions.values(), key=list(versions.values()).count, default="")
    for name, version in versions.items():
        others = sorted(set(versions.values()) - {version})
        if not others:
            verdicts[name] = "ok", f"{version} on all clients"
        elif version != common:
            verdicts[name] = "warn", f"{version} here, {common} on most of the others"
        else:
            verdicts[name] = "warn", f"{version} here, {', '.join(others)} elsewhere"
    return verdicts


EXAMINATIONS: dict[str, Examination] = {"fio": _fio, "client-programs": _programs, "nfs-client": _nfs_client}
