"""The growing files of a phase, as counts: the tracer's output, or what clients count."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Protocol

from kit.core.bins import bin_index
from kit.load.fio_bins import lower_edge
from kit.load.fio_windows import OPS, column_of
from kit.session.live.counts import LiveCounts
from kit.session.live.growing_file import GrowingFile
from kit.store.under_way import Place, UnderWay
from kit.trace.output import Snapshot, differences, new_trace, place_of, read_line
from kit.trace.tier import Vdevs, tier_of

_MOST_PROBLEMS = 5
_LONGEST = 1 << 62


class Follower(Protocol):
    """Adds what has come to `counts`. `problems`: what was wrong. Raises ConfigError, OSError."""

    problems: list[str]

    @property
    def ended(self) -> bool:
        """Whether the file says that its phase has ended."""

    def poll(self, counts: LiveCounts) -> None: ...


class TraceFollower:
    """The output of the tracer (kit.trace.output), an interval at a time."""

    def __init__(self, path: Path, under_way: UnderWay) -> None:
        self._file, self._dilation = GrowingFile(path), under_way.dilation
        self._trace = new_trace(observed=bool(under_way.places), local=under_way.local)
        # A run has no places: all its requests are of 0.
        whole = Place(number=0, log_vdevs=under_way.log_vdevs, special_vdevs=under_way.special_vdevs)
        places = under_way.places or (whole,)
        self._vdevs = {
            each.number: Vdevs(
                None if each.log_vdevs is None else frozenset(each.log_vdevs), frozenset(each.special_vdevs)
            )
            for each in places
        }
        self._begin_ns: int | None = None
        self.problems: list[str] = []

    @property
    def ended(self) -> bool:
        return self._trace.complete

    def poll(self, counts: LiveCounts) -> None:
        for number, line in self._file.next_lines():
            read_line(self._trace, number, line)
            self._keep_bounded()
            if len(self._trace.snapshots) > 2 or (self._trace.complete and len(self._trace.snapshots) > 1):
                self._take(counts)

    def _keep_bounded(self) -> None:
        """Marks are left out: a long phase has thousands, and the view does not draw them."""
        trace, room = self._trace, _MOST_PROBLEMS - len(self.problems)
        self.problems += trace.problems[: max(room, 0)]
        trace.problems, trace.feeds_ns = [], ()

    def _take(self, counts: LiveCounts) -> None:
        """Add the intervals that are whole: the counts of a mark come after it."""
        snapshots = self._trace.snapshots
        known = snapshots if self._trace.complete else snapshots[:-1]
        self._trace.snapshots = snapshots[len(known) - 1 :]
        if self._begin_ns is None:
            self._begin_ns = known[0].at_ns
        try:
            # The first is what was known already.
            for change in list(differences(known))[1:]:
                self._add(counts, change)
        except ValueError as error:
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems.append(f"the tracer's counts cannot be used: {error}")
            return
        # Output without counts says that nothing changed.
        latest = next((each.counts for each in reversed(known) if each.counts), {})
        self._trace.snapshots[0] = Snapshot(known[-1].at_ns, latest)

    def _add(self, counts: LiveCounts, change: Snapshot) -> None:
        assert self._begin_ns is not None
        interval_ns = counts.interval_ns * self._dilation
        # A mark is printed a little late.
        interval = max((change.at_ns - self._begin_ns - interval_ns // 2) // interval_ns, 0)
        counts.seen(interval)
        for key, bins in change.counts.items():
            if bins and (place := place_of(key)) in self._vdevs:
                counts.add(interval, (key[0], tier_of(*key, self._vdevs[place])), bins)


class ClientFollower:
    """The lines of kit.remote.load.count_ios of one client; its tier is `all`."""

    def __init__(self, path: Path, under_way: UnderWay) -> None:
        self._file, self._dilation = GrowingFile(path), under_way.dilation
        self._begin_ns: int | None = None
        self.problems: list[str] = []
        self.ended = False

    def poll(self, counts: LiveCounts) -> None:
        for number, line in self._file.next_lines():
            try:
                self._add(counts, line)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                if len(self.problems) < _MOST_PROBLEMS:
                    self.problems.append(f"the client's counts, line {number}, are damaged: {line[:80]!r}")

    def _add(self, counts: LiveCounts, line: str) -> None:
        row = json.loads(line)
        from_ns, to_ns = int(row["from_ns"]), int(row["to_ns"])
        if not 0 <= from_ns <= to_ns <= _LONGEST:
            raise ValueError("its times go back")
        self._begin_ns = from_ns if self._begin_ns is None else self._begin_ns
        interval = max((to_ns - 1 - self._begin_ns) // (counts.interval_ns * self._dilation), 0)
        counts.seen(interval)
        for op in OPS:
            bins: Counter[int] = Counter()
            for key, number in row.get(op, {}).get("bins", {}).items():
                low_ns = int(lower_edge(column_of(key))) // self._dilation
                bins[int(bin_index(low_ns))] += _count(number)
            if bins:
                counts.add(interval, (op, "all"), bins)


def _count(number: object) -> int:
    if type(number) is not int or not 0 < number < _LONGEST:
        raise ValueError("not a count")
    return number
