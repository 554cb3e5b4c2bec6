"""The load of a captured server again: each I/O at its time, by force_load.c on each client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kit.capacity.open_words import replay_words
from kit.config.tables.capacity_table import ReplayJob
from kit.core.clock import Clock
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.load.common_start import Member
from kit.load.fio_windows import read_counts
from kit.load.force_load import Line, latencies_of, read_lines, sums_of
from kit.load.force_program import command, put_program
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult, output_of
from kit.store.load.replayed import LATE_NS, Replayed
from kit.store.run_directory import RunDir

# As struct start of force_load.c.
_START = np.dtype([("due_ns", "<u8"), ("place", "<u8"), ("length", "<u4"), ("writes", "<u4")])


class ReplayLoad(PhaseLoad):
    """Captured client k is client k modulo the number of clients here."""

    program = "the program of the replay"

    @property
    def _job(self) -> ReplayJob:
        assert isinstance(self.spec.job, ReplayJob)
        return self.spec.job

    def prepare(self) -> None:
        """Put the program and the starts of each client there."""
        made = schedules(self._job, len(self._members), self.spec.clock)
        for member, content in zip(self._members, made, strict=True):
            put_program(member.host, self.spec.work_dir)
            self._make_directory(member)
            self._write(member, "schedule", content)

    def _command(self, member: Member) -> list[str]:
        spec = self.spec
        seed = int(spec.values(member.worker, member.number)["HSP_SEED"])
        words = replay_words(
            self._job, member.worker.place, member.worker.size_bytes, seed, spec.clock,
            (spec.window_ms * 10**6, spec.duration_ns), f"{member.directory}/schedule",
        )  # fmt: skip
        return spec.by(command(spec.work_dir, words, member.directory if self._together else ""))

    def _result(self, member: Member, run_dir: RunDir) -> ClientResult | None:
        """Of a failed worker, what has arrived; None of a client that had nothing to do, too."""
        path = output_of(self.spec, member.name)
        lines = read_lines(path)
        windows = replace(read_counts(path, self.spec.window_ms, alone=False), sums_ns=sums_of(lines))
        has_ended = bool(lines[-1].get("end"))
        if not windows.ios:
            if lines[-1].get("due") or not has_ended:
                member.fail("no I/O has ended")
            return None
        result = ClientResult(member.worker, windows.by_op(), windows)
        if not has_ended:
            member.fail("it was ended before its end: what has arrived is kept")
            return result
        return replace(result, replayed=replayed_of(self._job, lines, self.spec.clock))


def schedules(job: ReplayJob, clients: int, clock: Clock) -> list[bytes]:
    """The starts of each client, by time, as the program reads them."""
    moving, (places, _) = job.capture.moving, job.capture.placed
    times = moving["time_ns"].to_numpy()
    starts = np.empty(len(times), _START)
    starts["due_ns"] = np.rint((times - times[0]) / job.replay.speed * clock.to_host_ns(1)).astype(np.uint64)
    starts["place"], starts["length"] = places, moving["length_bytes"].to_numpy()
    starts["writes"] = (moving["op"] == "write").to_numpy()
    by = moving["client"].to_numpy() % clients
    return [starts[by == number].tobytes() for number in range(clients)]


def replayed_of(job: ReplayJob, lines: Sequence[Line], clock: Clock) -> Replayed:
    """The sums of all lines of a client, in the experiment's time. Raises MeasurementUnknown."""
    last, capture = lines[-1], job.capture
    forced, commits = capture.unforced
    try:
        value = {
            "captured": capture.moving.height, "lost": capture.lost, "left_out": capture.left_out,
            "forced": forced, "commits": commits, "speed": job.replay.speed, "threads": job.replay.threads,
            "elapsed_ns": clock.from_host_ns(int(last["to_ns"]) - int(lines[0]["from_ns"])),
            "late_ns": LATE_NS, "late_ios": int(last["behind"]),
            **{name: int(last[name]) for name in ("due", "unstarted")},
            **{name: latencies_of(lines, name, clock) for name in ("intended", "late")},
        }  # fmt: skip
        return Replayed.from_json(value, "the output of the replay")
    except (KeyError, ValueError, TypeError, IndexError, ConfigError) as error:
        raise MeasurementUnknown(f"the counts of the replay are damaged: {error}") from error
