"""The tracer on the server: one process for all phases of a run; marks begin and end each phase.

A mark is a number (see nfsd.bt). A shell on the server sets it as its limit of real-time priority
(RLIMIT_RTPRIO; nothing else sets such a value). The kernel passes it to security_task_setrlimit, where the
program reads it. The limit ends with the shell.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.hosts.base import CommandResult, DeadlineExceeded, Host, OutputTooLarge, Process
from kit.trace.support import MAP_KEYS, TracingSupport

# bpftrace starts the command of -c after it has attached all probes, and ends when that command ends. To end
# the tracer, the kit ends that command: sshd before 9.8 delivers no signals to processes of root.
_HOLD = b"""#!/bin/sh
trap 'kill "$held"; exit 0' TERM
sleep infinity &
held=$!
echo $$ >"$1.part" && mv "$1.part" "$1" && wait
"""
# $1: the file of warnings, then the command.
RUN = 'warnings=$1; shift; exec env "$@" 2>"$warnings"'
WAIT = 'until test -e "$1"; do sleep 0.1; done'
# First ends the command that bpftrace waits for, so that bpftrace ends normally. Then ends all processes with
# the program of this directory in their command line (not attached yet, or under sudo): TERM, then KILL.
# The brackets keep this command from finding itself.
END_LEFT = (
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
# Ticks of the program's timer in an interval (see nfsd.bt); the answer to a mark waits for a tick, too.
_TICKS = 4
_SLOWEST_TICK_NS = 100_000_000
# The kernel mounts tracefs there when bpftrace looks at it (fs/debugfs, trace_automount).
TRACING = "/sys/kernel/debug/tracing"
_READY_DEADLINE_S = 180.0
# Some 100 bytes per map entry, at each of the thousands of readings that a long phase has.
_TRACE_LIMIT_BYTES = 256 << 20
_MARK_DEADLINE_S = 120.0
_STOP_DEADLINE_S = 120.0
_POLL_S = 0.2
_ARRIVAL_DEADLINE_S = 60.0
_TAIL_BYTES = 1 << 10

MAGIC = 0x68737
"""Bits 43 to 62 of every mark."""

MOST_PHASES = (1 << 11) - 1
_MOST_US = (1 << 32) - 1

NOT_RUNNING, NO_MARK = 70, 71
"""Exit codes of the scripts: the tracer does not run; the shell cannot set the limit."""

# $1: the tracer's output; $2: its ready file, with the id of a process that ends with the tracer; $3: the
# mark; $4: the program's answer; $5: the size of the output before. The mark is repeated until the answer is
# there: it sets a state, and the program answers once.
_AWAIT = (
    'read -r held <"$2"; '
    'until tail -c "+$(($5 + 1))" "$1" | grep -q -F -- "$4"; do '
    f'test -d "/proc/$held" || exit {NOT_RUNNING}; '
    f'ulimit -r "$3" || exit {NO_MARK}; '
    "sleep 0.05; done"
)
BEGIN = (
    f'size=$(wc -c <"$1") && test -r "$2" || exit {NOT_RUNNING}; '
    f'set -- "$1" "$2" "$3" "$4" "$size"; {_AWAIT}; echo "$size"'
)
"""Arguments: output, ready file, mark, expected answer. Prints the size of the output before the phase."""

END = f"""trap 'tail -c "+$(($5 + 1))" "$1"; cat "$6" >&2' EXIT; {_AWAIT}"""
"""Arguments: those of BEGIN, that size, the file of warnings. Prints the output of the phase, and
the warnings on stderr; also if the tracer has died."""


END_FOLLOWED = f"""trap 'cat "$6" >&2' EXIT; {_AWAIT}"""
"""As END, without the output: it has come already."""
FOLLOW = 'exec nice -n 19 tail -c "+$(($2 + 1))" -f -- "$1"'
"""Arguments: output, its size before the phase. Prints what the phase adds, until it is killed."""


class TracerFiles:
    """The files of a tracer in its directory on the server.

    `warnings`: stderr of bpftrace. `ready` exists once all probes are attached; contains the id of a process
    that ends with the tracer.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.program = f"{directory}/nfsd.bt"
        self.functions = f"{directory}/functions"
        self.hold = f"{directory}/hold"
        self.output = f"{directory}/trace.json"
        self.warnings = f"{directory}/trace-warnings"
        self.ready = f"{directory}/trace-ready"


