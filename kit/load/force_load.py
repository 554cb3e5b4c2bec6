"""Forced writes: the load of a phase with `force`, on each client or for each device.

The program force_load.c prints lines as kit.remote.load.count_ios, with more in them, so that a phase
counts, stores and goes on as with fio. After the phase the same program reads the records back: nothing of
that is in the phase's counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kit.config.tables.force_table import ForceJob, ForceTable
from kit.core.bins import bin_index
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError, MeasurementUnknown
from kit.hosts.base import CommandFailed
from kit.load.common_start import Member
from kit.load.fio_bins import index_of_midpoint, lower_edge
from kit.load.fio_windows import read_counts
from kit.load.force_program import command, put_program, run_words, words_of
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult, output_of
from kit.store.parts.forces import Forces
from kit.store.run_directory import RunDir

_PREPARE_DEADLINE_S, _VERIFY_DEADLINE_S = 600.0, 3600.0
Line = dict[str, Any]


class ForceLoad(PhaseLoad):
    """Forced writes. Of several clients each has files of its own."""

    program = "the program of forced writes"

    def prepare(self) -> None:
        """Put the program there, and make its files."""
        for member in self._members:
            put_program(member.host, self.spec.work_dir)
            if self._together:
                self._make_directory(member)
            if _is_device(member.worker.place):
                continue
            try:
                self._call(member, "prepare", (), _PREPARE_DEADLINE_S)
            except CommandFailed as error:
                raise HostError(
                    f"{member.name}: the files of the forced writes cannot be made: "
                    f"{error.result.stderr.strip()[-300:]}",
                    "is there room for them, and may the user of the load write there?",
                ) from error

    def _command(self, member: Member) -> list[str]:
        window_ns = self.spec.window_ms * 10**6
        duration_ns = self.spec.clock.to_host_ns(self.spec.duration_ns)
        start = member.directory if self._together else ""
        size_bytes = member.worker.size_bytes
        words = run_words(self._spec_words(member), self._force, size_bytes, window_ns, duration_ns)
        return self._argv(words, start)

    def _result(self, member: Member, run_dir: RunDir) -> ClientResult | None:
        """Of a failed worker, what has arrived. Reads the records back."""
        path = output_of(self.spec, member.name)
        lines = read_lines(path)
        windows = replace(read_counts(path, self.spec.window_ms, alone=False), sums_ns=sums_of(lines))
        if not windows.ios:
            member.fail("no force has ended")
            return None
        result = ClientResult(member.worker, windows.by_op(), windows)
        with member.failing():
            result = replace(result, forces=self._forces(member, lines))
        return result

    def _forces(self, member: Member, lines: Sequence[Line]) -> Forces:
        forces = forces_of(self._force, lines, self.spec.clock, self.spec.job.writes_per_io)
        if not lines[-1].get("end"):
            member.fail(
                "it was ended before its end: what has arrived is kept, its records were not read back"
            )
            return forces
        if not self._force.check:
            return forces
        written = list(map(str, lines[-1]["written"]))
        text = self._call(member, "verify", written, _VERIFY_DEADLINE_S)
        return checked(forces, text)

    def _call(self, member: Member, name: str, words: Sequence[str], deadline_s: float) -> str:
        argv = self._argv([name, *self._spec_words(member), *words])
        return member.host.run(argv, deadline_s=deadline_s).stdout

    def _argv(self, words: Sequence[str], start: str = "") -> list[str]:
        return self.spec.by(command(self.spec.work_dir, words, start))

    @property
    def _force(self) -> ForceTable:
        assert isinstance(self.spec.job, ForceJob)
        return self.spec.job.force

    def _spec_words(self, member: Member) -> list[str]:
        # Clients have the same directory: the files of each have its number.
        files = f"{self.spec.name}.{member.number}" if self._together else self.spec.name
        worker = member.worker
        seed = int(self.spec.values(worker, member.number)["HSP_SEED"])
        return words_of(
            self._force, files, worker.place, worker.size_bytes, seed,
            is_device=_is_device(worker.place), device=worker.device,
        )  # fmt: skip


def _is_device(place: str) -> bool:
    """Whether the place of a worker is a block device; else it is a directory."""
    return place.startswith("/dev/")


def read_lines(path: Path) -> list[Line]:
    """Of the file that a program's output went to. Raises MeasurementUnknown."""
    try:
        return lines_of(path.read_text(errors="replace"), path)
    except OSError as error:
        raise MeasurementUnknown(str(error)) from error


