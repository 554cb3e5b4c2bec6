"""What the tracer's own process used of the observed server: processor time and memory (proc_pid_stat(5))."""

from __future__ import annotations

from dataclasses import dataclass

from kit.core.units import format_binary_bytes, format_duration_s, format_percent
from kit.hosts.base import Host
from kit.trace.nfsd_tracer import TracerFiles

# The kernel gives processor time to user space in ticks of 10 ms, whatever it counts in itself (USER_HZ).
_TICK_S = 0.01
# Of what follows the name in parentheses.
_PARENT, _USER, _SYSTEM = 1, 11, 12


@dataclass(frozen=True)
class TracerUse:
    """`cpu_s`: processor time since the start; `most_bytes`: the most memory at any time until now."""

    cpu_s: float
    most_bytes: int


def read(server: Host, place: TracerFiles) -> TracerUse | None:
    """None where the process is gone, or the kernel does not tell."""
    tracer = process(server, place)
    stat = _stat(server, tracer)
    status = server.run(["cat", f"/proc/{tracer}/status"], check=False).stdout if stat else ""
    most = next((line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")), "")
    if not most.isdecimal():
        return None
    return TracerUse((int(stat[_USER]) + int(stat[_SYSTEM])) * _TICK_S, int(most) << 10)


def process(server: Host, place: TracerFiles) -> str:
    """The number of the tracer's process, the parent of the command that it waits for; "" if it is gone."""
    held = server.run(["cat", place.ready], check=False).stdout.strip()
    stat = _stat(server, held)
    return stat[_PARENT] if stat else ""


def _stat(server: Host, process: str) -> list[str]:
    """The fields after the name, which may have spaces; none where there is no such process."""
    if not process.isdecimal():
        return []
    return server.run(["cat", f"/proc/{process}/stat"], check=False).stdout.rpartition(")")[2].split()


def sentence(before: TracerUse | None, after: TracerUse | None, seconds: float) -> str:
    """What it used between two readings, `seconds` apart on the clock of the server."""
    if before is None or after is None or seconds <= 0:
        return "What the tracer's process used is not known."
    spent = after.cpu_s - before.cpu_s
    part, most = format_percent(spent / seconds, 1), format_binary_bytes(after.most_bytes)
    return (
        f"bpftrace used {format_duration_s(spent)} of processor time, {part} of one CPU, and {most} of "
        "memory at most."
    )
