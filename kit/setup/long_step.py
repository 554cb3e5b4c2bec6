"""Steps that take minutes on a real server show how far they are: bytes a second, and the time left."""

from __future__ import annotations

import time
from contextlib import suppress

from kit.core.progress import Progress
from kit.core.units import format_decimal_bytes, format_duration_s
from kit.hosts.base import Command, CommandFailed, CommandResult, DeadlineExceeded, Host, stopped_on_error

# Of less the server is not asked: it is there within seconds, and in the lab each question costs time.
_LARGE_BYTES = 1 << 30
_ASK_S = 5.0


class StepPace:
    """Of a step with `size_bytes` in all. Shown on a terminal alone."""

    def __init__(self, progress: Progress, size_bytes: int) -> None:
        self._progress, self._size_bytes, self._begun_s = progress, size_bytes, time.monotonic()

    def show(self, done_bytes: int) -> None:
        rate = done_bytes / max(time.monotonic() - self._begun_s, 1e-3)
        if not done_bytes or done_bytes >= self._size_bytes:
            return
        left = format_duration_s(round((self._size_bytes - done_bytes) / rate))
        self._progress.detail(f"{format_decimal_bytes(int(rate))}/s, {left} left")
        self._progress.update(done_bytes / self._size_bytes)


def run_writing(
    host: Host, command: Command, path: str, size_bytes: int, progress: Progress
) -> CommandResult:
    """Execute a command that writes a file in order, and show how much of it is there. Raises HostError."""
    if size_bytes < _LARGE_BYTES:
        return command.run(host)
    pace, process = StepPace(progress, size_bytes), host.start(command.argv)
    end_s = time.monotonic() + command.deadline_s
    next_s = time.monotonic() + _ASK_S
    # Nothing goes on writing.
    with stopped_on_error(process):
        while process.running() and time.monotonic() < end_s:
            time.sleep(0.2)
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + _ASK_S
                # It is shown, no more: a busy server does not end the step.
                with suppress(DeadlineExceeded):
                    result = host.run(["env", "stat", "-c", "%s", "--", path], check=False)
                    pace.show(int(result.stdout) if result.stdout.strip().isdecimal() else 0)
        ended = process.wait(max(end_s - time.monotonic(), 1.0))
    if ended.returncode:
        raise CommandFailed(ended)
    return ended