def lines_of(text: str, where: Path | str) -> list[Line]:
    """The whole lines. Raises MeasurementUnknown."""
    try:
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    except (ValueError, RecursionError) as error:
        raise MeasurementUnknown(f"{where} is no output of forced writes: {error}") from error
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise MeasurementUnknown(f"{where} has no counts of forced writes")
    return lines


def forces_of(
    force: ForceTable, lines: Sequence[Line], clock: Clock, writes_per_group: int | None = None
) -> Forces:
    """The sums of all lines, in the experiment's time. Raises MeasurementUnknown."""
    try:
        written = [int(count) for count in lines[-1]["written"]]
        kept = force.file // force.record // force.per_force * force.per_force
        value = {
            "record_bytes": force.record,
            **{name: value for name, value in force if name in Forces.model_fields},
            "writes_per_group": writes_per_group,
            "elapsed_ns": clock.from_host_ns(int(lines[-1]["to_ns"]) - int(lines[0]["from_ns"])),
            "forces": int(lines[-1]["forces"]),
            "records": sum(written),
            "overwritten": sum(max(0, count - kept) for count in written),
            "group": latencies_of(lines, "read", clock) or latencies_of(lines, "write", clock),
            "write": latencies_of(lines, "part", clock),
            "force": latencies_of(lines, "force", clock),
        }
        return Forces.from_json(value, "the output of forced writes")
    except (KeyError, ValueError, TypeError, IndexError, ConfigError) as error:
        raise MeasurementUnknown(f"the counts of forced writes are damaged: {error}") from error


def latencies_of(lines: Sequence[Line], kind: str, clock: Clock) -> dict[str, Any] | None:
    """Of all lines; None without any."""
    counts: dict[int, int] = {}
    last: Mapping[str, Any] = {}
    for line in lines:
        if kind not in line:
            continue
        last = line[kind]
        for key, count in last["bins"].items():
            column = index_of_midpoint(key)
            if column is None:
                raise ValueError(f"{key[:40]!r} is no latency")
            counts[column] = counts.get(column, 0) + int(count)
    if not counts:
        return None
    low = lower_edge(np.array(sorted(counts))) // clock.dilation
    ours: dict[int, int] = {}
    for index, column in zip(bin_index(low).tolist(), sorted(counts), strict=True):
        ours[index] = ours.get(index, 0) + counts[column]
    sum_ns, min_ns, max_ns = (clock.from_host_ns(int(last[name])) for name in ("sum", "min", "max"))
    return {"sum_ns": sum_ns, "min_ns": min_ns, "max_ns": max_ns, "bins": list(ours.items())}


def sums_of(lines: Sequence[Line]) -> dict[int, int]:
    """By direction: 0 is read, 1 is write."""
    return {n: int(line[op]["sum"]) for line in lines for n, op in enumerate(("read", "write")) if op in line}


def checked(forces: Forces, text: str) -> Forces:
    """With what was read back: the output of `verify`. Raises MeasurementUnknown."""
    try:
        found = json.loads(text)
        kept, recovered, damaged = (int(found[name]) for name in ("kept", "recovered", "damaged"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MeasurementUnknown(f"what reads the records back printed {text[:200]!r}") from error
    # Of a device that is smaller than the file.
    overwritten = forces.records - kept
    if not (0 <= recovered + damaged <= kept and overwritten >= 0):
        raise MeasurementUnknown(f"{kept} records were to be read back, {recovered} + {damaged} were found")
    return forces.model_copy(update={"overwritten": overwritten, "recovered": recovered, "damaged": damaged})
