"""kit.core.signals: Ctrl-C does not end the cleanup."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from kit.core.signals import ignore_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts_are_ignored_with_a_note(number: signal.Signals) -> None:
    messages: list[str] = []
    before = signal.getsignal(number)
    with ignore_interrupts(messages.append):
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)
    assert len(messages) == 2 and "hsp clean" in messages[0]
    assert signal.getsignal(number) is before


def test_interrupts_work_again_afterwards() -> None:
    # Who is started in the background by a shell ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ignore_interrupts(lambda text: None):
            pass
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_nothing_is_changed() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with ignore_interrupts(lambda text: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
