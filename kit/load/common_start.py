"""A common start of fio of several workers: each job waits for a time, which it gets on its own clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.core.clock import Clock
from kit.core.errors import KitError
from kit.hosts.base import Host, Process
from kit.hosts.clock_offset import Clocks, Offset, read_clock_ns
from kit.load.fio import FioFiles
from kit.load.phase_load import Worker

HELPER = Path(__file__).parents[1] / "remote" / "load" / "wait_for_start.py"
# For all clients to open their files and wait; and for the next client after the last one that is ready.
_READY_DEADLINE_S = 180.0
_LAST_READY_S = 30.0
_POLL_S = 0.1
# From the message to the start. The clock of an idle guest runs far ahead of the messages.
_LEAD_NS = {"real": 1_000_000_000, "virtual": 40_000_000_000}


@dataclass
class Member:
    """A worker and its number, the directory of its fio there, and that fio. `told`: that it failed."""

    worker: Worker
    number: int
    directory: str
    process: Process | None = None
    failure: str = ""
    told: bool = False

    @property
    def files(self) -> FioFiles:
        return FioFiles(self.directory)

    @property
    def host(self) -> Host:
        return self.worker.host

    @property
    def name(self) -> str:
        return self.worker.name

    def running(self) -> bool:
        return self.process is not None and self.process.running()

    def fail(self, reason: str) -> None:
        self.failure = self.failure or reason

    @contextmanager
    def failing(self, but: tuple[type[KitError], ...] = ()) -> Iterator[None]:
        """Turn an error, `but` these, into a failure of this worker; the others go on."""
        try:
            yield
        except but:
            raise
        except KitError as error:
            self.fail(error.message)


def await_ready(members: Sequence[Member], running: Callable[[], bool]) -> None:
    """Wait until every job waits for its start, or has ended. One much slower than the others fails."""
    missing = [member for member in members if not member.failure]
    end = latest = time.monotonic() + _READY_DEADLINE_S
    while missing and running() and time.monotonic() < end:
        for member in list(missing):
            with member.failing():
                ready = member.host.run(["env", "test", "-e", f"{member.directory}/ready"], check=False)
                if ready.returncode == 0:
                    missing.remove(member)
                    end = min(latest, time.monotonic() + _LAST_READY_S)
                    continue
            if member.failure or not member.running():
                missing.remove(member)
        time.sleep(_POLL_S)
    for member in missing:
        if member.running():  # else its exit status says why
            member.fail("fio did not get ready to start with the others")


def send_start(
    members: Sequence[Member], clocks: Clocks, clock: Clock, write: Callable[[Member, str, bytes], None]
) -> None:
    """Send the start time to all clients, in parallel: messages are slow, and none may be late."""
    offsets: dict[str, Offset] = {}
    for member in members:
        with member.failing():
            offsets |= clocks.offsets([member.host])
    ready = [member for member in members if not member.failure]
    when_ns = read_clock_ns(clocks.reference) + _LEAD_NS[clock.kind]

    def send(member: Member) -> None:
        with member.failing():
            write(member, "go", f"{when_ns + offsets[member.host.name].ns}\n".encode())

    with ThreadPoolExecutor(max(1, len(ready))) as pool:
        list(pool.map(send, ready))
