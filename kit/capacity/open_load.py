"""An open loop: the load of a phase with `open`, by force_load.c on each client, or for a device."""

from __future__ import annotations

from collections.abc import Sequence

from kit.capacity.open_words import open_words
from kit.config.tables.capacity_table import OpenJob
from kit.core.clock import Clock
from kit.load.common_start import Member
from kit.load.programs.program_load import Line, ProgramLoad, damaged, elapsed_ns, latencies_of
from kit.store.load.open_loop import OpenLoop

# Of a look: as many as a range of their mean needs, and each longer than a queue takes to drain.
BATCHES = 20


class OpenLoad(ProgramLoad[OpenJob]):
    """Of several clients each has its part of the rate: several Poisson processes together are one."""

    program = "the program of the open loop"

    def _words(self, member: Member) -> list[str]:
        worker, spec = member.worker, self.spec
        return open_words(
            self._job, worker.place, worker.size_bytes, self._seed(member), spec.clock, spec.times_ns,
            len(self._members), worker.device,
        )  # fmt: skip

    def _part(self, member: Member, lines: Sequence[Line], *, has_ended: bool) -> OpenLoop | None:
        return open_loop_of(self._job, lines, self.spec.clock, len(self._members)) if has_ended else None


def open_loop_of(job: OpenJob, lines: Sequence[Line], clock: Clock, workers: int) -> OpenLoop:
    """The sums of all lines, in the experiment's time. Raises MeasurementUnknown."""
    table, last = job.open, lines[-1]
    with damaged("the open loop"):
        value = {
            "op": table.op, "block_bytes": table.block, "threads": table.threads,
            "rate_per_s": (table.rate or 1) / workers, "limit_ns": job.limit_ns,
            "elapsed_ns": elapsed_ns(lines, clock), "batches": batches_of(lines, table.op),
            **{name: int(last[name]) for name in OpenLoop.summed},
            "actual": latencies_of(lines, table.op, clock),
            **{name: latencies_of(lines, name, clock) for name in ("intended", "late")},
        }  # fmt: skip
        return OpenLoop.from_json(value, "the output of the open loop")


def batches_of(lines: Sequence[Line], op: str) -> list[tuple[int, ...]]:
    """By time: how many I/Os have ended, or never started, how many of them are `above`, and `slow`."""
    made = [[0, 0, 0] for _ in range(min(len(lines), BATCHES))]
    before = [0, 0, 0]
    for number, line in enumerate(lines):
        upto = [int(line[name]) for name in ("unstarted", "above", "slow")]
        added = [each - last for each, last in zip(upto, before, strict=True)]
        added[0] += sum(line[op]["bins"].values()) if op in line else 0
        at = number * len(made) // len(lines)
        made[at] = [held + more for held, more in zip(made[at], added, strict=True)]
        before = upto
    return [tuple(each) for each in made]
