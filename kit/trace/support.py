"""Whether a server can be traced, and how: asked once, before anything is measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from kit.hosts.base import CommandFailed, Host
from kit.trace.program import Program, program
from kit.zfs.openzfs_version import ZfsVersion

# The oldest with which the program was tried; Debian 12 has it.
MIN_BPFTRACE = (0, 17)
# From then on bpftrace complains about the older name of the variable.
_NEW_VARIABLES = (0, 20)
_VERSION = re.compile(r"v(\d{1,4})\.(\d{1,4})")
_EVENTS = "/sys/kernel/tracing/events"


@dataclass(frozen=True)
class Tracing:
    """`kind`: full, or none because of `reason` (in words; "asked for" if the testbed says so).

    `bpftrace` is its version, empty if there is none. `missing`: functions and tracepoints of the program
    that this kernel does not have.
    """

    kind: Literal["full", "none"]
    program: Program
    bpftrace: str = ""
    reason: str = ""
    missing: tuple[str, ...] = ()
    asked_for: bool = False
    sh: str = "/bin/sh"

    @property
    def map_keys_variable(self) -> str:
        """bpftrace's variable for the size of maps: of old versions, or of new ones."""
        found = _VERSION.search(f"v{self.bpftrace}")
        old = found and (int(found[1]), int(found[2])) < _NEW_VARIABLES
        return "BPFTRACE_MAP_KEYS_MAX" if old else "BPFTRACE_MAX_MAP_KEYS"

    def as_json(self) -> dict[str, object]:
        """What the manifest has of it."""
        return {
            "kind": self.kind,
            "bpftrace": self.bpftrace,
            "reason": self.reason,
            "missing": list(self.missing),
            "asked_for": self.asked_for,
        }


def find_tracing(server: Host, zfs: ZfsVersion, wanted: str = "auto") -> Tracing:
    """What this server can do. `wanted` is the testbed's `trace`: auto or none. Raises HostLost alone."""
    whole = program(zfs)
    if wanted == "none":
        return Tracing("none", whole, reason='the testbed has trace = "none"', asked_for=True)
    said = server.run(["bpftrace", "--version"], check=False)
    version = said.stdout.strip().removeprefix("bpftrace ") if said.returncode == 0 else ""
    found = _VERSION.search(version)
    if not found:
        why = f"{server.name} has no bpftrace" if said.returncode in (126, 127) else said.describe()
        return Tracing("none", whole, reason=why)
    number = version.removeprefix("v")
    if (int(found[1]), int(found[2])) < MIN_BPFTRACE:
        least = ".".join(map(str, MIN_BPFTRACE))
        return Tracing(
            "none", whole, number, f"{server.name} has bpftrace {number}; the program needs {least} or later"
        )
    missing = tuple(_missing(server, whole))
    if missing:
        why = f"the kernel of {server.name} has no {', '.join(missing)} to probe"
        return Tracing("none", whole, number, why, missing)
    return Tracing("full", whole, number, sh=_shell(server))


def _missing(server: Host, needed: Program) -> list[str]:
    missing = [
        name
        for name in needed.tracepoints
        if server.run(["test", "-d", f"{_EVENTS}/{name}"], check=False).returncode
    ]
    pattern = " (" + "|".join(needed.functions) + r")(\s|$)"
    symbols = server.run(["grep", "--extended-regexp", pattern, "/proc/kallsyms"], check=False).stdout
    present = {line.split()[2] for line in symbols.splitlines() if len(line.split()) > 2}
    return missing + [name for name in needed.functions if name not in present]


def _shell(server: Host) -> str:
    """/bin/sh without symbolic links: bpftrace before 0.19 starts no command through one."""
    try:
        return server.run(["readlink", "--canonicalize-existing", "/bin/sh"]).stdout.strip() or "/bin/sh"
    except CommandFailed:
        return "/bin/sh"
