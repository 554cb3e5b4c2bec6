"""Signals that end a command: Ctrl-C (SIGINT), kill (SIGTERM), and a closed terminal (SIGHUP).

All three raise KeyboardInterrupt, so a run is undone whichever comes. A signal that was ignored when the
command began (`nohup`, a background job of a shell script) stays ignored.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A terminal that closes sends several: the kernel, and then the shell to its jobs. A second KeyboardInterrupt
# while the first is on its way could skip the cleanup.
_ONE_EVENT_S = 1.0


def interrupt_at_end() -> None:
    """From now on these signals raise KeyboardInterrupt; those within a second of one that did, nothing."""
    raised_s = float("-inf")

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal raised_s
        now_s = time.monotonic()
        if now_s - raised_s >= _ONE_EVENT_S:
            raised_s = now_s
            raise KeyboardInterrupt(*([] if number == signal.SIGINT else [signal.Signals(number).name]))

    for number in _not_ignored():
        signal.signal(number, handle)


def interrupt_waits() -> None:
    """After the imports of a command: from now on Ctrl-C ends waits without a deadline, too.

    polars puts a handler of its own before that of Python, with which system calls go on (SA_RESTART).
    """
    if signal.SIGINT in _not_ignored():
        signal.siginterrupt(signal.SIGINT, True)


@contextlib.contextmanager
def ignore_interrupts(note: Callable[[str], None]) -> Iterator[None]:
    """During the block these signals only write a note. Has no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        note("cleaning up; Ctrl-C is ignored until that is done (after kill -9, run `hsp clean`)")

    before = {number: signal.signal(number, handle) for number in _not_ignored()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _not_ignored() -> list[signal.Signals]:
    return [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
