"""The load of a phase with `force`: the program force_load.c on each client, or for each device.

Its lines are those of kit.remote.count_ios with more in them, so that a phase counts, stores and goes on as
with fio. After the phase the same program reads the records back: nothing of that is in the phase's counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kit.config.tables.force_table import ForceJob
from kit.core.bins import bin_index
from kit.core.clock import Clock
from kit.core.errors import ConfigError, HostError, MeasurementUnknown
from kit.hosts.base import CommandFailed, Host
from kit.load.common_start import Member
from kit.load.fio_bins import index_of_midpoint, lower_edge
from kit.load.fio_windows import read_counts
from kit.load.forces import PHASE_PROGRAM, command, phase_program, words_of
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult, LoadSpec, output_of
from kit.store.parts.forces import PhaseForces
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
        return self._argv(member, "run", [str(window_ns), str(duration_ns)], start)

    def _result(self, member: Member, run_dir: RunDir) -> ClientResult | None:
        """Of a failed worker, what has arrived. Reads the records back."""
        path = output_of(self.spec, member.name)
        lines = read_lines(path)
        windows = replace(read_counts(path, self.spec.window_ms, alone=False), sums_ns=_sums(lines, "write"))
        if not windows.ios:
            member.fail("no force has ended")
            return None
        result = ClientResult(member.worker, windows.by_op(), windows)
        with member.failing():
            result = replace(result, forces=self._forces(member, lines))
        return result

    def _forces(self, member: Member, lines: Sequence[Line]) -> PhaseForces:
        job = self.spec.job
        assert isinstance(job, ForceJob)
        forces = forces_of(job, lines, self.spec.clock)
        if not lines[-1].get("end"):
            member.fail(
                "it was ended before its end: what has arrived is kept, its records were not read back"
            )
            return forces
        if not job.force.check:
            return forces
        written = list(map(str, lines[-1]["written"]))
        text = self._call(member, "verify", written, _VERIFY_DEADLINE_S)
        return checked(forces, text)

    def _call(self, member: Member, name: str, words: Sequence[str], deadline_s: float) -> str:
        return member.host.run(self._argv(member, name, words), deadline_s=deadline_s).stdout

    def _argv(self, member: Member, name: str, words: Sequence[str], start: str = "") -> list[str]:
        # Clients have the same directory: the files of each have its number.
        files = f"{self.spec.name}.{member.number}" if self._together else self.spec.name
        own = _words(self.spec, member, files)
        return self.spec.by(command(self.spec.work_dir, [name, *own, *words], start))


def _words(spec: LoadSpec, member: Member, files: str) -> list[str]:
    job, worker = spec.job, member.worker
    assert isinstance(job, ForceJob)
    seed = int(spec.values(worker, member.number)["HSP_SEED"])
    is_device = _is_device(worker.place)
    return words_of(
        job, files, worker.place, worker.size_bytes, seed, is_device=is_device, device=worker.device
    )


def _is_device(place: str) -> bool:
    """Whether the place of a worker is a block device; else it is a directory."""
    return place.startswith("/dev/")


def put_program(host: Host, work_dir: str) -> None:
    """Once for a run; every user may run it. Raises HostError."""
    path = f"{work_dir}/{PHASE_PROGRAM}"
    if host.run(["test", "-e", path], check=False).returncode:
        host.put(phase_program().read_bytes(), f"{path}.new")
        host.run(["chmod", "0711", work_dir])
        host.run(["install", "-m", "0755", f"{path}.new", path])
        host.run(["rm", "-f", "--", f"{path}.new"])


def read_lines(path: Path) -> list[Line]:
    """The whole lines. Raises MeasurementUnknown."""
    try:
        text = path.read_text(errors="replace")
        lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    except (OSError, ValueError, RecursionError) as error:
        raise MeasurementUnknown(f"{path} is no output of forced writes: {error}") from error
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise MeasurementUnknown(f"{path} has no counts of forced writes")
    return lines


def forces_of(job: ForceJob, lines: Sequence[Line], clock: Clock) -> PhaseForces:
    """The sums of all lines, in the experiment's time. Raises MeasurementUnknown."""
    force = job.force
    try:
        written = [int(count) for count in lines[-1]["written"]]
        kept = force.file // force.record // force.per_force * force.per_force
        value = {
            "record_bytes": force.record,
            **force.model_dump(include=set(PhaseForces.model_fields)),
            "writes_per_group": job.writes_per_io,
            "elapsed_ns": clock.from_host_ns(int(lines[-1]["to_ns"]) - int(lines[0]["from_ns"])),
            "forces": int(lines[-1]["forces"]),
            "records": sum(written),
            "overwritten": sum(max(0, count - kept) for count in written),
            "group": _latencies(lines, "write", clock),
            "write": _latencies(lines, "part", clock),
            "force": _latencies(lines, "force", clock),
        }
        return PhaseForces.from_json(value, "the output of forced writes")
    except (KeyError, ValueError, TypeError, IndexError, ConfigError) as error:
        raise MeasurementUnknown(f"the counts of forced writes are damaged: {error}") from error


def _latencies(lines: Sequence[Line], kind: str, clock: Clock) -> dict[str, Any] | None:
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


def _sums(lines: Sequence[Line], kind: str) -> dict[int, int]:
    """By direction: 1 is write."""
    sums = [int(line[kind]["sum"]) for line in lines if kind in line]
    return {1: sums[-1]} if sums else {}


def checked(forces: PhaseForces, text: str) -> PhaseForces:
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
