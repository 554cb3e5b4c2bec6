"""Supervisor process of one QEMU: makes sure that nothing is left behind.

The CLI starts it and keeps a pipe to its stdin open. When that pipe closes (the CLI
ended in any way, `kill -9` included) the supervisor ends QEMU and removes the state
directory. The kernel kills QEMU when the supervisor dies. A line `detach` lets the lab
run on after the CLI (`hsp lab up`). The supervisor holds a lock (flock) on the file `lock` of the
state directory while it lives; a free lock is the proof that it is dead.

stdin, first line: JSON {base, prefix, files: {name: base64}, sparse: {name: bytes}, argv: [...],
one_cpu: bool, info: {...}}. QEMU's working directory is the state directory. `one_cpu`: all threads of QEMU
run on one CPU at a time (docs/decisions/0031-one-cpu-a-guest.md).
stdout: one JSON line {state, qemu_pid}, or {error}; later {exited: code} if QEMU ends.
Only the standard library is imported, for a start within milliseconds.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

LOCK = "lock"
_TERM_GRACE_S = 3.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
# How often a guest of one CPU looks whether another CPU has fewer; at random, so that two do not swap.
_LOOK_S = (3.0, 9.0)


class _Stop(Exception):
    """A signal requested the end of the lab."""


def main() -> int:
    """Create the state, start QEMU, wait for a reason to stop, remove everything."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _raise_stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the CLI's to handle
    with contextlib.suppress(_Stop):
        line = _read_line()
        if not line:
            return 0
        spec = json.loads(line)
        state = Path(tempfile.mkdtemp(prefix=spec["prefix"], dir=spec["base"]))
        qemu = None
        try:
            _lock(state)
            qemu = _start(state, spec)
            _wait(qemu, _balance if spec["one_cpu"] else None)
        except OSError as error:
            _say({"error": f"{error.filename or ''}: {error.strerror}"})
        finally:
            # A second signal must not interrupt the removal.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if qemu is not None:
                _end(qemu)
            shutil.rmtree(state, ignore_errors=True)
    return 0


def _lock(state: Path) -> None:
    """Hold a lock until this process ends; QEMU does not inherit it. The file appears when it is held."""
    early = state / f"{LOCK}.new"
    descriptor = os.open(early, os.O_RDONLY | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    early.rename(state / LOCK)


def _start(state: Path, spec: dict[str, Any]) -> subprocess.Popen[bytes]:
    """`spec`: the first line of stdin."""
    for name, content in spec["files"].items():
        (state / name).write_bytes(base64.b64decode(content))
    for name, size_bytes in spec["sparse"].items():
        with (state / name).open("wb") as file:
            file.truncate(size_bytes)
    with (state / "qemu.log").open("wb") as log:
        qemu = subprocess.Popen(
            spec["argv"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=state,
            env={**os.environ, "TMPDIR": os.fspath(state)},
            preexec_fn=_before_exec(os.getpid(), _least_used(_guests_by_cpu()) if spec["one_cpu"] else set()),
        )
    lab = {**spec["info"], "supervisor_pid": os.getpid(), "qemu_pid": qemu.pid}
    (state / "lab.json").write_text(json.dumps(lab))
    _say({"state": os.fspath(state), "qemu_pid": qemu.pid})
    return qemu


def _before_exec(parent: int, cpus: set[int]) -> Callable[[], None]:
    """A preexec function: kill the child when the supervisor's (only) thread ends, or has already ended.

    The child runs on `cpus`, if any are given.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def before_exec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        if cpus:
            os.sched_setaffinity(0, cpus)

    return before_exec


def _guests_by_cpu(but: int = 0) -> dict[int, int]:
    """How many guests, of any user, are on each CPU that this process may use. `but`: one not counted."""
    guests = dict.fromkeys(os.sched_getaffinity(0), 0)
    for entry in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            pid = int(entry.parent.name)
            if pid != but and entry.read_text().startswith("qemu-system"):
                cpus = os.sched_getaffinity(pid)
                if len(cpus) == 1 and cpus <= guests.keys():
                    guests[cpus.pop()] += 1
    return guests


def _least_used(guests: dict[int, int]) -> set[int]:
    """The CPU with the fewest guests; of several any, for another lab may start at the same moment."""
    return {min(guests, key=lambda cpu: (guests[cpu], random.random()))}


def _balance(pid: int) -> None:
    """Move QEMU to a CPU with fewer guests, if there is one. It is stopped meanwhile: never on two CPUs."""
    guests = _guests_by_cpu(but=pid)
    target, (own, *_) = _least_used(guests), os.sched_getaffinity(pid)
    if all(guests[cpu] >= guests.get(own, 0) for cpu in target):
        return
    os.kill(pid, signal.SIGSTOP)
    try:
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), target)
    finally:
        os.kill(pid, signal.SIGCONT)


def _wait(qemu: subprocess.Popen[bytes], look: Callable[[int], None] | None) -> None:
    """Wait until the CLI has ended without a detach, or both QEMU has ended and the CLI has detached.

    `look` is called now and then with QEMU's process id while QEMU runs.
    """
    ended = os.pidfd_open(qemu.pid)
    attached, alive = True, True
    while attached or alive:
        watched = [0] * attached + [ended] * alive
        ready, _, _ = select.select(watched, [], [], random.uniform(*_LOOK_S) if look and alive else None)
        if not ready and look:
            with contextlib.suppress(OSError):
                look(qemu.pid)
        if ended in ready:
            alive = False
            _say({"exited": qemu.wait()})
        if 0 in ready:
            if _read_line().strip() != "detach":
                return
            attached = False
            _close_outputs()


def _close_outputs() -> None:
    """Close the CLI's outputs, so that a reader (`hsp lab up | tee log`) sees their end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for output in (1, 2):
        os.dup2(nowhere, output)
    os.close(nowhere)


def _end(qemu: subprocess.Popen[bytes]) -> None:
    if qemu.poll() is not None:
        return
    qemu.terminate()
    try:
        qemu.wait(_TERM_GRACE_S)
    except subprocess.TimeoutExpired:
        qemu.kill()
        qemu.wait()


def _read_line() -> str:
    """Read one line of stdin, unbuffered, so that select() sees the remaining input."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return ""
        line += byte
    return line.decode()


def _say(message: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def _raise_stop(number: int, frame: FrameType | None) -> None:
    raise _Stop


if __name__ == "__main__":
    sys.exit(main())
