"""The tracer on the server: started before a phase's load, ended after it, read once."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from kit.clock import Clock
from kit.errors import HostError
from kit.hosts.base import Host, Process

PROGRAM = Path(__file__).with_name("nfsd.bt")
_KPROBE = re.compile(r"^k(?:ret)?probe:(\w+)$", re.MULTILINE)
_TRACEPOINT = re.compile(r"^tracepoint:(\w+):(\w+)$", re.MULTILINE)
# bpftrace runs its BEGIN block before it attaches the other probes; the command of -c runs
# after the last one is attached, and bpftrace ends with it.
_HOLD = b'#!/bin/sh\ntouch "$1" && exec sleep infinity\n'
_WAIT = 'until test -e "$1"; do sleep 0.1; done'
# Ticks of the program's timer in an interval (see nfsd.bt).
_TICKS = 4
_READY_DEADLINE_S = 180.0
_STOP_DEADLINE_S = 120.0
_POLL_S = 0.2
MIN_BPFTRACE = (0, 20)


@dataclass(frozen=True)
class Probes:
    """What the program attaches to."""

    functions: tuple[str, ...]
    tracepoints: tuple[str, ...]


def probes() -> Probes:
    """As the program itself says."""
    text = PROGRAM.read_text()
    functions = sorted(set(_KPROBE.findall(text)))
    return Probes(tuple(functions), tuple(f"{a}/{b}" for a, b in sorted(set(_TRACEPOINT.findall(text)))))


def check_server(server: Host) -> str:
    """Everything the program needs is there; returns bpftrace's version. Raises HostError."""
    version = server.run(["bpftrace", "--version"]).stdout.strip()
    found = re.search(r"v(\d+)\.(\d+)", version)
    if not found or (int(found[1]), int(found[2])) < MIN_BPFTRACE:
        raise HostError(
            f"{server.name} has {version or 'no bpftrace'}; histograms fine enough came with 0.20",
            "install a newer bpftrace on the server",
        )
    needed = probes()
    missing = [
        name
        for name in needed.tracepoints
        if server.run(["test", "-d", f"/sys/kernel/tracing/events/{name}"], check=False).returncode
    ]
    pattern = " (" + "|".join(needed.functions) + r")(\s|$)"
    symbols = server.run(["grep", "--extended-regexp", pattern, "/proc/kallsyms"], check=False).stdout
    present = {line.split()[2] for line in symbols.splitlines() if len(line.split()) > 2}
    missing += [name for name in needed.functions if name not in present]
    if missing:
        raise HostError(
            f"the kernel of {server.name} has no {', '.join(missing)} to probe",
            "are the nfsd and zfs modules loaded, and is this OpenZFS a version the program knows (2.3)?",
        )
    return version


class Tracer:
    """One life of the trace program."""

    def __init__(self, server: Host, directory: str, clock: Clock, interval_ns: int) -> None:
        self._server = server
        self._output, self._ready = f"{directory}/trace.json", f"{directory}/trace-ready"
        program, functions, hold = (f"{directory}/{name}" for name in ("nfsd.bt", "functions", "hold"))
        server.run(["mkdir", "-p", directory])
        server.run(["rm", "-f", self._output, self._ready])
        server.put(_HOLD, hold)
        server.put(PROGRAM.read_bytes(), program)
        # check_server has found each function in the kernel. bpftrace would look them up in
        # the list of everything that can be traced, which takes an emulated CPU 14 s; given a
        # list of its own (bpftrace's test hook; others ignore it) it still has to attach.
        server.put("".join(f"{name}\n" for name in probes().functions).encode(), functions)
        host_ns = clock.to_host_ns(interval_ns)
        self._process: Process = server.start(
            [
                "env",
                f"BPFTRACE_AVAILABLE_FUNCTIONS_TEST={functions}",
                # Printing must not keep a request from the CPU.
                "nice", "-n", "19",
                "bpftrace", "-f", "json", "-o", self._output, "-c", f"/bin/sh {hold} {self._ready}", program,
                str(clock.dilation), str(max(1, host_ns // _TICKS // 1_000_000)), str(host_ns),
            ]
        )  # fmt: skip

    def wait_ready(self) -> None:
        """Until every probe is attached. Raises HostError if it does not come to that.

        One command waits on the server. Asked again and again while it attached probes, a
        guest's sshd has now and then slept through a wake-up (see kit.hosts.ssh, nudge_s).
        """
        waiting = self._server.start(["sh", "-c", _WAIT, "sh", self._ready])
        end = time.monotonic() + _READY_DEADLINE_S
        while waiting.running():
            if not self._process.running():
                waiting.stop(_STOP_DEADLINE_S, "KILL")
                raise HostError(f"the tracer did not start: {self._process.wait(1.0).describe()}")
            if time.monotonic() > end:
                waiting.stop(_STOP_DEADLINE_S, "KILL")
                self.stop()
                raise HostError(f"the tracer was not ready within {_READY_DEADLINE_S:g} s")
            time.sleep(_POLL_S)
        ended = waiting.wait(_STOP_DEADLINE_S)
        if ended.returncode:
            raise HostError(f"the tracer cannot be waited for: {ended.describe()}")

    def running(self) -> bool:
        return self._process.running()

    def stop(self) -> tuple[str, list[str]]:
        """End it. Returns its output and what went wrong, in words."""
        problems = []
        if not self._process.running():
            problems.append("the tracer died during the load")
        result = self._process.stop(_STOP_DEADLINE_S)
        if result.returncode != 0:
            problems.append(f"the tracer failed: {result.describe()}")
        warnings = [line for line in result.stderr.splitlines() if line.strip()]
        if warnings:
            problems.append(f"the tracer warned: {'; '.join(warnings)[:500]}")
        return self._server.get(self._output).decode(errors="replace"), problems
