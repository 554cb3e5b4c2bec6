"""What the tracer's programs cost the requests that they see, as the kernel counts it for a moment.

The kernel adds up how long BPF programs run while kernel.bpf_stats_enabled is 1 (Linux 5.1,
Documentation/admin-guide/sysctl/kernel.rst); /proc/PID/fdinfo of the process that holds them has the sums.
Counting costs time itself, so it is on for a second, seldom. Getting into a program and out of it is not in
the sums. Programs that run for others than the requests (reads of a scrub) are: the cost is a bound.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kit.core.bins import bin_edges
from kit.core.text import counted
from kit.core.units import format_latency, format_percent, format_time_s
from kit.hosts.base import Host
from kit.instruments.server_activity import NFSD, nfsd_counts
from kit.observe import tracer_use
from kit.trace.nfsd_tracer import TracerFiles
from kit.trace.output import Trace

STATS = "/proc/sys/kernel/bpf_stats_enabled"
_MARK = "--hsp--"
_SECONDS = 1
# A file in the tracer's directory while the kernel counts for it: the guard looks for it.
_ON = "counting"
WINDOW = f"""directory=$1 tracer=$2 kind=$3
look() {{
  if test "$kind" = nfs; then cat {NFSD}
  else grep -rhsE --include='objset-*' '^(reads|writes) ' /proc/spl/kstat/zfs; fi
  echo {_MARK}
  grep -hsE '^(prog_id|run_time_ns):' /proc/"$tracer"/fdinfo/*
  echo {_MARK}
}}
on=
over() {{ test -z "$on" || {{ echo 0 >{STATS}; on=; rm -f "$directory/{_ON}"; }}; }}
was=$(cat {STATS}) || exit 3
trap 'over; exit 4' TERM HUP INT
look
test "$was" != 0 || {{ on=1; : >"$directory/{_ON}" && echo 1 >{STATS}; }}
sleep {_SECONDS} & wait $!
over
look
"""
"""Arguments: the tracer's directory and process, and nfs or local. Prints counters and sums, twice."""
# $1: the directory. For a guard, where the window was killed.
RESTORE = f'test ! -e "$1/{_ON}" || echo 0 >{STATS}'
# Of the begin of the observation; each is twice as late as the one before.
FIRST_S = 5.0
# Programs that run for less time are no load for anybody, whatever few requests there are beside them.
_LEAST_OF_CPU = 0.01
# Fewer requests say nothing of one.
_LEAST_CALLS = 50
# The part of the mean latency that probes may take, if nothing else is asked for.
COST_MAX = 0.05
_FIELD = re.compile(r"^(prog_id|run_time_ns):\s*([0-9]+)$", re.MULTILINE)


@dataclass
class ProbeCost:
    """What the windows found: requests, and how long programs ran for them. `mean_ns`: of the requests."""

    windows: int = 0
    calls: int = 0
    run_ns: int = 0
    mean_ns: float = 0.0

    @property
    def of_cpu(self) -> float:
        """Processor time of the programs, of one CPU."""
        return self.run_ns / (self.windows * _SECONDS * 1e9) if self.windows else 0.0

    @property
    def part(self) -> float | None:
        """Of the mean latency (0 to 1), at most; None where too few requests were seen."""
        if self.calls < _LEAST_CALLS or not self.mean_ns:
            return None
        return self.run_ns / self.calls / self.mean_ns

    def is_over(self, limit: float) -> bool:
        return self.part is not None and self.part > limit and self.of_cpu > _LEAST_OF_CPU

    def over(self, passed_s: float, limit: float) -> str:
        """Why the observation ended early, and what to do."""
        part, most = format_percent(self.part or 0.0, 1), f"{100 * limit:g} %"
        return (
            f"The tracer was removed after {format_time_s(passed_s)}: its probes took at most {part} of the "
            f"mean latency, limit {most} (--cost-max). What was seen until then is kept."
        )

    def sentence(self) -> str:
        """What the programs cost, for people."""
        if not self.windows:
            return "What the tracer's probes cost is not known."
        windows = f"{counted(self.windows, 'window')} of {_SECONDS} s"
        text = f"The tracer's probes ran {format_percent(self.of_cpu, 1)} of one CPU's time ({windows})"
        if self.part is None:
            return f"{text}; too few reads and writes to say what each waits for them."
        each = format_latency(self.run_ns / self.calls / 1e3)
        return (
            f"{text}: at most {each} of each read and write, {format_percent(self.part, 1)} of its mean "
            "latency. To get into a probe and out of it takes time besides."
        )


def look(
    cost: ProbeCost, server: Host, place: TracerFiles, mean_ns: Callable[[], float], *, local: bool
) -> None:
    """One window more; none where the kernel does not count. `mean_ns`: of the requests until now."""
    process = tracer_use.process(server, place)
    if not process:
        return
    kind = "local" if local else "nfs"
    found = server.run(["sh", "-c", WINDOW, "sh", place.directory, process, kind], check=False)
    parts = found.stdout.split(f"{_MARK}\n")
    if found.returncode or len(parts) < 4:
        return
    try:
        before, after = (_calls(parts[at], local=local) for at in (0, 2))
    except (KeyError, ValueError, IndexError):
        return
    cost.windows += 1
    cost.calls += after - before
    cost.run_ns += sum((_run_ns(parts[3]) - _run_ns(parts[1])).values())
    cost.mean_ns = mean_ns()


def _calls(text: str, *, local: bool) -> int:
    """Reads, writes and commits until then."""
    if local:
        return sum(int(line.split()[-1]) for line in text.splitlines())
    return sum(nfsd_counts(text)[1].values())


def _run_ns(text: str) -> Counter[int]:
    """How long each program ran until then, by its number; of several descriptors of one once."""
    found: Counter[int] = Counter()
    program = -1
    for name, value in _FIELD.findall(text):
        if name == "prog_id":
            program = int(value)
        elif name == "run_time_ns":
            found[program] = int(value)
    return found


def mean_ns_of(trace: Trace) -> float:
    """The mean latency of what is counted until now, by the middles of bins; 0 without any."""
    counts: Counter[int] = Counter()
    for bins in trace.counts.values():
        counts.update(bins)
    if not counts:
        return 0.0
    low, high = bin_edges(np.fromiter(counts, np.int64, len(counts)))
    ios = np.fromiter(counts.values(), np.int64, len(counts))
    return float(((low + high) / 2 * ios).sum() / ios.sum())
