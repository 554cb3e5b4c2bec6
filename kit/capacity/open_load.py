"""An open loop: the load of a phase with `open`, by force_load.c on each client, or for a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kit.capacity.open_words import open_words
from kit.config.tables.capacity_table import OpenJob
from kit.core.clock import Clock
from kit.core.errors import ConfigError, MeasurementUnknown
from kit.load.common_start import Member
from kit.load.fio_windows import read_counts
from kit.load.force_load import Line, latencies_of, read_lines
from kit.load.force_program import command, put_program
from kit.load.launch import PhaseLoad
from kit.load.phase_load import ClientResult, output_of
from kit.store.load.open_loop import OpenLoop
from kit.store.run_directory import RunDir

# Of a look: as many as a range of their mean needs, and each longer than a queue takes to drain.
BATCHES = 20


class OpenLoad(PhaseLoad):
    """Of several clients each has its part of the rate: several Poisson processes together are one."""

    program = "the program of the open loop"

    @property
    def _job(self) -> OpenJob:
        assert isinstance(self.spec.job, OpenJob)
        return self.spec.job

    def prepare(self) -> None:
        """Put the program there."""
        for member in self._members:
            put_program(member.host, self.spec.work_dir)
            if self._together:
                self._make_directory(member)

    def _command(self, member: Member) -> list[str]:
        seed = int(self.spec.values(member.worker, member.number)["HSP_SEED"])
        worker, spec = member.worker, self.spec
        words = open_words(
            self._job, worker.place, worker.size_bytes, seed, spec.clock,
            (spec.window_ms * 10**6, spec.duration_ns), len(self._members), worker.device,
        )  # fmt: skip
        return spec.by(command(spec.work_dir, words, member.directory if self._together else ""))

    def _result(self, member: Member, run_dir: RunDir) -> ClientResult | None:
        """Of a failed worker, what has arrived."""
        path = output_of(self.spec, member.name)
        lines = read_lines(path)
        op = self._job.open.op
        windows = read_counts(path, self.spec.window_ms, alone=False)
        if not windows.ios:
            member.fail("no I/O has ended")
            return None
        if not lines[-1].get("end"):
            member.fail("it was ended before its end: what has arrived is kept")
            return ClientResult(member.worker, windows.by_op(), windows)
        sums = {int(windows.direction[0]): int([line[op]["sum"] for line in lines if op in line][-1])}
        result = ClientResult(member.worker, windows.by_op(), replace(windows, sums_ns=sums))
        return replace(result, open=open_loop_of(self._job, lines, self.spec.clock, len(self._members)))


def open_loop_of(job: OpenJob, lines: Sequence[Line], clock: Clock, workers: int) -> OpenLoop:
    """The sums of all lines, in the experiment's time. Raises MeasurementUnknown."""
    table, last = job.open, lines[-1]
    try:
        value = {
            "op": table.op, "block_bytes": table.block, "threads": table.threads,
            "rate_per_s": (table.rate or 1) / workers,
            "elapsed_ns": clock.from_host_ns(int(last["to_ns"]) - int(lines[0]["from_ns"])),
            "limit_ns": job.limit_ns,
            **{name: int(last[name]) for name in ("due", "unstarted", "above", "slow")},
            "actual": latencies_of(lines, table.op, clock),
            "intended": latencies_of(lines, "intended", clock),
            "late": latencies_of(lines, "late", clock),
            "batches": batches_of(lines, table.op),
        }  # fmt: skip
        return OpenLoop.from_json(value, "the output of the open loop")
    except (KeyError, ValueError, TypeError, IndexError, ConfigError) as error:
        raise MeasurementUnknown(f"the counts of the open loop are damaged: {error}") from error


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
