"""The output of `bpftrace -f json nfsd.bt` for one phase, as values. Pure.

The program prints cumulative counts by class and bin; `differences` makes counts per interval of them.
Inconsistent output is a problem (a text); a problem makes a run unknown.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kit.core.bins import BINS_PER_OCTAVE, bin_edges, bounds_ns
from kit.core.text import commas
from kit.store.labels import NFS_METADATA
from kit.store.parts.split import Part
from kit.trace import callers, captured, keys, split
from kit.trace import local as local_calls
from kit.trace.local import LocalCounts
from kit.trace.operations import operation
from kit.trace.support import MAP_KEYS

_LINE = re.compile(r"hsp-trace (?:phase (\d+) (\d+)|(at|end) (\d+)|ended (\d+))\n")
_FED = re.compile(r"hsp-trace fed (\d+)\n")
# Bits of `seen` for the operation.
_WRITE, _COMMIT = 512, 1024
_OPS = {0: "read", _WRITE: "write", _COMMIT: "commit"}
# The bin below 2^62 ns: edges of longer times do not fit signed 64-bit numbers.
_LAST_BIN = 58 * BINS_PER_OCTAVE - 1
# Keys of @counts that are not bins. Older programs counted ends, too.
_STARTED, _DONE, _SUM, _LOG_BLOCKS, _ZIL_COMMITS, _OF_V4 = 4000, 4001, 4002, 4003, 4022, 4050
# Those that are of no class.
_APART = (*keys.Sample.counted_by, *captured.Captured.counted_by, _ZIL_COMMITS)
_LONGEST_NS = (1 << 62) - 1
# Of a map of bpftrace, which are 64 bits wide; sums of ns fit, too.
_MOST = (1 << 63) - 1
_PHASE_SHIFT, _PHASE_MASK, _VDEV_SHIFT, _VDEV_MASK = 11, (1 << 11) - 1, 32, (1 << 24) - 1
# Of the file system, in two parts: ten low bits and seven high ones.
_LOW_SHIFT, _LOW_MASK, _HIGH_SHIFT = 22, (1 << 10) - 1, 56
_PLACE = _LOW_MASK << _LOW_SHIFT | ((1 << 7) - 1) << _HIGH_SHIFT

# (op, seen, vdev): a class of requests, see nfsd.bt; of an observed server `seen` has the file system, too
Class = tuple[str, int, int]
# bin index -> requests
Counts = dict[int, int]


@dataclass(frozen=True)
class Snapshot:
    """Cumulative counts at one moment of the server's monotonic clock."""

    at_ns: int
    counts: dict[Class, Counts]


@dataclass
class Trace:
    """A tracer's output of one phase. `lowest`, `highest`: ns per class; `started`, `done`: requests per op.

    `sums`: of the latencies (ns) of all counted requests per class.

    `log_blocks`: that requests wrote, by vdev. `commit_blocks`: those of COMMITs among them. `zil_commits`:
    calls by requests, of a phase with `metadata`. `map_keys`: of the fullest map.

    `parts`: of those sums, as kit.trace.split has them, and `unjoined` requests, of which not all parts are
    known; empty for a phase that is not split.

    `of_v4`: reads and writes of NFSv4 among `started`, of an observed server.

    `phase`: its number, 0 if none began. Counts of other phases are ignored. `ended`: the last counts follow;
    `complete`: the last line of the phase is there. `feeds_ns`: ends of L2ARC feeds, on the server's
    monotonic clock. `damaged`: those of the problems that are of a line, by its number.

    `observed`: classes have a file system; `callers`: number and sum of ns by client and class;
    `operations`: the same by name, of all of the NFS server; `files`: by name and number of the file.
    `local`: of calls of any process, in the place of NFS requests; callers are names of processes.
    `keys`: the sample of blocks; its lines may be of other phases. `captured`: requests, one by one.
    """

    phase: int = 0
    ended: bool = False
    complete: bool = False
    lost_events: int = 0
    map_keys: int = field(default=0, compare=False)
    snapshots: list[Snapshot] = field(default_factory=list)
    lowest: dict[Class, int] = field(default_factory=dict)
    highest: dict[Class, int] = field(default_factory=dict)
    sums: dict[Class, int] = field(default_factory=dict)
    log_blocks: dict[int, int] = field(default_factory=dict)
    commit_blocks: int = 0
    zil_commits: int = 0
    parts: dict[Class, dict[Part, int]] = field(default_factory=dict)
    unjoined: dict[Class, int] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    of_v4: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    feeds_ns: tuple[int, ...] = ()
    problems: list[str] = field(default_factory=list)
    damaged: dict[int, str] = field(default_factory=dict)
    observed: bool = False
    local: LocalCounts | None = None
    callers: dict[tuple[str, Class], tuple[int, int]] = field(default_factory=dict)
    operations: dict[str, tuple[int, int]] = field(default_factory=dict)
    files: dict[tuple[str, int, Class], tuple[int, int]] = field(default_factory=dict)
    keys: keys.Sample = field(default_factory=keys.Sample)
    captured: captured.Captured = field(default_factory=captured.Captured)

    @property
    def begin_ns(self) -> int:
        """Of the phase, on the server's monotonic clock; 0 if none began."""
        return self.snapshots[0].at_ns if self.snapshots else 0

    @property
    def counts(self) -> dict[Class, Counts]:
        """All requests until the last snapshot."""
        return self.snapshots[-1].counts if self.snapshots else {}


