"""kit.core.signals: kill and a closed terminal are Ctrl-C, and none of them ends the cleanup."""

from __future__ import annotations

import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kit.core.signals import ENDING, ignore_interrupts, interrupt_at_end
from tests.kit.hosts.conftest import until

pytestmark = pytest.mark.any_python

ROOT = Path(__file__).parents[3]

# Does as a run does, beside what it undoes: a file. The terminal is gone when it writes.
RUN = """
import sys, time
from pathlib import Path
from kit.cli import main
from kit.core.output import say
from kit.core.progress import Progress
from kit.core.signals import ignore_interrupts

def work(**_):
    made, progress = Path(sys.argv[1]), Progress()
    try:
        with progress.step("measuring"):
            made.touch()
            time.sleep(600)
    except KeyboardInterrupt:
        progress.note("interrupted")
    finally:
        with ignore_interrupts(progress.note), progress.step("cleaning up"):
            made.with_name("cleaning").touch()
            while not made.with_name("go-on").exists():
                time.sleep(0.02)
            say("removing")
            made.with_name("undone").touch()

main.app = work
main.main()
"""


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_terminal_that_closes_twice_over_does_not_stop_the_cleanup(tmp_path: Path) -> None:
    """SIGHUP comes from the kernel and from the shell, then again; each write to the terminal fails."""
    near, far = pty.openpty()
    argv = [sys.executable, "-c", RUN, os.fspath(tmp_path / "made")]
    run = subprocess.Popen(argv, cwd=ROOT, stdin=far, stdout=far, stderr=far, start_new_session=True)
    os.close(far)
    assert until((tmp_path / "made").exists)
    os.close(near)
    for _ in range(2):
        run.send_signal(signal.SIGHUP)
    assert until((tmp_path / "cleaning").exists)
    run.send_signal(signal.SIGHUP)
    (tmp_path / "go-on").touch()
    assert run.wait(60) == 0
    assert (tmp_path / "undone").exists()


@pytest.mark.parametrize(("number", "by"), [(signal.SIGTERM, " (SIGTERM)"), (signal.SIGHUP, " (SIGHUP)")])
def test_a_command_that_is_ended_says_interrupted(tmp_path: Path, number: signal.Signals, by: str) -> None:
    """While it waits for a host, as while the lab boots."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"ssh://root@127.0.0.1:{silent.getsockname()[1]}"
        testbed = tmp_path / "t.toml"
        testbed.write_text(
            f'name = "t"\n[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "{host}"\n'
        )
        argv = [sys.executable, "-m", "kit.cli", "host", "check", "--testbed", os.fspath(testbed)]
        doctor = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        silent.settimeout(60)
        connection, _ = silent.accept()
        with connection:
            doctor.send_signal(number)
            _, err = doctor.communicate(timeout=60)
    assert doctor.returncode == 130
    assert f"hsp: interrupted{by}\n" in err and "Traceback" not in err and "failed" not in err


@pytest.mark.usefixtures("handlers")
def test_what_nohup_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupt_at_end()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    with ignore_interrupts(lambda text: None):
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", ENDING)
def test_one_event_is_one_interrupt(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("kit.core.signals.time", SimpleNamespace(monotonic=lambda: now_s))
    interrupt_at_end()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)
    for again in ENDING:
        os.kill(os.getpid(), again)
    now_s += 1.0
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", ENDING)
def test_interrupts_are_ignored_with_a_note(number: signal.Signals) -> None:
    messages: list[str] = []
    before = signal.signal(number, signal.default_int_handler)
    try:
        with ignore_interrupts(messages.append):
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert len(messages) == 2 and "hsp clean" in messages[0]


def test_interrupts_work_again_afterwards() -> None:
    # Who is started in the background by a shell ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with ignore_interrupts(lambda text: None):
            pass
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_another_thread_nothing_is_changed() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work(**_) -> None:
        with ignore_interrupts(lambda text: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
