"""What `bpftrace -f json nfsd.bt` prints, as values. Pure.

The program prints cumulative counts by class and bin; here they become counts per interval. Anything
that does not add up is a problem, in words; a problem makes a run unknown. Output of the kit before
0.5, with the operation as a word and bpftrace's own histograms, is read as well; so is output of a tracer
that was started for one phase alone, without marks, and with a map each for what now is in @counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kit.core.bins import BINS_PER_OCTAVE, bin_edges, bin_index
from kit.trace.program import MAP_KEYS

_AT = re.compile(r"hsp-trace (at|end) (\d+)\n")
_MARK = re.compile(r"hsp-trace (?:phase (\d+) (\d+)|ended (\d+))\n")
# Bits of `seen` that say what the request is.
_WRITE, _COMMIT = 512, 1024
_OPS = {0: "read", _WRITE: "write", _COMMIT: "commit"}
# The bin below 2^62 ns: edges of longer times are no signed 64-bit numbers.
_LAST_BIN = 58 * BINS_PER_OCTAVE - 1
# What @counts has beside latencies, and @highest beside the longest one.
_STARTED, _DONE = 4000, 4001
_LONGEST_NS = (1 << 62) - 1
_PHASE_SHIFT, _PHASE_MASK, _VDEV_SHIFT = 11, (1 << 11) - 1, 32

# (op, seen, vdev): a class of requests, see nfsd.bt
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
    """What a tracer said of one phase. `lowest`/`highest`: ns per class; `started`/`done`: requests per op.

    `phase`: its number, 0 in output without marks. What belongs to another phase is left out.

    `feeds_ns`: when the L2ARC's feeds ended, on the server's monotonic clock.
    """

    phase: int = 0
    began: bool = False
    ended: bool = False
    totalled: bool = False
    lost_events: int = 0
    snapshots: list[Snapshot] = field(default_factory=list)
    lowest: dict[Class, int] = field(default_factory=dict)
    highest: dict[Class, int] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    feeds_ns: tuple[int, ...] = ()
    problems: list[str] = field(default_factory=list)


def parse_trace(text: str) -> Trace:
    """Read the whole output. Never raises for what the text contains: it becomes a problem."""
    trace = Trace()
    at_ns: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            message = json.loads(line)
            kind, data = message["type"], message.get("data")
            at_ns = _take(trace, kind, data, at_ns)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
            trace.problems.append(f"the tracer's output, line {number}, is damaged: {line[:80]!r}")
    if not trace.began:
        trace.problems.append("the tracer never began")
    elif not (trace.ended and trace.totalled):
        trace.problems.append("the tracer died before its end: the phase's last counts are missing")
    trace.problems.extend(_inconsistencies(trace))
    return trace


def _take(trace: Trace, kind: str, data: Any, at_ns: int | None) -> int | None:
    """Digest one message; returns the time that the next histogram belongs to."""
    if kind == "printf":
        if data == "hsp-trace begins\n":
            trace.began = True
        elif found := _MARK.fullmatch(data):
            return _take_mark(trace, found, at_ns)
        elif found := _AT.fullmatch(data):
            trace.ended = trace.ended or found[1] == "end"
            # A moment without any request prints no histogram; it still is a moment.
            trace.snapshots.append(Snapshot(int(found[2]), {}))
            return int(found[2])
    elif kind == "hist":
        if at_ns is None:
            raise ValueError("a histogram before its time")
        counts = {_class(key): _buckets(rows) for key, rows in data["@latency"].items()}
        trace.snapshots[-1] = Snapshot(at_ns, counts)
    elif kind == "map":
        _take_map(trace, data, at_ns)
    elif kind == "lost_events":
        trace.lost_events += int(data["events"])
    elif kind in ("helper_error", "error"):
        trace.problems.append(f"the tracer reports: {json.dumps(data)[:200]}")
    return at_ns


def _take_mark(trace: Trace, found: re.Match[str], at_ns: int | None) -> int | None:
    if found[3]:
        if int(found[3]) != trace.phase or not trace.ended:
            raise ValueError("the end of another phase")
        trace.totalled = True
        return at_ns
    if trace.phase or trace.snapshots:
        raise ValueError("a second phase")
    trace.began, trace.phase = True, int(found[1])
    # The first moment: nothing has ended yet.
    trace.snapshots.append(Snapshot(int(found[2]), {}))
    return int(found[2])


def _take_map(trace: Trace, data: dict[str, Any], at_ns: int | None) -> None:
    for name, content in data.items():
        if name == "@counts":
            if at_ns is None:
                raise ValueError("counts before their time")
            trace.snapshots[-1] = Snapshot(at_ns, _counts(trace, content))
        elif name == "@highest" and trace.phase:
            _take_extremes(trace, content)
        elif name in ("@lowest", "@highest"):
            values = {_class(key): int(value) for key, value in content.items()}
            (trace.lowest if name == "@lowest" else trace.highest).update(values)
        elif name == "@fed":
            trace.feeds_ns = tuple(sorted(int(key) for key in content))
        elif name in ("@started", "@done"):
            values_by_op = {_op(key): int(value) for key, value in content.items()}
            (trace.started if name == "@started" else trace.done).update(values_by_op)
            trace.totalled = trace.totalled or name == "@done"


def _take_extremes(trace: Trace, content: dict[str, Any]) -> None:
    """Keys are @seen and which extreme it is."""
    if len(content) >= MAP_KEYS:
        raise ValueError("a full map")
    for key, value in content.items():
        seen, which = map(int, key.split(","))
        if _phase_of(seen) != trace.phase:
            continue
        if which not in (0, 1) or not 0 <= int(value) <= _LONGEST_NS:
            raise ValueError("an extreme that is none")
        if which:
            trace.lowest[_marked_class(seen)] = _LONGEST_NS - int(value)
        else:
            trace.highest[_marked_class(seen)] = int(value)


def _class(key: str) -> Class:
    if key.count(",") == 2:  # before 0.5
        op, seen, vdev = key.split(",")
        return op, int(seen), int(vdev)
    bits, top = map(int, key.split(","))
    return _of_bits(bits, top)


def _of_bits(bits: int, top: int) -> Class:
    kind = bits & (_WRITE | _COMMIT)
    return _OPS[kind], bits - kind, top


def _phase_of(seen: int) -> int:
    return seen >> _PHASE_SHIFT & _PHASE_MASK


def _marked_class(seen: int) -> Class:
    """Of @seen, which has everything in it."""
    if seen < 0 or seen >> 56:
        raise ValueError("a class that is none")
    return _of_bits(seen & ((1 << _PHASE_SHIFT) - 1), seen >> _VDEV_SHIFT)


def _op(key: str) -> str:
    return _OPS[int(key)] if key.isdecimal() else str(key)


def _counts(trace: Trace, content: dict[str, Any]) -> dict[Class, Counts]:
    """Keys are @seen and bin; without marks, seen, vdev and bin."""
    found: dict[Class, Counts] = {}
    totals: dict[int, dict[str, int]] = {_STARTED: {}, _DONE: {}}
    if len(content) >= MAP_KEYS:
        raise ValueError("a full map")
    for key, value in content.items():
        of, _, number = key.rpartition(",")
        if isinstance(value, bool) or value != int(value) or value < 0:
            raise ValueError("a count that is none")
        if trace.phase:
            if _phase_of(int(of)) != trace.phase:
                continue
            if int(number) in totals:
                totals[int(number)][_marked_class(int(of))[0]] = int(value)
                continue
        if not 0 <= int(number) <= _LAST_BIN:
            raise ValueError("a bin that is none")
        if value:
            of_class = _marked_class(int(of)) if trace.phase else _class(of)
            found.setdefault(of_class, {})[int(number)] = int(value)
    if trace.phase and trace.ended:
        trace.started, trace.done = totals[_STARTED], totals[_DONE]
    return found


def _buckets(rows: list[dict[str, int]]) -> Counts:
    counts = {}
    for row in rows:
        if row["count"] < 0:
            raise ValueError("a negative count")
        if row["count"]:
            index = int(bin_index(row["min"]))
            low, high = bin_edges(index)
            # bpftrace's buckets must be ours, or counts would land beside their latency.
            if (int(low), int(high) - 1) != (row["min"], row["max"]):
                raise ValueError("a bucket that is none of the bins")
            counts[index] = row["count"]
    return counts


def _inconsistencies(trace: Trace) -> Iterator[str]:
    """Every request that was started is done, every one that is done was counted, none was lost."""
    if trace.lost_events:
        yield f"the tracer lost {trace.lost_events} events"
    for op, count in trace.started.items():
        done = trace.done.get(op, 0)
        if done != count:
            yield f"the tracer saw {count} {op} requests start and {done} end"
    last = trace.snapshots[-1].counts if trace.snapshots else {}
    if trace.ended and not last and any(snapshot.counts for snapshot in trace.snapshots):
        yield "the tracer's last counts are missing"
    for op, count in trace.done.items():
        counted = sum(sum(counts.values()) for key, counts in last.items() if key[0] == op)
        if trace.ended and counted != count:
            yield f"the tracer's histograms hold {counted} of {count} {op} requests: a map was full"


def differences(snapshots: Iterable[Snapshot]) -> Iterator[Snapshot]:
    """Counts of each interval from cumulative ones. Raises ValueError if a count went back."""
    before: dict[Class, Counts] = {}
    for snapshot in snapshots:
        if snapshot.counts and set(before) - set(snapshot.counts):
            raise ValueError(
                f"the cumulative histogram of {set(before) - set(snapshot.counts)} went back: it is missing"
            )
        new: dict[Class, Counts] = {}
        for key, counts in snapshot.counts.items():
            old = before.get(key, {})
            change = {index: count - old.get(index, 0) for index, count in counts.items()}
            if any(value < 0 for value in change.values()) or set(old) - set(counts):
                raise ValueError(f"the cumulative histogram of {key} went back")
            new[key] = {index: value for index, value in change.items() if value}
        yield Snapshot(snapshot.at_ns, new)
        before = snapshot.counts or before