def new_trace(*, observed: bool = False, local: bool = False) -> Trace:
    """Before the first line. `observed`, `local`: as for parse_trace."""
    return Trace(observed=observed or local, local=LocalCounts() if local else None)


def parse_trace(text: str, map_size: int = MAP_KEYS, *, observed: bool = False, local: bool = False) -> Trace:
    """Read the output of one phase. Never raises for its content: damage becomes a problem.

    `map_size`: keys that a map of the tracer has room for. `observed`: the program counts by file system.
    `local`: it counts calls of any process (local_begin.bt).
    """
    trace = new_trace(observed=observed, local=local)
    for number, line in enumerate(text.splitlines(), start=1):
        read_line(trace, number, line)
    if not trace.phase:
        trace.problems.append("the tracer never began")
    elif not trace.complete:
        trace.problems.append("the tracer died before its end: the phase's last counts are missing")
    else:
        trace.problems.extend(trace.keys.problems(list(classes_of_keys(trace))))
        trace.problems.extend(trace.captured.problems())
    trace.problems.extend(_inconsistencies(trace, map_size))
    if trace.observed and not trace.local:
        _complete(trace)
    return trace


def _complete(trace: Trace) -> None:
    """Add what the tracer of an observed server does not count: each read from DRAM would pay for it.

    Extremes below a millisecond are ends of bins; READ and WRITE of NFSv3 have the mean of all.
    """
    for key, counts in trace.counts.items():
        low, high = bin_edges([min(counts), max(counts)])
        trace.lowest.setdefault(key, int(low[0]))
        trace.highest.setdefault(key, int(high[1]) - 1)
    for op in ("read", "write"):
        calls, done = trace.started.get(op, 0) - trace.of_v4.get(op, 0), trace.done.get(op, 0)
        if calls > 0:
            sum_ns = sum(ns for (of, _, _), ns in trace.sums.items() if of == op)
            trace.operations[f"NFSv3 {op.upper()}"] = calls, sum_ns * calls // done if done else 0


def read_line(trace: Trace, number: int, line: str) -> None:
    """Add line `number` of the output to `trace`. A last snapshot has its counts once the next has begun."""
    if not line.strip():
        return
    try:
        message = json.loads(line)
        _read_message(trace, message["type"], message.get("data", message.get("msg")))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        trace.damaged[number] = f"the tracer's output, line {number}, is damaged: {line[:80]!r}"
        trace.problems.append(trace.damaged[number])


