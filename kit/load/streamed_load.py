"""A load whose clients count: what fio has counted arrives an interval at a time, while it runs.

Each client has its own fio (kit.remote.count_ios): fio's client/server mode tells counts at the end alone. Of
several, each waits for a common start, as in that mode (kit.load.common_start).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kit.core.errors import KitError, MeasurementUnknown
from kit.hosts.base import HostLost
from kit.hosts.clock_offset import Clocks
from kit.hosts.held_device import command_on
from kit.load import common_start, fio, fio_json, ordinary_user
from kit.load.common_start import Member
from kit.load.fio_windows import ClientWindows, read_counts, with_totals
from kit.load.phase_load import ClientResult, LoadSpec, Worker, raw_prefix
from kit.store.run_directory import RunDir

_COUNTER = Path(__file__).parents[1] / "remote" / "count_ios.py"
_STOP_DEADLINE_S = 60.0


@dataclass
class StreamedLoad:
    """The load of all `workers`. See kit.load.phase_load.Load."""

    workers: Sequence[Worker]
    spec: LoadSpec
    clocks: Clocks
    problems: list[str] = field(default_factory=list)
    failed: bool = False

    def __post_init__(self) -> None:
        self._members = [
            Member(worker, "", fio.group_directory(self.spec.work_dir, number, self.spec.name))
            for number, worker in enumerate(self.workers)
        ]
        self._together = len(self._members) > 1
        self._start_sent = False
        self._outputs: dict[str, Path] = {}

    def prepare(self) -> None:
        for number, member in enumerate(self._members):
            self._make_directory(member)
            self._write(member, "count_ios.py", _COUNTER.read_bytes())
            self._write(member, "job.fio", fio.counted_job_text(
                self.spec.job, self.spec.values(member.worker, number), together=self._together
            ))  # fmt: skip
            if self._together:
                self._write(member, "start.py", common_start.HELPER.read_bytes())

    def _make_directory(self, member: Member) -> None:
        if self.spec.ordinary:
            ordinary_user.make_directory(member.host, member.directory, self.spec.work_dir)
        else:
            member.host.run(["mkdir", "-p", member.directory])

    def _remove_directory(self, member: Member) -> None:
        with suppress(KitError):
            member.host.run(["rm", "-r", "-f", "--", member.directory])

    def _write(self, member: Member, name: str, content: bytes) -> None:
        path = f"{member.directory}/{name}"
        if self.spec.ordinary:
            ordinary_user.write(member.host, path, content)
        else:
            member.host.put(content, path)

    def start(self) -> None:
        for member in self._members:
            self.spec.check_files(member.worker)
        for member in self._members:
            output = self._outputs[member.name] = output_of(self.spec, member.name)
            command = fio.count_command(
                member.directory, self.spec.window_ms or 1, ordinary=self.spec.ordinary
            )
            command = command_on(member.worker.device, self.spec.by(command))
            member.server = member.host.start(command, output)
        self._start_together()

    def _start_together(self) -> None:
        """Where there are several, each waits for the start that is sent here."""
        if self._together:
            common_start.await_ready(self._members, self.running)
            common_start.send_start(self._members, self.clocks, self.spec.clock, self._write)
            for member in self._members:
                if member.failure:
                    # It would wait for its start.
                    self._stop(member, "KILL")
        self._start_sent = True

    @property
    def expected_outputs(self) -> list[Path]:
        """The same, known before the start."""
        return [output_of(self.spec, member.name) for member in self._members]

    @property
    def outputs(self) -> list[Path]:
        """The files that grow while it runs."""
        return list(self._outputs.values())

    def running(self) -> bool:
        return any(member.server is not None and member.server.running() for member in self._members)

    def finish(self, interrupted: bool) -> None:
        for member in self._members:
            if member.server is None:
                continue
            with member.failing():
                if member.server.running():
                    # fio ends its jobs on SIGINT and still prints its counts. One that waits for its start
                    # ignores it.
                    self._stop(member, "INT" if self._start_sent else "KILL")
                ended = member.server.wait(_STOP_DEADLINE_S)
                if ended.returncode and not interrupted:
                    member.fail(ended.describe())

    def _stop(self, member: Member, signal: str) -> None:
        assert member.server is not None
        with suppress(HostLost):
            member.server.stop(_STOP_DEADLINE_S, signal)

    def collect(self, run_dir: RunDir) -> list[ClientResult]:
        """Of a failed client, what has arrived."""
        results = []
        for member in self._members:
            try:
                windows = read_counts(
                    self._outputs[member.name],
                    self.spec.window_ms or 1,
                    alone=self.spec.job.outstanding == 1,
                )
            except (OSError, MeasurementUnknown) as error:
                member.fail(str(error))
                continue
            with member.failing():
                windows = with_totals(windows, self._jobs(member, run_dir), member.name)
            results.append(ClientResult(member.worker, windows.by_op(), windows))
        for member in self._members:
            if member.failure:
                self.failed = True
                self.problems.append(f"fio failed on {member.name}: {member.failure}")
            self._remove_directory(member)
        return [result for result in results if _ios(result)]

    def _jobs(self, member: Member, run_dir: RunDir) -> list[fio_json.Json]:
        """The jobs of fio's last document."""
        output = f"{member.directory}/fio.json"
        if self.spec.ordinary:
            ordinary_user.take_over(member.host, member.directory, [output])
        text = member.host.get(output, limit_bytes=fio_json.LIMIT_BYTES)
        run_dir.raw.joinpath(f"{raw_prefix(self.spec, member.name)}-fio.json").write_bytes(text)
        return list(fio.parse_output(text.decode(errors="replace"))["jobs"])


def _ios(result: ClientResult) -> int:
    assert isinstance(result.latencies, ClientWindows)
    return result.latencies.ios


def output_of(spec: LoadSpec, worker: str) -> Path:
    """The file in raw/ that gets the counts of a worker."""
    assert spec.raw is not None
    return spec.raw / f"{raw_prefix(spec, worker)}-counts.{spec.part}.jsonl"
