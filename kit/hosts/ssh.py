"""A host behind an SSH connection, which a connector opens. One connection carries all commands.

The lab has a connector for a virtio-serial port; kit.hosts.connect has one for TCP, with
supervision (kit.hosts.supervision).

asyncssh is asynchronous and the kit is not: one event loop in its own thread serves all SSH hosts
of the process.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import shlex
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import asyncssh

from kit.core.errors import HostError
from kit.hosts.base import (
    DEFAULT_DEADLINE_S,
    OUTPUT_LIMIT_BYTES,
    CommandResult,
    DeadlineExceeded,
    DirectHost,
    HostLost,
    Kept,
    SavedOutput,
    checked_argv,
    decode,
    kept_outputs,
    result_of,
)
from kit.hosts.supervision import BEAT, Supervision

T = TypeVar("T")
Connector = Callable[[], Awaitable[asyncssh.SSHClientConnection]]

# What asyncssh raises when a connection breaks. AssertionError: if it breaks between a channel's opening and
# its use, asyncssh asserts that the channel still has a connection (channel.py: create, send_packet).
BROKEN = (asyncssh.Error, OSError, AssertionError)

_KILL_GRACE_S = 15.0
_CLOSE_GRACE_S = 5.0
_CHANNEL_DEADLINE_S = 300.0
_NUDGE_TEXT = "still there?"
_CHUNK_BYTES = 256 << 10
# Of a command, in the message of a lost connection: the command is not to be repeated.
_SHOWN = 80


_starting = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    # Without the lock two threads could each create a loop.
    with _starting:
        return _the_loop()


@functools.cache
def _the_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ssh", daemon=True).start()
    return loop


def call(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the SSH loop and wait; an interrupt of the caller cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except concurrent.futures.CancelledError:
        raise
    except BaseException:
        future.cancel()
        raise


class SshProcess:
    """A remote command in the background. sshd delivers signals to its whole process group."""

    def __init__(
        self,
        host: SshHost,
        argv: tuple[str, ...],
        process: asyncssh.SSHClientProcess[bytes],
        supervision: Supervision | None,
        outputs: tuple[Kept, Kept],
        whole: bool,
    ) -> None:
        """`whole`: the command is of no use when more is written than is kept: it is ended then."""
        self.argv = argv
        self._out, self._err = outputs
        self._whole = whole
        self._supervision = supervision
        self._host = host
        self._process = process
        # Output is read from the start: a full SSH window would stall the command.
        self._finished = asyncio.run_coroutine_threadsafe(self._communicate(), _loop())

    async def _communicate(self) -> None:
        beats = asyncio.ensure_future(self._beat(self._supervision)) if self._supervision else None
        try:
            await asyncio.gather(
                self._read(self._process.stdout, self._out), self._read(self._process.stderr, self._err)
            )
            await self._process.wait_closed()
        finally:
            self._out.close()
            if beats:
                beats.cancel()

    async def _read(self, stream: asyncssh.SSHReader[bytes], kept: Kept) -> None:
        """Until its end; a broken connection is one, too: then there is no exit code."""
        with contextlib.suppress(*BROKEN):
            while chunk := await stream.read(_CHUNK_BYTES):
                kept.add(chunk)
                if self._whole and self._out.cut_bytes:
                    self._process.close()
                    return

    async def _beat(self, supervision: Supervision) -> None:
        """Send the watcher a beat at regular intervals."""
        await asyncio.sleep(supervision.first_beat_s)
        with contextlib.suppress(*BROKEN):
            while not self._process.is_closing():
                self._process.stdin.write(BEAT)
                await asyncio.sleep(supervision.beat_s)

    def running(self) -> bool:
        return not self._finished.done()

    def wait(self, deadline_s: float, nudge_s: float | None = None) -> CommandResult:
        """As Process.wait; sends a nudge every `nudge_s` seconds."""
        code, out, err = self.collect(deadline_s, nudge_s)
        return result_of(self._host.name, self.argv, code, out, err)

    def collect(self, deadline_s: float, nudge_s: float | None = None) -> tuple[int, Kept, Kept]:
        """Wait as `wait` does; returns the exit code, stdout and stderr."""
        end = time.monotonic() + deadline_s
        try:
            while nudge_s and time.monotonic() + nudge_s < end:
                with contextlib.suppress(TimeoutError):
                    self._finished.result(nudge_s)
                    break
                self._host.nudge()
            self._finished.result(max(0.0, end - time.monotonic()))
        except TimeoutError:
            self._signal("KILL")
            with contextlib.suppress(*BROKEN, TimeoutError):
                self._finished.result(_KILL_GRACE_S)
            self._finished.cancel()
            _loop().call_soon_threadsafe(self._process.close)
            raise DeadlineExceeded(self._host.name, self.argv, deadline_s) from None
        except BROKEN as error:
            raise self._host.connection_lost(self.argv, error) from error
        code = self._process.returncode
        if code is None and not (self._whole and self._out.cut_bytes):
            raise self._host.connection_lost(self.argv, None)
        return code or 0, self._out, self._err

    def stop(self, deadline_s: float, signal: str = "INT") -> CommandResult:
        self._signal(signal)
        return self.wait(deadline_s)

    def _signal(self, name: str) -> None:
        async def send() -> None:
            with contextlib.suppress(*BROKEN):
                if self._supervision:
                    self._process.stdin.write(f"{name}\n".encode())
                # KILL is also sent by sshd: the watcher may still wait for the command's input. Not for
                # commands of root, which only the watcher can kill, with sudo.
                if not self._supervision or (name == "KILL" and not self._supervision.killer):
                    self._process.send_signal(name)

        call(send())


class SshHost(DirectHost):
    """Commands over one SSH connection, opened in the constructor; never reconnects."""

    def __init__(
        self,
        name: str,
        connector: Connector,
        deadline_s: float,
        diagnose: Callable[[], str] | None = None,
        nudge_s: float | None = None,
        supervision: Supervision | None = None,
    ) -> None:
        """`diagnose`: returns why the host is gone, or "" (the lab knows why).

        `nudge_s`: while the host waits for an answer, it sends an empty message every so many seconds,
        which wakes a remote end that missed an interrupt. Never during a background command (`start`),
        which may be a measurement.

        `supervision`: every command ends when the connection does. Raises HostLost.
        """
        self.name = name
        self.supervision = supervision
        self._nudge_s = nudge_s
        self._diagnose = diagnose or (lambda: "")
        try:
            # For an interactive shell; to be used in the SSH loop's thread only.
            self.connection = call(asyncio.wait_for(connector(), deadline_s))
        except TimeoutError:
            raise HostLost(
                f"{name}: no SSH connection within {deadline_s:g} s",
                "is the machine up, and much busier than usual?",
            ) from None
        except asyncssh.HostKeyNotVerifiable as error:
            raise HostLost(
                f"{name}: its SSH host key is not the expected one ({error})",
                "another machine may be answering; find out before you continue",
            ) from error
        except BROKEN as error:
            raise self.connection_lost((), error) from error

    def _run(self, argv: tuple[str, ...], deadline_s: float, stdin: bytes, limit_bytes: int) -> CommandResult:
        process = self._open(argv, stdin, self.supervision, kept_outputs(limit_bytes))
        return process.wait(deadline_s, self._nudge_s)

    def start(self, argv: Sequence[str], output: Path | None = None, stdin: bytes = b"") -> SshProcess:
        out, err = kept_outputs()
        try:
            out = SavedOutput(output) if output else out
        except OSError as error:
            raise HostError(f"{output}: {error.strerror}", "it is to get what a command prints") from error
        try:
            return self._open(checked_argv(argv), stdin, self.supervision, (out, err))
        except BaseException:
            out.close()
            raise

    def _open(
        self,
        argv: tuple[str, ...],
        stdin: bytes,
        supervision: Supervision | None,
        outputs: tuple[Kept, Kept],
        whole: bool = False,
    ) -> SshProcess:
        async def open_channel() -> asyncssh.SSHClientProcess[bytes]:
            command = supervision.wrap(argv, len(stdin)) if supervision else shlex.join(argv)
            process = await self.connection.create_process(command, encoding=None)
            if stdin:
                process.stdin.write(stdin)
            if not supervision:
                process.stdin.write_eof()
            return process

        try:
            process = call(asyncio.wait_for(self._nudging(open_channel()), _CHANNEL_DEADLINE_S))
        except (*BROKEN, TimeoutError) as error:
            raise self.connection_lost(argv, error) from error
        return SshProcess(self, argv, process, supervision, outputs, whole)

    def put(self, content: bytes, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S) -> None:
        self.run(("sh", "-c", 'umask 077 && cat >"$1"', "sh", path), stdin=content, deadline_s=deadline_s)

    def get(
        self, path: str, *, deadline_s: float = DEFAULT_DEADLINE_S, limit_bytes: int = OUTPUT_LIMIT_BYTES
    ) -> bytes:
        code, out, err = self.output(("cat", "--", path), deadline_s=deadline_s, limit_bytes=limit_bytes)
        if code != 0:
            raise HostError(f"on {self.name}: cannot read {path}: {decode(err).strip()}")
        return out

    def _output(self, argv: tuple[str, ...], deadline_s: float, limit_bytes: int) -> tuple[int, Kept, Kept]:
        """The command is not supervised."""
        process = self._open(argv, b"", None, kept_outputs(limit_bytes), whole=True)
        return process.collect(deadline_s, self._nudge_s)

    async def _nudging(self, awaitable: Awaitable[T]) -> T:
        """The awaitable's result; sends nudges while it waits."""
        waiting = asyncio.ensure_future(awaitable)
        try:
            while not (await asyncio.wait((waiting,), timeout=self._nudge_s))[0]:
                self.connection.send_debug(_NUDGE_TEXT)
            return await waiting
        finally:
            waiting.cancel()

    def nudge(self) -> None:
        _loop().call_soon_threadsafe(self.connection.send_debug, _NUDGE_TEXT)

    def connection_lost(self, argv: Sequence[str], error: BaseException | None) -> HostLost:
        """The error for a connection that broke or could not be opened."""
        command = shlex.join(argv)
        shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}..."
        during = f" during `{' '.join(shown.split())}`" if argv else ""
        cause = self._diagnose() or (str(error) if error else "")
        return HostLost(
            f"{self.name}: the connection broke{during}" + (f": {cause}" if cause else ""),
            "how far the command came is not known" if argv else "",
        )

    def close(self) -> None:
        async def end() -> None:
            self.connection.close()
            try:
                await asyncio.wait_for(self.connection.wait_closed(), _CLOSE_GRACE_S)
            except TimeoutError:
                self.connection.abort()

        call(end())