def _read_message(trace: Trace, kind: str, data: Any) -> None:
    if kind == "printf":
        if match := _LINE.fullmatch(data):
            _read_mark(trace, match)
        elif match := _FED.fullmatch(data):
            trace.feeds_ns = tuple(sorted((*trace.feeds_ns, _time_ns(match[1]))))
        else:
            trace.keys.read(data, partial(_class_of_blocks, trace))
            trace.captured.read(data, partial(_class_of_blocks, trace))
    elif kind in ("map", "stats"):
        for name, content in data.items():
            _read_map(trace, name, content)
    elif kind == "lost_events":
        trace.lost_events = _whole(trace.lost_events + _whole(data["events"]))
    elif kind in ("helper_error", "error"):
        trace.problems.append(f"the tracer reports: {json.dumps(data)[:200]}")


def _read_mark(trace: Trace, match: re.Match[str]) -> None:
    phase, begin_ns, mark, at_ns, ended = match.groups()
    if phase:
        if trace.phase or not int(phase):
            raise ValueError("a second phase, or none")
        trace.phase = int(phase)
        trace.snapshots.append(Snapshot(_time_ns(begin_ns), {}))
    elif not trace.phase:
        raise ValueError("before the begin of the phase")
    elif mark:
        trace.ended = trace.ended or mark == "end"
        trace.snapshots.append(Snapshot(_time_ns(at_ns), {}))
    else:
        if int(ended) != trace.phase or not trace.ended:
            raise ValueError("the end of another phase")
        trace.complete = True


def _read_map(trace: Trace, name: str, content: dict[str, Any]) -> None:
    if name == "@fed":
        trace.feeds_ns = tuple(sorted(map(_time_ns, content)))
    elif name in ("@counts", "@highest"):
        if not trace.phase:
            raise ValueError("before the begin of the phase")
        trace.map_keys = max(trace.map_keys, len(content))
        entries = [(*map(int, key.split(",")), value) for key, value in content.items()]
        own = [(seen, key, value) for seen, key, value in entries if _phase_of(seen) == trace.phase]
        if name == "@counts":
            totals = dict.fromkeys(_APART, 0)
            for _, key, value in own:
                if key in totals:
                    totals[key] = _whole(totals[key] + _whole(value))
            trace.keys.read_counts(totals)
            trace.captured.read_counts(totals)
            trace.zil_commits = totals[_ZIL_COMMITS]
            _read_counts(trace, [each for each in own if each[1] not in totals])
        else:
            _read_extremes(trace, own)
    elif trace.observed:
        _read_observed(trace, name, content)


def _read_files(trace: Trace, content: dict[str, Any]) -> None:
    for key, calls, sum_ns in callers.read_stats(content):
        # A name may have commas.
        file, number, seen = key.rsplit(",", 2)
        if _phase_of(int(seen)) == trace.phase:
            trace.files[file, int(number), class_of(trace, int(seen))] = _whole(calls), _whole(sum_ns)


def _read_observed(trace: Trace, name: str, content: dict[str, Any]) -> None:
    if name == "@files":
        # Without room for more files the others are not told apart; their requests are counted all the same.
        _read_files(trace, content)
        return
    trace.map_keys = max(trace.map_keys, len(content))
    if name == "@begin" and trace.local:
        trace.local.unfinished = len(content)
    elif name in ("@calls", "@operations"):
        for key, calls, sum_ns in callers.read_stats(content):
            trace.operations[callers.operation(name, key)] = _whole(calls), _whole(sum_ns)
    elif name == "@callers":
        for key, calls, sum_ns in callers.read_stats(content):
            # The name of a process may have commas.
            who, _, seen = key.rpartition(",")
            if not trace.local:
                who = callers.client(*map(int, who.split(",")))
            if _phase_of(int(seen)) == trace.phase:
                of_class = class_of(trace, int(seen))
                trace.callers[who, of_class] = _whole(calls), _whole(sum_ns)
                trace.sums[of_class] = _whole(trace.sums.get(of_class, 0) + sum_ns)


