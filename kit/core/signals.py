"""Ctrl-C while a run cleans up: the cleaning goes on. What is left half done helps nobody."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def held_back(tell: Callable[[str], None]) -> Iterator[None]:
    """SIGINT and SIGTERM are told about, and do nothing else, for the block. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        tell("cleaning up: this is not interrupted (kill -9 would leave it to `hsp clean`)")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
