"""Forced writes: the load of a phase with `force`, on each client or for each device.

After the phase the same program reads the records back: nothing of that is in the phase's counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from kit.config.tables.force_table import ForceJob, ForceTable
from kit.core.clock import Clock
from kit.core.errors import HostError, MeasurementUnknown
from kit.core.text import json_value
from kit.hosts.base import CommandFailed
from kit.load.common_start import Member
from kit.load.programs.force_program import run_words, words_of
from kit.load.programs.program_load import Line, ProgramLoad, damaged, elapsed_ns, latencies_of
from kit.store.parts.forces import Forces

_PREPARE_DEADLINE_S, _VERIFY_DEADLINE_S = 600.0, 3600.0


class ForceLoad(ProgramLoad[ForceJob]):
    """Forced writes. Of several clients each has files of its own."""

    program = "the program of forced writes"
    counted_calls, unended = "force", "what has arrived is kept, its records were not read back"

    def prepare(self) -> None:
        """Put the program there, and make its files."""
        super().prepare()
        for member in self._members:
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

    def _words(self, member: Member) -> list[str]:
        return run_words(
            self._spec_words(member), self._job.force, member.worker.size_bytes, *self.spec.times_ns
        )

    def _part(self, member: Member, lines: Sequence[Line], *, has_ended: bool) -> Forces:
        """Reads the records back."""
        forces = forces_of(self._job.force, lines, self.spec.clock, self._job.writes_per_io)
        if not (has_ended and self._job.force.check):
            return forces
        written = list(map(str, lines[-1]["written"]))
        text = self._call(member, "verify", written, _VERIFY_DEADLINE_S)
        return checked(forces, text)

    def _call(self, member: Member, name: str, words: Sequence[str], deadline_s: float) -> str:
        argv = self._argv([name, *self._spec_words(member), *words])
        return member.host.run(argv, deadline_s=deadline_s).stdout

    def _spec_words(self, member: Member) -> list[str]:
        # Clients have the same directory: the files of each have its number.
        files = f"{self.spec.name}.{member.number}" if self._together else self.spec.name
        worker = member.worker
        return words_of(
            self._job.force, files, worker.place, worker.size_bytes, self._seed(member),
            is_device=_is_device(worker.place), device=worker.device,
        )  # fmt: skip


def _is_device(place: str) -> bool:
    """Whether the place of a worker is a block device; else it is a directory."""
    return place.startswith("/dev/")


def forces_of(
    force: ForceTable, lines: Sequence[Line], clock: Clock, writes_per_group: int | None = None
) -> Forces:
    """The sums of all lines, in the experiment's time. Raises MeasurementUnknown."""
    with damaged("forced writes"):
        written = [int(count) for count in lines[-1]["written"]]
        kept = force.file // force.record // force.per_force * force.per_force
        value = {
            "record_bytes": force.record,
            **{name: value for name, value in force if name in Forces.model_fields},
            "writes_per_group": writes_per_group,
            "elapsed_ns": elapsed_ns(lines, clock),
            "forces": int(lines[-1]["forces"]),
            "records": sum(written),
            "overwritten": sum(max(0, count - kept) for count in written),
            "group": latencies_of(lines, "read", clock) or latencies_of(lines, "write", clock),
            "write": latencies_of(lines, "part", clock),
            "force": latencies_of(lines, "force", clock),
        }
        return Forces.from_json(value, "the output of forced writes")


def checked(forces: Forces, text: str) -> Forces:
    """With what was read back: the output of `verify`. Raises MeasurementUnknown."""
    try:
        found = json_value(text)
        kept, recovered, damaged = (int(found[name]) for name in ("kept", "recovered", "damaged"))
    except (ValueError, KeyError, TypeError) as error:
        raise MeasurementUnknown(f"what reads the records back printed {text[:200]!r}") from error
    # Of a device that is smaller than the file.
    overwritten = forces.records - kept
    if not (0 <= recovered + damaged <= kept and overwritten >= 0):
        raise MeasurementUnknown(f"{kept} records were to be read back, {recovered} + {damaged} were found")
    return forces.model_copy(update={"overwritten": overwritten, "recovered": recovered, "damaged": damaged})
