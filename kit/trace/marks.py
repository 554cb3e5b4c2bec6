"""Marks: how a tracer that runs is told that a phase begins or ends (see nfsd.bt). Pure.

A mark is a number that a shell on the server sets as its own limit of real-time priority (RLIMIT_RTPRIO,
which nothing else sets to such a value): the kernel hands it to security_task_setrlimit, where the program
reads it. The shell ends at once, and the limit with it.
"""

from __future__ import annotations

MAGIC = 0x68737
"""Bits 43 to 62 of every mark."""

MOST_PHASES = (1 << 11) - 1
_MOST_US = (1 << 32) - 1

NOT_RUNNING, NO_MARK = 70, 71
"""Exit codes of the scripts: there is no tracer; the shell cannot set the limit."""

# $1: the tracer's output; $2: its ready file, with a process id that ends with the tracer; $3: the mark;
# $4: what the program prints then. The mark is made again until that is there: it says what is, not what
# changes, and the program prints it once. $5: how much of the output was there before.
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
"""Arguments: output, ready file, mark, what is waited for. Prints the size of the output before it."""

END = f"""trap 'tail -c "+$(($5 + 1))" "$1"; cat "$6" >&2' EXIT; {_AWAIT}"""
"""The same, then that size, and the file of warnings. Prints the phase's part of the output, on stderr the
warnings; also if there is no tracer any more."""


def mark(phase: int, interval_ns: int) -> int:
    """The number that begins phase `phase`, from 1, with this interval on the host's clock; 0 ends it.

    Raises ValueError for what it has no room for.
    """
    interval_us = interval_ns // 1000
    if not 0 <= phase <= MOST_PHASES or not 0 <= interval_us <= _MOST_US or (phase and not interval_us):
        raise ValueError(f"no mark can tell phase {phase} with an interval of {interval_ns} ns")
    return MAGIC << 43 | phase << 32 | interval_us


def begun(phase: int) -> str:
    """What stands in the output once the phase has begun."""
    return f'"hsp-trace phase {phase} '


def ended(phase: int) -> str:
    """What stands in the last line of the phase."""
    return f'"hsp-trace ended {phase}\\n"}}'
