"""Checks of the server's kernel for the tracer, which records the tier of each request. Pure.

Sources: kernel_lockdown(7); Documentation/trace/kprobes.rst; Documentation/trace/ftrace.rst.
"""

from __future__ import annotations

import re

from kit.doctor.facts import HostFacts, Unknown
from kit.doctor.finding import Examination, ExaminedHost, Verdict
from kit.trace.support import MIN_BPFTRACE, Program, program, programs
from kit.zfs import openzfs_version

TRACING = "/sys/kernel/tracing"
KPROBES = "/sys/kernel/debug/kprobes/enabled"
BTF, LOCKDOWN = "/sys/kernel/btf/vmlinux", "/sys/kernel/security/lockdown"
FILES = (KPROBES, LOCKDOWN)
PRESENT = (
    BTF,
    f"{TRACING}/kprobe_events",
    f"{TRACING}/events",
    *sorted({f"{TRACING}/events/{name}" for program in programs() for name in program.tracepoints}),
)
PROGRAMS = ("bpftrace",)
COMMANDS = {"bpftrace": ("bpftrace", "--version")}


def _bpftrace(subject: ExaminedHost) -> Verdict:
    if not any(subject.facts.program("bpftrace")):
        return "warn", "not installed"
    output = subject.facts.output("bpftrace").strip()
    match = re.fullmatch(r"bpftrace v([0-9]{1,4})\.([0-9]{1,4})(?![0-9])[A-Za-z0-9.+~-]{0,60}", output)
    if not match:
        raise Unknown(f"`bpftrace --version` prints {output[:60]!r}")
    return "warn" if (int(match[1]), int(match[2])) < MIN_BPFTRACE else "ok", output


def _probes(subject: ExaminedHost) -> Verdict:
    needed, facts = _program(subject), subject.facts
    missing = sorted(set(needed.functions) - facts.names("symbols"))
    _check_tracefs(facts, f"{TRACING}/events")
    missing += [name for name in needed.tracepoints if not facts.present(f"{TRACING}/events/{name}")]
    if missing:
        return "warn", f"the kernel has no {', '.join(missing)}"
    return "ok", f"{len(needed.functions)} functions and {len(needed.tracepoints)} tracepoints"


def _program(subject: ExaminedHost) -> Program:
    """The tracer's program for the server's OpenZFS; the newest one if the version is unknown."""
    try:
        return program(openzfs_version.parse(subject.facts.optional("/sys/module/zfs/version") or ""))
    except ValueError:
        return programs()[-1]


def _kprobes(subject: ExaminedHost) -> Verdict:
    switch = subject.facts.optional(KPROBES, "[01]")
    if switch == "0":
        return "warn", "disabled"
    _check_tracefs(subject.facts, f"{TRACING}/kprobe_events")
    return "ok", "enabled" if switch else "available"


def _check_tracefs(facts: HostFacts, path: str) -> None:
    """Raises Unknown if tracefs cannot be listed."""
    if not facts.present(path):
        reason = "is readable by root only" if facts.number("euid") else "is empty: tracefs is not mounted"
        raise Unknown(f"{TRACING} {reason}")


def _btf(subject: ExaminedHost) -> Verdict:
    return ("ok", BTF) if subject.facts.present(BTF) else ("note", f"there is no {BTF}")


def _lockdown(subject: ExaminedHost) -> Verdict:
    text = subject.facts.optional(LOCKDOWN, r"(\w+ )*\[(none|integrity|confidentiality)\]( \w+)*")
    if text is None:
        return "note", "not reported: the kernel has none, or securityfs is not mounted"
    mode = text.partition("[")[2].partition("]")[0]
    return "warn" if mode == "confidentiality" else "ok", mode


def _if_traced(look: Examination) -> Examination:
    """Skip a check that only the tracer needs if the testbed does not trace."""
    skipped: Verdict = "note", 'not needed: the testbed has trace = "none"'
    return lambda subject: look(subject) if subject.requirements.traced else skipped


EXAMINATIONS: dict[str, Examination] = {
    "bpftrace": _if_traced(_bpftrace),
    "probes": _if_traced(_probes),
    "kprobes": _if_traced(_kprobes),
    "btf": _if_traced(_btf),
    "lockdown": _if_traced(_lockdown),
}
