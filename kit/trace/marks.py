"""Marks: numbers that begin and end a phase of a running tracer (see nfsd.bt). Pure.

A shell on the server sets the number as its limit of real-time priority (RLIMIT_RTPRIO; nothing else sets
such a value). The kernel passes it to security_task_setrlimit, where the program reads it. The limit ends
with the shell.
"""

from __future__ import annotations

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


def mark(phase: int, interval_ns: int) -> int:
    """The number that begins phase `phase` (from 1) with this interval on the host's clock; phase 0 ends it.

    Raises ValueError if the values do not fit.
    """
    interval_us = interval_ns // 1000
    if not 0 <= phase <= MOST_PHASES or not 0 <= interval_us <= _MOST_US or (phase and not interval_us):
        raise ValueError(f"no mark for phase {phase} with an interval of {interval_ns} ns")
    return MAGIC << 43 | phase << 32 | interval_us


def begun(phase: int) -> str:
    """Text of the output after the begin of the phase."""
    return f'"hsp-trace phase {phase} '


def ended(phase: int) -> str:
    """Text of the last line of the phase."""
    return f'"hsp-trace ended {phase}\\n"}}'