def tick_ms(clock: Clock, intervals_ns: Iterable[int]) -> int:
    """Period of the program's timer on the host's clock, for the shortest of these intervals (ns)."""
    finest_ns = clock.to_host_ns(min(intervals_ns)) // _TICKS
    return max(1, min(finest_ns, _SLOWEST_TICK_NS) // 1_000_000)


def command(
    place: TracerFiles, clock: Clock, intervals_ns: Iterable[int], tracing: TracingSupport
) -> list[str]:
    """argv of a tracer for phases with these intervals (ns of the experiment)."""
    return [
        # Other users than root run a shell with sudo, which drops the variables of its caller.
        "sh", "-c", RUN, "sh", place.warnings,
        f"BPFTRACE_AVAILABLE_FUNCTIONS_TEST={place.functions}",
        f"{tracing.map_keys_variable}={MAP_KEYS}",
        # Printing must not delay requests.
        "nice", "-n", "19",
        "bpftrace", "-f", "json", "-o", place.output,
        "-c", f"{tracing.sh} {place.hold} {place.ready}", place.program,
        str(clock.dilation), str(tick_ms(clock, intervals_ns)),
    ]  # fmt: skip


def mark(phase: int, interval_ns: int) -> int:
    """The number that begins phase `phase` (from 1) with this interval on the host's clock; phase 0 ends it.

    Raises ValueError if the values do not fit.
    """
    interval_us = interval_ns // 1000
    if not 0 <= phase <= MOST_PHASES or not 0 <= interval_us <= _MOST_US or (phase and not interval_us):
        raise ValueError(f"no mark for phase {phase} with an interval of {interval_ns} ns")
    return MAGIC << 43 | phase << 32 | interval_us


def begin_command(place: TracerFiles, phase: int, interval_ns: int) -> list[str]:
    """argv to begin a phase; `interval_ns` on the host's clock."""
    answer = f'"hsp-trace phase {phase} '
    number = str(mark(phase, interval_ns))
    return ["sh", "-c", BEGIN, "sh", place.output, place.ready, number, answer]


def end_command(
    place: TracerFiles, phase: int, before_bytes: int | str, *, followed: bool = False
) -> list[str]:
    """argv to end a phase and print its output, unless that was `followed`. `before_bytes`: of the begin."""
    last_line = f'"hsp-trace ended {phase}\\n"}}'
    arguments = [place.output, place.ready, str(mark(0, 0)), last_line, str(before_bytes), place.warnings]
    return ["sh", "-c", END_FOLLOWED if followed else END, "sh", *arguments]


def follow_command(place: TracerFiles, before_bytes: int | str) -> list[str]:
    """argv that prints the output of a phase as it comes. `before_bytes`: of the begin."""
    return ["sh", "-c", FOLLOW, "sh", place.output, str(before_bytes)]


def start(
    server: Host, place: TracerFiles, clock: Clock, intervals_ns: Iterable[int], tracing: TracingSupport
) -> Process:
    """Start a tracer and wait until its probes are attached. Raises HostError."""
    server.run(["mkdir", "-p", place.directory])
    server.run(["rm", "-f", place.output, place.ready])
    server.put(_HOLD, place.hold)
    server.put(tracing.text.encode(), place.program)
    # find_tracing has checked the functions. bpftrace would search them in the list of all traceable
    # functions, which takes 14 s on an emulated CPU. This list replaces it (a test hook of bpftrace;
    # versions without the hook ignore it).
    names = "".join(f"{name}\n" for name in tracing.program.traceable)
    server.put(names.encode(), place.functions)
    process = server.start(command(place, clock, intervals_ns, tracing))
    _wait_ready(server, place, process)
    return process


def _wait_ready(server: Host, place: TracerFiles, process: Process) -> None:
    """Wait with one command on the server. With a command per poll, the guest's sshd sometimes missed a
    wake-up (see kit.hosts.ssh, nudge_s).
    """
    waiting = server.start(["sh", "-c", WAIT, "sh", place.ready])
    end = time.monotonic() + _READY_DEADLINE_S
    while waiting.running():
        if not process.running():
            waiting.stop(_STOP_DEADLINE_S, "KILL")
            warnings = server.run(["cat", place.warnings], check=False).stdout.strip()[-2000:]
            raise HostError(
                f"the tracer did not start: {process.wait(1.0).describe()} {warnings}".rstrip(),
                '`hsp host check` shows what the tracer needs; trace = "none" in [server] runs without it',
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
        raise HostError(f"waiting for the tracer failed: {ended.describe()}")


class Tracer:
    """A running tracer. Call `begin` and `end` around each phase. `place`: its files on the server."""

    def __init__(self, server: Host, place: TracerFiles, process: Process) -> None:
        self._server, self.place, self._process = server, place, process
        self._phase, self._before_bytes = 0, 0
        self._follower: Process | None = None

    def running(self) -> bool:
        return self._process.running()

    def begin(self, interval_ns: int, output: Path | None = None) -> None:
        """Begin a phase, with this interval on the host's clock, and wait for the tracer's answer.

        `output`: a new file here, which gets the output of the phase as it comes. Raises HostError without an
        answer.
        """
        self._phase += 1
        result = self._mark(begin_command(self.place, self._phase, interval_ns))
        if result.returncode or not result.stdout.strip().isdecimal():
            raise HostError(self._failure("begin", result), "is the tracer (bpftrace) gone on the server?")
        self._before_bytes = int(result.stdout)
        if output:
            words = follow_command(self.place, self._before_bytes)
            self._follower = self._server.start(words, output)

    def follow_end(self, output: Path) -> list[str]:
        """End the phase, whose output goes to `output`. Returns problems as texts."""
        _, problems = self.end()
        follower, self._follower = self._follower, None
        assert follower is not None
        # It was sent before the answer to the mark, on another channel.
        last, end = f"ended {self._phase}".encode(), time.monotonic() + _ARRIVAL_DEADLINE_S
        while not (problems or last in tail(output)):
            if time.monotonic() > end:
                problems = [
                    f"the tracer's last lines did not arrive in {output} within {_ARRIVAL_DEADLINE_S:g} s: "
                    "is there room on the disk of this machine?"
                ]
            time.sleep(_POLL_S)
        follower.stop(_STOP_DEADLINE_S, "KILL")
        return problems

    def end(self) -> tuple[str, list[str]]:
        """End the phase. Returns its output, if it is not followed, and problems as texts."""
        followed = self._follower is not None
        try:
            command = end_command(self.place, self._phase, self._before_bytes, followed=followed)
            result = self._mark(command)
        except DeadlineExceeded as error:
            return "", [f"the tracer did not confirm the end of the phase: {error.message}"]
        except OutputTooLarge as error:
            return "", [f"the tracer's output of the phase was not read: {error.message}"]
        problems = [self._failure("end", result)] if result.returncode else []
        warnings = [line for line in result.stderr.splitlines() if line.strip()]
        if warnings:
            problems.append(f"the tracer warned: {'; '.join(warnings)[:500]}")
        return result.stdout, problems

    def _mark(self, argv: list[str]) -> CommandResult:
        return self._server.run(
            argv, deadline_s=_MARK_DEADLINE_S, check=False, limit_bytes=_TRACE_LIMIT_BYTES
        )

    def _failure(self, which: str, result: CommandResult) -> str:
        if result.returncode == NOT_RUNNING:
            return "the tracer died" + (" during the load" if which == "end" else " before the phase")
        why = result.stderr.strip()[-500:] or f"the command ended with {result.returncode}"
        return f"the tracer on {result.host} did not get the mark of the phase's {which}: {why}"

    def stop(self) -> list[str]:
        """End the command that bpftrace waits for; bpftrace itself, if that command does not run yet.

        Returns problems as texts.
        """
        problems = []
        if not self._process.running():
            problems.append("the tracer died before its end")
        else:
            held = self._server.run(["cat", self.place.ready], check=False).stdout.strip()
            if not held.isdecimal() or self._server.run(["kill", "-TERM", held], check=False).returncode:
                self._process.stop(_STOP_DEADLINE_S)
        result = self._process.wait(_STOP_DEADLINE_S)
        if result.returncode != 0:
            problems.append(f"the tracer failed: {result.describe()}")
        return problems


def tail(path: Path, most_bytes: int = _TAIL_BYTES) -> bytes:
    """The last bytes of a file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most_bytes))
        return file.read()


def will_mount(server: Host) -> bool:
    """Whether TRACING is not mounted yet; False if that cannot be determined. Raises HostLost."""
    mounts = server.run(["cat", "/proc/mounts"], check=False).stdout.splitlines()
    return bool(mounts) and all(line.split()[1:2] != [TRACING] for line in mounts)


def end_left(server: Host, directory: str) -> None:
    """End the tracer with the files of `directory`, if it runs. Raises HostError."""
    if server.run(end_left_command(directory), check=False).returncode:
        raise HostError(f"the tracer of {directory} on {server.name} does not end")


def end_left_command(directory: str) -> list[str]:
    """argv of `end_left`."""
    return ["sh", "-c", END_LEFT, "sh", directory]
