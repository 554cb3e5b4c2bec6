"""The load of a phase by a program of the kit in place of fio, on each client or for each device.

The programs print lines as kit.remote.load.count_ios, with more in them, so that a phase counts, stores and
goes on as with fio.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from kit.config.fio_job import FioJob
from kit.core.bins import bin_index
from kit.core.clock import Clock
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.core.text import json_lines
from kit.load.common_start import Member
from kit.load.fio_bins import index_of_midpoint, lower_edge
from kit.load.fio_windows import OPS, read_counts
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult, ProgramPart, output_of
from kit.load.programs.force_program import command, put_program
from kit.store.run_directory import RunDir

Line = dict[str, Any]
JobT = TypeVar("JobT", bound=FioJob)


class ProgramLoad(PhaseLoad, Generic[JobT]):
    """By force_load.c, where a subclass names no other.

    `counted_calls`: what its lines count; `may_be_idle`: a worker may have nothing to do; `alone`: see
    read_counts.
    """

    counted_calls, unended = "I/O", "what has arrived is kept"
    may_be_idle = alone = False

    @abstractmethod
    def _words(self, member: Member) -> list[str]:
        """Arguments of the program."""

    @abstractmethod
    def _part(self, member: Member, lines: Sequence[Line], *, has_ended: bool) -> ProgramPart | None:
        """What the program has counted besides; None where that needs its end. Raises KitError."""

    @property
    def _job(self) -> JobT:
        return cast(JobT, self.spec.job)

    def _seed(self, member: Member) -> int:
        return int(self.spec.values(member.worker, member.number)["HSP_SEED"])

    def prepare(self) -> None:
        """Put the program there. Raises KitError."""
        for member in self._members:
            put_program(member.host, self.spec.work_dir)
            if self._together:
                self._make_directory(member)

    def _command(self, member: Member) -> list[str]:
        return self._argv(self._words(member), member.directory if self._together else "")

    def _argv(self, words: Sequence[str], start: str = "") -> list[str]:
        return self.spec.by(command(self.spec.work_dir, words, start))

    def _result(self, member: Member, run_dir: RunDir) -> ClientResult | None:
        """Of a failed worker, what has arrived; None of a client that had nothing to do, too."""
        path = output_of(self.spec, member.name)
        lines = read_lines(path)
        windows = read_counts(path, self.spec.window_ms, alone=self.alone)
        has_ended = bool(lines[-1].get("end"))
        if not windows.ios:
            if lines[-1].get("due") or not (has_ended and self.may_be_idle):
                member.fail(f"no {self.counted_calls} has ended")
            return None
        windows = replace(windows, sums_ns=sums_of(lines))
        if not has_ended:
            member.fail(f"it was ended before its end: {self.unended}")
        part = None
        with member.failing():
            part = self._part(member, lines, has_ended=has_ended)
        return ClientResult(member.worker, windows.by_op(), windows, part)


@contextmanager
def damaged(what: str) -> Iterator[None]:
    """Lines that cannot be what the program prints. Raises MeasurementUnknown."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, ConfigError) as error:
        raise MeasurementUnknown(f"the counts of {what} are damaged: {error}") from error


def read_lines(path: Path) -> list[Line]:
    """Of the file that a program's output went to. Raises MeasurementUnknown."""
    try:
        return lines_of(path.read_text(errors="replace"), path)
    except OSError as error:
        raise MeasurementUnknown(str(error)) from error


def lines_of(text: str, where: Path | str) -> list[Line]:
    """The whole lines. Raises MeasurementUnknown."""
    try:
        lines = json_lines(text)
    except ValueError as error:
        raise MeasurementUnknown(f"{where} is no output of a load's program: {error}") from error
    if not lines:
        raise MeasurementUnknown(f"{where} has no counts of a load's program")
    return lines


def sums_of(lines: Sequence[Line]) -> dict[int, int]:
    """Of all latencies, by direction (kit.load.fio_windows.OPS). Raises MeasurementUnknown."""
    with damaged("a load's program"):
        return {n: int(line[op]["sum"]) for line in lines for n, op in enumerate(OPS) if op in line}


def elapsed_ns(lines: Sequence[Line], clock: Clock) -> int:
    """From the first line's begin to the last line's end, in the experiment's time."""
    return clock.from_host_ns(int(lines[-1]["to_ns"]) - int(lines[0]["from_ns"]))


def latencies_of(lines: Sequence[Line], kind: str, clock: Clock) -> dict[str, Any] | None:
    """Of all lines; None without any."""
    counts: Counter[int] = Counter()
    last: Mapping[str, Any] = {}
    for last in (line[kind] for line in lines if kind in line):
        for key, count in last["bins"].items():
            column = index_of_midpoint(key)
            if column is None:
                raise ValueError(f"{key[:40]!r} is no latency")
            counts[column] += int(count)
    if not counts:
        return None
    columns = sorted(counts)
    ours: Counter[int] = Counter()
    for index, column in zip(bin_index(lower_edge(columns) // clock.dilation).tolist(), columns, strict=True):
        ours[index] += counts[column]
    sum_ns, min_ns, max_ns = (clock.from_host_ns(int(last[name])) for name in ("sum", "min", "max"))
    return {"sum_ns": sum_ns, "min_ns": min_ns, "max_ns": max_ns, "bins": list(ours.items())}
