"""A shell in the guest of a lab, and single commands, with this process's stdin, stdout and stderr."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import termios
import threading
import tty
from collections.abc import Sequence

import asyncssh

from kit.hosts.ssh import SshHost, call

_CHUNK_BYTES = 1 << 16
# What a shell reports for a command that a signal ended, and where that is not known.
_SIGNAL_CODE, _UNKNOWN_CODE = 128, 255
_NUDGE_S = 5.0


def run_command(guest: SshHost, words: Sequence[str]) -> int:
    """Run one command line in the guest; returns its exit code, as a shell gives it.

    One word is a line for the guest's shell, with pipes, lists and expansion. Several words are one command
    and its arguments, each as it is, so that spaces and special characters in them need no second quoting.
    """
    line = words[0] if len(words) == 1 else shlex.join(words)
    return call(_run(guest, line))


async def _run(guest: SshHost, line: str) -> int:
    process = await guest.connection.create_process(line, encoding=None)
    loop = asyncio.get_running_loop()
    # A daemon: a read of a terminal may never end.
    threading.Thread(target=_feed, args=(process, loop), daemon=True).start()
    copies = asyncio.gather(_copy(process.stdout, 1), _copy(process.stderr, 2))
    try:
        # The messages wake a guest that missed an interrupt.
        while not (await asyncio.wait((copies,), timeout=_NUDGE_S))[0]:
            guest.nudge()
        await copies
        await process.wait_closed()
    except OSError:  # whoever read our output is gone, as `head` is: the command gets what it would get here
        process.close()
        return _SIGNAL_CODE + signal.SIGPIPE
    finally:
        copies.cancel()
    code = process.returncode
    if code is None:
        return _UNKNOWN_CODE
    return code if code >= 0 else _SIGNAL_CODE - code


def _feed(process: asyncssh.SSHClientProcess[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Copy stdin to the command, no faster than it reads; in a thread, because a file cannot be awaited."""

    async def write(data: bytes) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):  # the command does not read any more
            if data:
                process.stdin.write(data)
                await process.stdin.drain()
            else:
                process.stdin.write_eof()

    data = b"-"
    while data and not process.is_closing():
        try:
            data = os.read(0, _CHUNK_BYTES)
        except OSError:  # stdin is closed
            data = b""
        with contextlib.suppress(RuntimeError):  # this program is ending
            asyncio.run_coroutine_threadsafe(write(data), loop).result()


async def _copy(source: asyncssh.SSHReader[bytes], target: int) -> None:
    """Copy to a file descriptor. Raises OSError where nobody reads it any more."""
    while data := await source.read(_CHUNK_BYTES):
        await asyncio.to_thread(_write_all, target, data)


def _write_all(target: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest) :]


async def interact(connection: asyncssh.SSHClientConnection) -> int:
    """Connect stdin, stdout and stderr to a login shell in the guest; returns its exit code."""
    terminal = sys.stdin.fileno() if sys.stdin.isatty() else None
    attributes = termios.tcgetattr(terminal) if terminal is not None else None
    try:
        if terminal is not None:
            tty.setraw(terminal)
        process = await connection.create_process(
            "bash -l",
            term_type=os.environ.get("TERM", "linux") if terminal is not None else None,
            stdin=os.dup(0),
            stdout=os.dup(1),
            stderr=os.dup(2),
            encoding=None,
        )
        await asyncio.shield(process.wait_closed())
        return int(process.returncode or 0)
    finally:
        if terminal is not None and attributes is not None:
            termios.tcsetattr(terminal, termios.TCSADRAIN, attributes)