def _read_counts(trace: Trace, entries: list[tuple[int, int, Any]]) -> None:
    """`entries`: @seen, bin, count."""
    counts: dict[Class, Counts] = {}
    totals: dict[int, dict[str, int]] = {_STARTED: {}, _DONE: {}, _OF_V4: {}}
    sums: dict[Class, int] = {}
    blocks: dict[int, int] = {}
    parts: dict[Class, dict[Part, int]] = {}
    unjoined: dict[Class, int] = {}
    of_commits = 0
    for seen, number, value in entries:
        _whole(value)
        if number in totals:
            op = class_of(trace, seen)[0]
            totals[number][op] = _whole(totals[number].get(op, 0) + value)
        elif number == _SUM:
            sums[class_of(trace, seen)] = value
        elif number == _LOG_BLOCKS:
            op, _, vdev = class_of(trace, seen)
            blocks[vdev] = _whole(blocks.get(vdev, 0) + value)
            of_commits += value if op == "commit" else 0
        elif number in split.PARTS or number == split.UNJOINED:
            split.add(parts, unjoined, class_of(trace, seen), number, value)
        elif trace.local and number in local_calls.KEYS:
            key = class_of(trace, seen)
            trace.local.add(number, key[0], place_of(key), value)
        elif not 0 <= number <= _LAST_BIN:
            raise ValueError("bin out of range")
        elif value:
            counts.setdefault(class_of(trace, seen), {})[number] = value
    # Sums of them are 64 bits wide, too.
    _whole(sum(sum(bins.values()) for bins in counts.values()))
    trace.snapshots[-1] = Snapshot(trace.snapshots[-1].at_ns, counts)
    if trace.ended:
        trace.started, trace.of_v4, trace.sums = totals[_STARTED], totals[_OF_V4], sums
        trace.log_blocks, trace.commit_blocks = blocks, of_commits
        trace.parts, trace.unjoined = parts, unjoined
        trace.done = totals[_DONE] or _by_op(counts)


def _by_op(counts: dict[Class, Counts]) -> dict[str, int]:
    requests: dict[str, int] = {}
    for (op, _, _), bins in counts.items():
        requests[op] = requests.get(op, 0) + sum(bins.values())
    return requests


def _read_extremes(trace: Trace, entries: list[tuple[int, int, Any]]) -> None:
    """`entries`: @seen, which extreme, value."""
    for seen, which, value in entries:
        if which not in (0, 1) or _whole(value) > _LONGEST_NS:
            raise ValueError("invalid extreme")
        if which:
            trace.lowest[class_of(trace, seen)] = _LONGEST_NS - value
        else:
            trace.highest[class_of(trace, seen)] = value


def _whole(value: Any) -> int:
    """A count of bpftrace. Raises ValueError."""
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError("invalid count")
    return value


def _time_ns(text: str) -> int:
    """Of the server's monotonic clock. Raises ValueError."""
    value = int(text)
    if not 0 <= value <= _LONGEST_NS:
        raise ValueError("invalid time")
    return value


def _phase_of(seen: int) -> int:
    return seen >> _PHASE_SHIFT & _PHASE_MASK


def class_of(trace: Trace, seen: int) -> Class:
    """Raises ValueError, KeyError for bits that the program does not set."""
    if seen < 0 or seen >> 63:
        raise ValueError("invalid class")
    bits = seen & ((1 << _PHASE_SHIFT) - 1)
    op = bits & (_WRITE | _COMMIT)
    if seen & _PLACE and not trace.observed:
        if op or seen >> _HIGH_SHIFT:
            raise ValueError("invalid class")
        return operation(seen >> _LOW_SHIFT & _LOW_MASK), bits, seen >> _VDEV_SHIFT & _VDEV_MASK
    place = seen >> _LOW_SHIFT & _LOW_MASK | seen >> _HIGH_SHIFT << 10
    name = "fsync" if trace.local and op == _COMMIT else _OPS[op]
    return name, bits - op | place << _LOW_SHIFT, seen >> _VDEV_SHIFT & _VDEV_MASK


def _class_of_blocks(trace: Trace, seen: int) -> Class:
    """Of a request for blocks. Raises ValueError, KeyError."""
    key = class_of(trace, seen)
    if key[0] in NFS_METADATA:
        raise ValueError("no request for blocks")
    return key


