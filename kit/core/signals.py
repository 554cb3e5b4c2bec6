"""Ignore Ctrl-C while a run cleans up."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def ignore_interrupts(note: Callable[[str], None]) -> Iterator[None]:
    """During the block SIGINT and SIGTERM only write a note. Has no effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        note("cleaning up; Ctrl-C is ignored until that is done (after kill -9, run `hsp clean`)")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
