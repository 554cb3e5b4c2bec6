"""fio of a phase: each worker (a client, a device) has its own, and several start together.

A load records every I/O (fio's logs, fetched at the end), or counts, which arrive an interval at a time while
it runs (kit.remote.load.count_ios). Why fio's client/server mode is not used:
docs/decisions/0036-a-fio-for-each-worker.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from kit.core.errors import KitError, MeasurementUnknown
from kit.hosts.base import HostLost
from kit.hosts.clock_offset import Clocks
from kit.hosts.held_device import command_on
from kit.load import common_start, fio, fio_json, ordinary_user
from kit.load.common_start import Member
from kit.load.fio_windows import read_counts, with_totals
from kit.load.phase_load import ClientResult, LoadSpec, Worker, job_numbers, output_of, raw_prefix, read_logs
from kit.store.run_directory import RunDir

_COUNTER = Path(__file__).parents[1] / "remote" / "load" / "count_ios.py"
_STOP_DEADLINE_S = 60.0


@dataclass
class PhaseLoad:
    """The load of all `workers`. `problems`: texts that name the worker.

    `failed`: the load did not run, so the next phase would fail as well.
    """

    workers: Sequence[Worker]
    spec: LoadSpec
    clocks: Clocks
    problems: list[str] = field(default_factory=list)
    failed: bool = False
    program: ClassVar[str] = "fio"

    def __post_init__(self) -> None:
        self._members = [
            Member(worker, number, fio.directory(self.spec.work_dir, number, self.spec.name))
            for number, worker in enumerate(self.workers)
        ]
        self._together = len(self._members) > 1
        self._start_sent = False
        # The only worker, lost with all its I/Os: nothing is left to go on with.
        self._ends_run = () if self._together or self.spec.counted else (HostLost,)

    def prepare(self) -> None:
        """Before the instruments begin. Raises KitError."""
        for member in self._members:
            values = self.spec.values(member.worker, member.number)
            self._make_directory(member)
            self._write(member, "job.fio", fio.job_text(
                self.spec.job, member.files, values, self.spec.recorded, together=self._together
            ))  # fmt: skip
            if self.spec.counted:
                self._write(member, "count_ios.py", _COUNTER.read_bytes())

    def _make_directory(self, member: Member) -> None:
        """A new one, with what waits for the common start."""
        self._remove_directory(member)
        if self.spec.ordinary:
            ordinary_user.make_directory(member.host, member.directory, self.spec.work_dir)
        else:
            member.host.run(["mkdir", "-p", "-m", "0700", member.directory])
        if self._together:
            self._write(member, "start.py", common_start.HELPER.read_bytes())

    def _remove_directory(self, member: Member) -> None:
        with suppress(KitError):
            member.host.run(["rm", "-r", "-f", "--", member.directory])

    def _write(self, member: Member, name: str, content: bytes) -> None:
        path = f"{member.directory}/{name}"
        if self.spec.ordinary:
            ordinary_user.write(member.host, path, content)
        else:
            member.host.put(content, path)

    def _command(self, member: Member) -> list[str]:
        """argv of fio, or of what counts with it."""
        argv = fio.command(member.files)
        if self.spec.counted:
            argv = fio.count_command(member.directory, self.spec.window_ms, ordinary=self.spec.ordinary)
        return command_on(member.worker.device, self.spec.by(argv))

    def start(self) -> None:
        """Start fio of all workers. Raises KitError; then none runs."""
        for member in self._members:
            self.spec.check_files(member.worker)
        try:
            for member in self._members:
                with member.failing(self._ends_run):
                    member.process = member.host.start(self._command(member), self._output(member))
            if self._together:
                common_start.await_ready(self._members, self.running)
                common_start.send_start(self._members, self.clocks, self.spec.clock, self._write)
        except KitError:
            # Without the start time it would wait for ever.
            for member in self._members:
                self._kill(member)
            raise
        self._start_sent = True
        for member in self._members:
            if member.failure:
                self._kill(member)

    def _output(self, member: Member) -> Path | None:
        """The file in raw/ that grows while it runs; with logs there is none."""
        return output_of(self.spec, member.name) if self.spec.counted else None

    @property
    def outputs(self) -> list[Path]:
        """The files that grow while it runs, known before the start."""
        return [path for member in self._members if (path := self._output(member))]

    def running(self) -> bool:
        """Whether fio of any worker still runs."""
        return any(member.running() for member in self._members)

    def finish(self, interrupted: bool) -> None:
        """Stop fio and read its exit status. `interrupted`: ignore a non-zero exit status."""
        for member in self._members:
            if member.process is None:
                continue
            with member.failing(self._ends_run):
                # fio ends its jobs on SIGINT and still writes what it has. One that waits for its start
                # ignores it.
                if member.running():
                    member.process.stop(_STOP_DEADLINE_S, "INT" if self._start_sent else "KILL")
                ended = member.process.wait(_STOP_DEADLINE_S)
                if ended.returncode and not interrupted:
                    member.fail(ended.describe())
        self._tell_failures()

    def _kill(self, member: Member) -> None:
        with suppress(KitError):
            if member.process is not None:
                member.process.stop(_STOP_DEADLINE_S, "KILL")

    def _tell_failures(self) -> None:
        for member in self._members:
            if member.failure and not member.told:
                self.failed = member.told = True
                self.problems.append(f"{self.program} failed on {member.name}: {member.failure}")

    def collect(self, run_dir: RunDir) -> list[ClientResult]:
        """Fetch and read what each worker has recorded; of one that failed, what there is."""
        results = []
        for member in self._members:
            with member.failing(self._ends_run):
                result = self._result(member, run_dir)
                results += [result] if result else []
            self._remove_directory(member)
        self._tell_failures()
        return results

    def _result(self, member: Member, run_dir: RunDir) -> ClientResult | None:
        """None without an I/O that was counted. Raises KitError."""
        if not self.spec.counted:
            logs = [member.files.latency_log_of(number) for number in job_numbers(self.spec.job)]
            return read_logs(self.spec, member.worker, logs, self._jobs(member, run_dir, logs), run_dir)
        alone = self.spec.job.outstanding == 1
        try:
            windows = read_counts(output_of(self.spec, member.name), self.spec.window_ms, alone=alone)
        except OSError as error:
            raise MeasurementUnknown(str(error)) from error
        with member.failing():
            windows = with_totals(windows, self._jobs(member, run_dir), member.name)
        return ClientResult(member.worker, windows.by_op(), windows) if windows.ios else None

    def _jobs(self, member: Member, run_dir: RunDir, logs: Sequence[str] = ()) -> list[fio_json.Json]:
        """The jobs of fio's last document."""
        if self.spec.ordinary:
            ordinary_user.take_over(member.host, member.directory, [member.files.output, *logs])
        text = member.host.get(member.files.output, limit_bytes=fio_json.LIMIT_BYTES)
        run_dir.raw.joinpath(f"{raw_prefix(self.spec, member.name)}-fio.json").write_bytes(text)
        return fio.parse_output(text.decode(errors="replace"))