def classes_of_keys(trace: Trace) -> dict[int, Class]:
    """By their @seen, the classes of the sampled requests of this phase."""
    mine = (int(seen) for seen in trace.keys.seen if _phase_of(int(seen)) == trace.phase)
    return {seen: class_of(trace, seen) for seen in mine}


def place_of(key: Class) -> int:
    """The file system of a class of requests (place_of_request.bt); 0 if the program did not look for it."""
    return key[1] >> _LOW_SHIFT


def _inconsistencies(trace: Trace, map_size: int) -> Iterator[str]:
    """Each request that started must end, each that ended must be counted, and no event may be lost."""
    if trace.lost_events:
        yield f"the tracer lost {commas(trace.lost_events)} events"
    if trace.map_keys >= map_size:
        yield f"a map of the tracer was full: {trace.map_keys} of {map_size} keys; new ones were not counted"
    last = trace.counts
    if trace.local:
        yield from local_calls.inconsistencies(trace.local, trace.started, trace.done)
    yield from _unended(trace)
    if trace.ended and not last and any(snapshot.counts for snapshot in trace.snapshots):
        yield "the tracer's last counts are missing"
    for op, count in trace.done.items():
        counted = sum(sum(counts.values()) for key, counts in last.items() if key[0] == op)
        if trace.ended and counted != count:
            held = f"{commas(counted)} of {commas(count)}"
            yield f"the tracer's histograms hold {held} {op} requests: a map was full"
    yield from _wrong_sums(trace.sums, last)
    if trace.observed and trace.complete:
        yield from _uncalled(trace, last)
    for key, parts in trace.parts.items():
        if sum(parts.values()) != trace.sums.get(key):
            yield f"the parts of {key} are {sum(parts.values())} ns, its latencies {trace.sums.get(key)} ns"


def _uncalled(trace: Trace, counts: dict[Class, Counts]) -> Iterator[str]:
    """Each request is of a client, or of a process."""
    counted: Counter[Class] = Counter()
    for (_, key), (calls, _) in trace.callers.items():
        counted[key] += calls
    ios = {key: sum(bins.values()) for key, bins in counts.items()}
    if counted != Counter(ios):
        who = "processes" if trace.local else "clients"
        yield f"the {who} have {counted.total()} of {sum(ios.values())} requests: a map was full"


def _unended(trace: Trace) -> Iterator[str]:
    """Of a server that goes on serving, some have not (kit.observe.counters)."""
    if trace.observed:
        return
    for op, count in trace.started.items():
        done = trace.done.get(op, 0)
        if done != count:
            yield f"the tracer saw {commas(count)} {op} requests start and {commas(done)} end"


def _wrong_sums(sums: dict[Class, int], counts: dict[Class, Counts]) -> Iterator[str]:
    """Each class has the sum of its counted latencies; none has one in output from before there were sums."""
    for key in set(sums) | set(counts) if sums else ():
        low, high = bounds_ns(counts.get(key, {}))
        if key not in sums or not low <= sums[key] <= high:
            yield f"the tracer's sum of the latencies of {key} is {sums.get(key)} ns, not {low} to {high}"


def differences(snapshots: Iterable[Snapshot]) -> Iterator[Snapshot]:
    """Counts of each interval from cumulative ones. Raises ValueError if a count decreases."""
    before: dict[Class, Counts] = {}
    for snapshot in snapshots:
        if snapshot.counts and (missing := set(before) - set(snapshot.counts)):
            raise ValueError(f"the cumulative histogram of {missing} went back: it is missing")
        new: dict[Class, Counts] = {}
        for key, counts in snapshot.counts.items():
            old = before.get(key, {})
            change = {index: count - old.get(index, 0) for index, count in counts.items()}
            if any(value < 0 for value in change.values()) or set(old) - set(counts):
                raise ValueError(f"the cumulative histogram of {key} went back")
            new[key] = {index: value for index, value in change.items() if value}
        yield Snapshot(snapshot.at_ns, new)
        before = snapshot.counts or before
