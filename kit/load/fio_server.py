"""fio's client/server mode: one load on several clients, with a common start.

On each client `fio --server` listens on a Unix socket in a private directory, never on the network: a fio
server runs any command as its user. The leading fio runs on the first client, because fio accepts only its
own version; SSH connections forward the other clients' sockets to it. See
docs/decisions/0010-fio-client-server.md.

fio alone starts clients up to a second apart, because an idle server polls once a second. So each job first
waits for a start time, which every client gets on its own clock.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kit.config.tables.force_table import ForceJob
from kit.core.errors import HostError, KitError
from kit.hosts.base import Forward, Forwarding, HostLost, Process
from kit.hosts.clock_offset import Clocks
from kit.hosts.held_device import command_on
from kit.load import common_start, fio, fio_json, ordinary_user
from kit.load.common_start import Member
from kit.load.force_load import ForceLoad
from kit.load.phase_load import (
    ClientResult,
    Load,
    LoadSpec,
    SingleLoad,
    Worker,
    job_numbers,
    read_logs,
)
from kit.load.streamed_load import StreamedLoad
from kit.store.run_directory import RunDir

_STOP_DEADLINE_S = 60.0
_SOCKET_DEADLINE_S = 60.0

# All commands run as the user of the SSH connection, because sshd forwards sockets for that user: they begin
# with `env`, which does not use sudo.
# Writes a file atomically. Argument: the file.
_WRITE = 'umask 077 && cat >"$1.new" && mv "$1.new" "$1"'
_AWAIT_SOCKET = 'n=0; until [ -S "$1" ]; do n=$((n+1)); [ $n -lt 600 ] || exit 1; sleep 0.05; done'


def load_on(workers: Sequence[Worker], spec: LoadSpec, clocks: Clocks) -> Load:
    """The load of one worker, or of several together."""
    if isinstance(spec.job, ForceJob):
        return ForceLoad(workers, spec, clocks)
    if spec.histograms_ns is not None:
        return StreamedLoad(workers, spec, clocks)
    return SingleLoad(workers[0], spec) if len(workers) == 1 else GroupLoad(workers, spec, clocks)


def check_versions(versions: Mapping[str, str]) -> None:
    """Raises HostError for different versions. `versions`: by host."""
    if len(set(versions.values())) > 1:
        listed = ", ".join(f"{version} on {host}" for host, version in versions.items())
        raise HostError(
            f"the clients have different versions of fio: {listed}",
            "fio's client/server mode, which drives several clients, needs the same version everywhere: "
            "install the same fio on all clients",
        )


@dataclass
class GroupLoad:
    """The load of all `workers`, at least two, each on a host of its own. See `kit.load.phase_load.Load`."""

    workers: Sequence[Worker]
    spec: LoadSpec
    clocks: Clocks
    problems: list[str] = field(default_factory=list)
    failed: bool = False

    def __post_init__(self) -> None:
        work_dir, phase = self.spec.work_dir, self.spec.name
        self._members = [
            Member(worker, fio.socket_name(number), fio.group_directory(work_dir, number, phase))
            for number, worker in enumerate(self.workers)
        ]
        self._first = self._members[0]
        self._leader: Process | None = None
        self._forwards: list[Forward] = []
        self._local_dir = ""
        self._start_sent = False
        self._leader_failure = ""

    def prepare(self) -> None:
        """Start a fio server on each client, and forward its socket to the first client."""
        for member in self._members:
            self._make_directory(member)
            self._write(member, "start.py", common_start.HELPER.read_bytes())
        for number, member in enumerate(self._members):
            job = fio.group_job_text(self.spec.job, self.spec.values(member.worker, number))
            self._write(self._first, fio.group_job(member.socket), job)
        try:
            for member in self._members:
                command = fio.server_command(member.directory, member.socket)
                member.server = member.host.start(command_on(member.worker.device, self.spec.by(command)))
            for member in self._members:
                self._await_socket(member)
            self._forward_sockets()
        except BaseException:
            self._close()
            raise

    def _write(self, member: Member, name: str, content: bytes) -> None:
        if self.spec.ordinary:
            ordinary_user.write(member.host, f"{member.directory}/{name}", content)
        else:
            path = f"{member.directory}/{name}"
            member.host.run(["env", "sh", "-c", _WRITE, "sh", path], stdin=content)

    def _make_directory(self, member: Member) -> None:
        """Make the client's private directory; its user may pass through the run's directory, not list it."""
        if self.spec.ordinary:
            ordinary_user.make_directory(member.host, member.directory, self.spec.work_dir)
            return
        user = member.host.run(["id", "-u"]).stdout.strip()
        member.host.run(["install", "-d", "-m", "0700", "-o", user, member.directory])
        if user != "0":
            member.host.run(["chmod", "0711", self.spec.work_dir])

    def _await_socket(self, member: Member) -> None:
        path = f"{member.directory}/{member.socket}"
        waiting = member.host.run(
            ["env", "sh", "-c", _AWAIT_SOCKET, "sh", path], deadline_s=_SOCKET_DEADLINE_S, check=False
        )
        if waiting.returncode:
            assert member.server is not None
            ended = not member.server.running()
            reason = member.server.wait(_STOP_DEADLINE_S).describe() if ended else "it does not listen"
            raise HostError(
                f"fio --server failed on {member.host.name}: {reason}",
                "does `fio --server=sock:/tmp/x` start there by hand?",
            )

    def _forward_sockets(self) -> None:
        """Forward the other clients' sockets to a private directory here, and on to the first client."""
        self._local_dir = tempfile.mkdtemp(prefix="hsp-")
        for member in self._members[1:]:
            here = f"{self._local_dir}/{member.socket}"
            there = f"{member.directory}/{member.socket}"
            if isinstance(member.host, Forwarding):
                self._forwards.append(member.host.forward_unix_to_remote(here, there))
            else:
                here = there
            target = f"{self._first.directory}/{member.socket}"
            if isinstance(self._first.host, Forwarding):
                self._forwards.append(self._first.host.forward_remote_unix(target, here))
                if self.spec.ordinary:
                    self._give_away(target, here)
            else:
                self._first.host.run(["env", "ln", "-s", here, target])

    def _give_away(self, target: str, here: str) -> None:
        """Let the leading fio connect: sockets are made for the user of the login alone."""
        host, uid = self._first.host, ordinary_user.UID
        if host.run(["id", "-u"]).stdout.strip() != "0":
            return
        # -h: the directory is not root's, so the name may be a link by now.
        host.run(["env", "chown", "-h", uid, target])
        if host.run(["env", "test", "-h", target], check=False).returncode == 0:
            # The first client is this machine.
            for path in (self._local_dir, here):
                os.chown(path, int(uid), -1, follow_symlinks=False)

    def start(self) -> None:
        try:
            for member in self._members:
                self.spec.check_files(member.worker)
        except KitError:
            self._close()
            raise
        with self._first.failing():
            sockets = [member.socket for member in self._members]
            command = fio.leader_command(self._first.directory, sockets)
            self._leader = self._first.host.start(self.spec.by(command))
        common_start.await_ready(self._members, self.running)
        try:
            common_start.send_start(self._members, self.clocks, self.spec.clock, self._write)
        except KitError:
            # Without the start time no client would ever start.
            self._close()
            raise
        self._start_sent = True
        for member in self._members:
            if member.failure:
                # It would wait for its start, and the others for its end.
                self._end_server(member)

    def running(self) -> bool:
        return self._leader is not None and self._leader.running()

    def finish(self, interrupted: bool) -> None:
        if self._leader is None:
            self._close()
            return
        try:
            if self._leader.running():
                # fio forwards INT to all servers, and still writes its output. A job that waits for its start
                # ignores INT.
                self._leader.stop(_STOP_DEADLINE_S, "INT" if self._start_sent else "KILL")
            ended = self._leader.wait(_STOP_DEADLINE_S)
            if ended.returncode and not interrupted:
                self._leader_failure = ended.describe()
        except HostLost:
            self._first.fail("the connection to it broke while its fio led the load")
        except KitError as error:
            self._first.fail(error.message)
        finally:
            self._close()

    def _close(self) -> None:
        """End all fio servers and their children."""
        for forward in self._forwards:
            forward.close()
        for member in self._members:
            self._end_server(member)
        if self._local_dir:
            shutil.rmtree(self._local_dir, ignore_errors=True)

    def _end_server(self, member: Member) -> None:
        if member.server is not None:
            with suppress(KitError):
                member.server.stop(_STOP_DEADLINE_S, "KILL")

    def collect(self, run_dir: RunDir) -> list[ClientResult]:
        stats, errors = self._output(run_dir)
        results = []
        for member in self._members:
            with member.failing():
                result = self._result(member, stats.get(member.socket, []), errors, run_dir)
                if result:
                    results.append(result)
        for member in self._members:
            if member.failure:
                self.failed = True
                self.problems.append(f"fio failed on {member.host.name}: {member.failure}")
            with suppress(KitError):
                member.host.run(["rm", "-r", "-f", "--", member.directory])
        if self._leader_failure and not (results and self.problems):
            self.failed = True
            self.problems.append(f"fio failed {self._leader_failure}")
        return results

    def _logs(self, member: Member) -> list[str]:
        """The client's logs, which the leading fio has written."""
        names = (f"fio_lat.{number}.log.{member.socket}" for number in job_numbers(self.spec.job))
        return [f"{self._first.directory}/{name}" for name in names]

    def _output(self, run_dir: RunDir) -> tuple[dict[str, list[dict[str, Any]]], str]:
        """fio's jobs of each client by socket, and its error messages."""
        with self._first.failing():
            path = f"{self._first.directory}/fio.json"
            if self.spec.ordinary:
                logs = [log for member in self._members for log in self._logs(member)]
                ordinary_user.take_over(self._first.host, self._first.directory, [path, *logs])
            output = self._first.host.get(path, limit_bytes=fio_json.LIMIT_BYTES)
            run_dir.raw.joinpath(f"{self.spec.name}-fio.json").write_bytes(output)
            return fio.parse_group_output(output.decode(errors="replace"))
        return {}, f"the results are not available from {self._first.host.name}, whose fio led the load"

    def _result(
        self, member: Member, jobs: list[dict[str, Any]], errors: str, run_dir: RunDir
    ) -> ClientResult | None:
        failed = [str(job.get("jobname")) for job in jobs if job.get("error")]
        if failed:
            member.fail(f"an error in job {', '.join(failed)}; {errors}")
        if not jobs:
            member.fail(f"there is no result of it; {errors}")
            return None
        return read_logs(self.spec, member.worker, self._logs(member), jobs, run_dir, self._first.host)
