"""The load of a captured server again: each I/O at its time, by force_load.c on each client."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kit.capacity.open_words import replay_words
from kit.config.tables.capacity_table import ReplayJob
from kit.core.clock import Clock
from kit.load.common_start import Member
from kit.load.programs.force_program import put_program
from kit.load.programs.program_load import Line, ProgramLoad, damaged, elapsed_ns, latencies_of
from kit.store.load.replayed import LATE_NS, Replayed

# As struct start of force_load.c.
_START = np.dtype([("due_ns", "<u8"), ("place", "<u8"), ("length", "<u4"), ("writes", "<u4")])


class ReplayLoad(ProgramLoad[ReplayJob]):
    """Captured client k is client k modulo the number of clients here."""

    program = "the program of the replay"
    may_be_idle = True

    def prepare(self) -> None:
        """Put the program and the starts of each client there."""
        made = schedules(self._job, len(self._members), self.spec.clock)
        for member, content in zip(self._members, made, strict=True):
            put_program(member.host, self.spec.work_dir)
            self._make_directory(member)
            self._write(member, "schedule", content)

    def _words(self, member: Member) -> list[str]:
        spec, worker = self.spec, member.worker
        return replay_words(
            self._job, worker.place, worker.size_bytes, self._seed(member), spec.clock, spec.times_ns,
            f"{member.directory}/schedule",
        )  # fmt: skip

    def _part(self, member: Member, lines: Sequence[Line], *, has_ended: bool) -> Replayed | None:
        return replayed_of(self._job, lines, self.spec.clock) if has_ended else None


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
    with damaged("the replay"):
        value = {
            "captured": capture.moving.height, "lost": capture.lost, "left_out": capture.left_out,
            "forced": forced, "commits": commits, "speed": job.replay.speed, "threads": job.replay.threads,
            "elapsed_ns": elapsed_ns(lines, clock), "late_ns": LATE_NS, "late_ios": int(last["behind"]),
            **{name: int(last[name]) for name in ("due", "unstarted")},
            **{name: latencies_of(lines, name, clock) for name in Replayed.counted},
        }  # fmt: skip
        return Replayed.from_json(value, "the output of the replay")
