"""The tracer on the server: started before a phase's load, ended after it, read once."""

from __future__ import annotations

import time

from kit.clock import Clock
from kit.errors import HostError
from kit.hosts.base import Host, Process
from kit.trace.tracing import Tracing

# bpftrace runs its BEGIN block before it attaches the other probes; the command of -c runs
# after the last one is attached, and bpftrace ends with it. So its end is asked of that command:
# sshd before 9.8 delivers no signals to what root has started.
_HOLD = b"""#!/bin/sh
trap 'kill "$held"; exit 0' TERM
sleep infinity &
held=$!
echo $$ >"$1.part" && mv "$1.part" "$1" && wait
"""
_WAIT = 'until test -e "$1"; do sleep 0.1; done'
# Ticks of the program's timer in an interval (see nfsd.bt).
_TICKS = 4
_READY_DEADLINE_S = 180.0
_STOP_DEADLINE_S = 120.0
_POLL_S = 0.2
_MAP_KEYS = 65536


_FILES = ("nfsd.bt", "functions", "hold")


def command(directory: str, clock: Clock, interval_ns: int, tracing: Tracing) -> list[str]:
    """argv of the tracer, whose files are in `directory`."""
    path, functions, hold = (f"{directory}/{name}" for name in _FILES)
    host_ns = clock.to_host_ns(interval_ns)
    return [
        # Whoever is no root runs a shell with sudo, which keeps no variables of its caller's.
        "sh", "-c", 'exec env "$@"', "sh",
        f"BPFTRACE_AVAILABLE_FUNCTIONS_TEST={functions}",
        f"{tracing.map_keys_variable}={_MAP_KEYS}",
        # Printing must not keep a request from the CPU.
        "nice", "-n", "19",
        "bpftrace", "-f", "json", "-o", f"{directory}/trace.json",
        "-c", f"{tracing.sh} {hold} {directory}/trace-ready", path,
        str(clock.dilation), str(max(1, host_ns // _TICKS // 1_000_000)), str(host_ns),
    ]  # fmt: skip


class Tracer:
    """One life of the trace program."""

    def __init__(
        self, server: Host, directory: str, clock: Clock, interval_ns: int, tracing: Tracing
    ) -> None:
        self._server = server
        self._output, self._ready = f"{directory}/trace.json", f"{directory}/trace-ready"
        path, functions, hold = (f"{directory}/{name}" for name in _FILES)
        server.run(["mkdir", "-p", directory])
        server.run(["rm", "-f", self._output, self._ready])
        server.put(_HOLD, hold)
        server.put(tracing.program.text.encode(), path)
        # find_tracing has found each function in the kernel. bpftrace would look them up in
        # the list of everything that can be traced, which takes an emulated CPU 14 s; given a
        # list of its own (bpftrace's test hook; others ignore it) it still has to attach.
        server.put("".join(f"{name}\n" for name in tracing.program.functions).encode(), functions)
        self._process: Process = server.start(command(directory, clock, interval_ns, tracing))

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
                raise HostError(
                    f"the tracer did not start: {self._process.wait(1.0).describe()}",
                    '`hsp doctor` says what the tracer needs; trace = "none" in [server] goes without',
                )
            if time.monotonic() > end:
                waiting.stop(_STOP_DEADLINE_S, "KILL")
                self.stop()
                raise HostError(
                    f"the tracer was not ready within {_READY_DEADLINE_S:g} s",
                    "is the server much busier than usual?",
                )
            time.sleep(_POLL_S)
        ended = waiting.wait(_STOP_DEADLINE_S)
        if ended.returncode:
            raise HostError(f"the tracer cannot be waited for: {ended.describe()}")

    def running(self) -> bool:
        return self._process.running()

    def _let_go(self) -> None:
        """End the command that bpftrace waits for; bpftrace itself, if there is none yet."""
        held = self._server.run(["cat", self._ready], check=False).stdout.strip()
        if not held.isdecimal() or self._server.run(["kill", "-TERM", held], check=False).returncode:
            self._process.stop(_STOP_DEADLINE_S)

    def stop(self) -> tuple[str, list[str]]:
        """End it. Returns its output and what went wrong, in words."""
        problems = []
        if not self._process.running():
            problems.append("the tracer died during the load")
        else:
            self._let_go()
        result = self._process.wait(_STOP_DEADLINE_S)
        if result.returncode != 0:
            problems.append(f"the tracer failed: {result.describe()}")
        warnings = [line for line in result.stderr.splitlines() if line.strip()]
        if warnings:
            problems.append(f"the tracer warned: {'; '.join(warnings)[:500]}")
        return self._server.get(self._output).decode(errors="replace"), problems
