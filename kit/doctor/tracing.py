"""Checks of the server's kernel for the tracer, which records the tier of each request. Pure.

Sources: kernel_lockdown(7); Documentation/trace/kprobes.rst; Documentation/trace/ftrace.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kit.doctor.facts import Unknown
from kit.doctor.finding import Examination, Examined, Judgement, Subject
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


def _bpftrace(subject: Subject) -> Iterator[Judgement]:
    if not any(subject.facts.program("bpftrace")):
        yield Judgement("bpftrace", "warn", "not installed")
        return
    output = subject.facts.output("bpftrace").strip()
    match = re.fullmatch(r"bpftrace v([0-9]{1,4})\.([0-9]{1,4})(?![0-9])[A-Za-z0-9.+~-]{0,60}", output)
    if not match:
        raise Unknown(f"`bpftrace --version` prints {output[:60]!r}")
    old = (int(match[1]), int(match[2])) < MIN_BPFTRACE
    yield Judgement("bpftrace", "warn" if old else "ok", output)


def _probes(subject: Subject) -> Iterator[Judgement]:
    needed, facts = _program(subject), subject.facts
    missing = sorted(set(needed.functions) - facts.names("symbols"))
    if not facts.present(f"{TRACING}/events"):
        raise Unknown(f"{TRACING} {_hidden(subject)}")
    missing += [name for name in needed.tracepoints if not facts.present(f"{TRACING}/events/{name}")]
    if missing:
        yield Judgement("probes", "warn", f"the kernel has no {', '.join(missing)}")
    else:
        text = f"{len(needed.functions)} functions and {len(needed.tracepoints)} tracepoints"
        yield Judgement("probes", "ok", text)


def _program(subject: Subject) -> Program:
    """The tracer's program for the server's OpenZFS; the newest one if the version is unknown."""
    try:
        return program(openzfs_version.parse(subject.facts.optional("/sys/module/zfs/version") or ""))
    except ValueError:
        return programs()[-1]


def _kprobes(subject: Subject) -> Iterator[Judgement]:
    facts = subject.facts
    switch = facts.optional(KPROBES)
    if switch == "0":
        yield Judgement("kprobes", "warn", "disabled")
    elif switch not in (None, "1"):
        raise Unknown(f"{KPROBES} is {switch[:60]!r}" if switch else f"{KPROBES} is empty")
    elif not facts.present(f"{TRACING}/kprobe_events"):
        raise Unknown(f"{TRACING} {_hidden(subject)}")
    else:
        yield Judgement("kprobes", "ok", "enabled" if switch else "available")


def _hidden(subject: Subject) -> str:
    """Why tracefs cannot be listed."""
    return "is readable by root only" if subject.facts.number("euid") else "is empty: tracefs is not mounted"


def _btf(subject: Subject) -> Iterator[Judgement]:
    if subject.facts.present(BTF):
        yield Judgement("btf", "ok", BTF)
    else:
        yield Judgement("btf", "note", f"there is no {BTF}")


def _lockdown(subject: Subject) -> Iterator[Judgement]:
    text = subject.facts.optional(LOCKDOWN)
    if text is None:
        yield Judgement("lockdown", "note", "not reported: the kernel has none, or securityfs is not mounted")
        return
    match = re.fullmatch(r"(?:\w+ )*\[(none|integrity|confidentiality)\](?: \w+)*", text)
    if not match:
        raise Unknown(f"{LOCKDOWN} is {text[:60]!r}")
    yield Judgement("lockdown", "warn" if match[1] == "confidentiality" else "ok", match[1])


def _if_traced(check: str, look: Examination) -> Examination:
    """Skip a check that only the tracer needs if the testbed does not trace."""

    def look_if_traced(subject: Subject) -> Iterator[Judgement]:
        if subject.requirements.traced:
            yield from look(subject)
        else:
            yield Judgement(check, "note", 'not needed: the testbed has trace = "none"')

    return look_if_traced


EXAMINATIONS = (
    Examined(("bpftrace",), _if_traced("bpftrace", _bpftrace)),
    Examined(("probes",), _if_traced("probes", _probes)),
    Examined(("kprobes",), _if_traced("kprobes", _kprobes)),
    Examined(("btf",), _if_traced("btf", _btf)),
    Examined(("lockdown",), _if_traced("lockdown", _lockdown)),
)
