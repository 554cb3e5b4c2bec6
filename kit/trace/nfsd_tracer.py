"""The tracer on the server: started once for all phases of a run; marks tell it where each begins."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.base import DeadlineExceeded, Host, Process, Result
from kit.trace import marks
from kit.trace.program import MAP_KEYS
from kit.trace.support import Tracing

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
# The command that bpftrace waits for is asked first: then bpftrace ends as it should. Whatever still has the
# program of this directory in its command line (not attached yet, or under sudo) is asked, then made to end.
# The brackets keep this command from finding itself.
_END_LEFT = (
    "found() { grep -l -- \"$1/nfsd[.]bt\" /proc/[0-9]*/cmdline 2>/dev/null | tr -dc '0-9\\n'; }; "
    'held=$(cat "$1/trace-ready" 2>/dev/null) && grep -q -F -- "$1/hold" "/proc/$held/cmdline" 2>/dev/null '
    '&& kill -s TERM "$held"; '
    "for word in none TERM KILL; do "
    'pids=$(found "$1"); '
    'test -n "$pids" || exit 0; '
    'test "$word" = none || kill -s "$word" $pids 2>/dev/null; '
    "for tenth in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "
    'test -n "$(found "$1")" || exit 0; sleep 0.1; done; done; '
    "exit 1"
)
# Ticks of the program's timer in an interval (see nfsd.bt); a mark waits for a tick, too.
_TICKS = 4
_SLOWEST_TICK_NS = 100_000_000
_READY_DEADLINE_S = 180.0
_MARK_DEADLINE_S = 120.0
_STOP_DEADLINE_S = 120.0
_POLL_S = 0.2


@dataclass(frozen=True)
class Place:
    """The files of a tracer in its directory on the server."""

    directory: str

    @property
    def program(self) -> str:
        return f"{self.directory}/nfsd.bt"

    @property
    def functions(self) -> str:
        return f"{self.directory}/functions"

    @property
    def hold(self) -> str:
        return f"{self.directory}/hold"

    @property
    def output(self) -> str:
        return f"{self.directory}/trace.json"

    @property
    def warnings(self) -> str:
        """What bpftrace says on stderr."""
        return f"{self.directory}/trace-warnings"

    @property
    def ready(self) -> str:
        """There once every probe is attached; holds the id of a process that ends with the tracer."""
        return f"{self.directory}/trace-ready"


def tick_ms(clock: Clock, intervals_ns: Iterable[int]) -> int:
    """Period of the program's timer on the host's clock, fine enough for each of these intervals (ns)."""
    finest_ns = clock.to_host_ns(min(intervals_ns)) // _TICKS
    return max(1, min(finest_ns, _SLOWEST_TICK_NS) // 1_000_000)


def command(place: Place, clock: Clock, intervals_ns: Iterable[int], tracing: Tracing) -> list[str]:
    """argv of a tracer for phases with these intervals (ns of the experiment)."""
    return [
        # Whoever is no root runs a shell with sudo, which keeps no variables of its caller's.
        "sh", "-c", 'warnings=$1; shift; exec env "$@" 2>"$warnings"', "sh", place.warnings,
        f"BPFTRACE_AVAILABLE_FUNCTIONS_TEST={place.functions}",
        f"{tracing.map_keys_variable}={MAP_KEYS}",
        # Printing must not keep a request from the CPU.
        "nice", "-n", "19",
        "bpftrace", "-f", "json", "-o", place.output,
        "-c", f"{tracing.sh} {place.hold} {place.ready}", place.program,
        str(clock.dilation), str(tick_ms(clock, intervals_ns)),
    ]  # fmt: skip


def begin_command(place: Place, phase: int, interval_ns: int) -> list[str]:
    """argv of what begins a phase; `interval_ns` on the host's clock."""
    number = str(marks.mark(phase, interval_ns))
    return ["sh", "-c", marks.BEGIN, "sh", place.output, place.ready, number, marks.begun(phase)]


def end_command(place: Place, phase: int, before_bytes: int | str) -> list[str]:
    """argv of what ends a phase, and prints its output. `before_bytes`: what the begin has printed."""
    number, last = str(marks.mark(0, 0)), marks.ended(phase)
    where = [place.output, place.ready, number, last, str(before_bytes), place.warnings]
    return ["sh", "-c", marks.END, "sh", *where]


def start(server: Host, place: Place, clock: Clock, intervals_ns: Iterable[int], tracing: Tracing) -> Process:
    """Start a tracer. It is attached when this returns. Raises HostError if it does not come to that."""
    server.run(["mkdir", "-p", place.directory])
    server.run(["rm", "-f", place.output, place.ready])
    server.put(_HOLD, place.hold)
    server.put(tracing.program.text.encode(), place.program)
    # find_tracing has found each function in the kernel. bpftrace would look them up in
    # the list of everything that can be traced, which takes an emulated CPU 14 s; given a
    # list of its own (bpftrace's test hook; others ignore it) it still has to attach.
    names = "".join(f"{name}\n" for name in tracing.program.functions)
    server.put(names.encode(), place.functions)
    process = server.start(command(place, clock, intervals_ns, tracing))
    _wait_ready(server, place, process)
    return process


def _wait_ready(server: Host, place: Place, process: Process) -> None:
    """One command waits on the server. Asked again and again while it attached probes, a
    guest's sshd has now and then slept through a wake-up (see kit.hosts.ssh, nudge_s).
    """
    waiting = server.start(["sh", "-c", _WAIT, "sh", place.ready])
    end = time.monotonic() + _READY_DEADLINE_S
    while waiting.running():
        if not process.running():
            waiting.stop(_STOP_DEADLINE_S, "KILL")
            said = server.run(["cat", place.warnings], check=False).stdout.strip()[-2000:]
            raise HostError(
                f"the tracer did not start: {process.wait(1.0).describe()} {said}".rstrip(),
                '`hsp doctor` says what the tracer needs; trace = "none" in [server] goes without',
            )
        if time.monotonic() > end:
            waiting.stop(_STOP_DEADLINE_S, "KILL")
            Tracer(server, place, process).stop()
            raise HostError(
                f"the tracer was not ready within {_READY_DEADLINE_S:g} s",
                "is the server much busier than usual?",
            )
        time.sleep(_POLL_S)
    ended = waiting.wait(_STOP_DEADLINE_S)
    if ended.returncode:
        raise HostError(f"the tracer cannot be waited for: {ended.describe()}")


class Tracer:
    """A tracer that is ready. `begin` and `end` enclose each phase."""

    def __init__(self, server: Host, place: Place, process: Process) -> None:
        self._server, self._place, self._process = server, place, process
        self._phase, self._before_bytes = 0, 0

    def running(self) -> bool:
        return self._process.running()

    def begin(self, interval_ns: int) -> None:
        """From now on requests belong to a new phase, with this interval on the host's clock.

        It has begun when this returns. Raises HostError if it does not.
        """
        self._phase += 1
        said = self._told(begin_command(self._place, self._phase, interval_ns))
        if said.returncode or not said.stdout.strip().isdecimal():
            raise HostError(self._words("begin", said), "is the tracer (bpftrace) gone on the server?")
        self._before_bytes = int(said.stdout)

    def end(self) -> tuple[str, list[str]]:
        """No request belongs to the phase any more. Returns its output, and what went wrong, in words."""
        try:
            said = self._told(end_command(self._place, self._phase, self._before_bytes))
        except DeadlineExceeded as error:
            return "", [f"the tracer did not tell of the phase's end: {error.message}"]
        problems = [self._words("end", said)] if said.returncode else []
        warnings = [line for line in said.stderr.splitlines() if line.strip()]
        if warnings:
            problems.append(f"the tracer warned: {'; '.join(warnings)[:500]}")
        return said.stdout, problems

    def _told(self, argv: list[str]) -> Result:
        return self._server.run(argv, deadline_s=_MARK_DEADLINE_S, check=False)

    def _words(self, what: str, said: Result) -> str:
        if said.returncode == marks.NOT_RUNNING:
            return "the tracer died" + (" during the load" if what == "end" else " before the phase")
        why = said.stderr.strip()[-500:] or f"the command ended with {said.returncode}"
        return f"the tracer on {said.host} was not told of the phase's {what}: {why}"

    def _let_go(self) -> None:
        """End the command that bpftrace waits for; bpftrace itself, if there is none yet."""
        held = self._server.run(["cat", self._place.ready], check=False).stdout.strip()
        if not held.isdecimal() or self._server.run(["kill", "-TERM", held], check=False).returncode:
            self._process.stop(_STOP_DEADLINE_S)

    def stop(self) -> list[str]:
        """End it. Returns what went wrong, in words."""
        problems = []
        if not self._process.running():
            problems.append("the tracer died before it was to end")
        else:
            self._let_go()
        result = self._process.wait(_STOP_DEADLINE_S)
        if result.returncode != 0:
            problems.append(f"the tracer failed: {result.describe()}")
        return problems


def end_left(server: Host, directory: str) -> None:
    """End the tracer that runs with the files of `directory`, if there is one. Raises HostError."""
    if server.run(end_left_command(directory), check=False).returncode:
        raise HostError(f"the tracer of {directory} on {server.name} does not end")


def end_left_command(directory: str) -> list[str]:
    """argv of what `end_left` does."""
    return ["sh", "-c", _END_LEFT, "sh", directory]
