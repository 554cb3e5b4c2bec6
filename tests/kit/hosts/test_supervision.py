"""kit.hosts.supervision: commands end with the connection, and nothing else does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.config.address import parse_address
from kit.hosts.base import DeadlineExceeded, HostLost
from kit.hosts.connect import connect
from kit.hosts.ssh import SshHost
from kit.hosts.sudo import SudoHost
from kit.hosts.supervision import Supervision

from .conftest import Sshd, abort, gone, running, sleeping, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SHELLS = [["sh"], *(([["busybox", "sh"]]) if shutil.which("busybox") else []), ["bash", "--posix"]]


@pytest.fixture
def config(sshd: Sshd, tmp_path: Path) -> Path:
    return sshd.config(tmp_path)


@pytest.fixture
def opened(config: Path) -> Iterator[Callable[..., SshHost]]:
    hosts: list[SshHost | SudoHost] = []

    def open_host(**supervision: float) -> SshHost:
        host = connect(
            parse_address("ssh://far"),
            config_path=config,
            supervision=Supervision(**supervision),  # type: ignore[arg-type]
        )
        hosts.append(host)
        return host.inner if isinstance(host, SudoHost) else host  # type: ignore[return-value]

    yield open_host
    for host in hosts:
        host.close()


FAMILY = 'sleep "$1" & sleep "$1"'
"""A command with a child that it did not wait for; both hold stdout."""
STUBBORN = 'trap \'\' TERM INT HUP; sleep "$1" & while :; do sleep "$1"; done'


# ---- the connection ends ----


@pytest.mark.parametrize("script", [FAMILY, STUBBORN])
def test_the_kit_is_killed(config: Path, mark: str, script: str) -> None:
    program = (
        "import sys; from pathlib import Path; from kit.config.address import parse_address\n"
        "from kit.hosts.supervision import Supervision\nfrom kit.hosts.connect import connect\n"
        "short = Supervision(grace_s=1)\n"
        "h = connect(parse_address('ssh://far'), config_path=Path(sys.argv[1]), supervision=short)\n"
        "h.run(['sh', '-c', sys.argv[2], 'sh', sys.argv[3]])\n"
    )
    kit = subprocess.Popen([sys.executable, "-c", program, str(config), script, mark], cwd=ROOT)
    assert until(lambda: sleeping(mark) >= 2)
    kit.kill()
    kit.wait()
    assert gone(mark)


def test_the_connection_breaks(opened: Callable[..., SshHost], mark: str) -> None:
    host, other = opened(grace_s=1), opened()
    neighbour = other.start(["sleep", mark + "7"])
    host.run(["sh", "-c", 'setsid -f sleep "$1" >/dev/null 2>&1', "sh", mark + "8"])
    process = host.start(["sh", "-c", STUBBORN, "sh", mark + "6"])
    assert until(lambda: len(running(mark + "6")) >= 3)
    abort(host)
    with pytest.raises(HostLost):
        process.wait(30)
    assert gone(mark + "6")
    assert neighbour.running() and running(mark + "7") and running(mark + "8")


def test_silence_of_the_kit_ends_a_command(opened: Callable[..., SshHost], mark: str) -> None:
    """As with a pulled cable: nothing closes, but the beats stop coming."""
    host = opened(first_beat_s=0, beat_s=3600, silence_s=1)
    assert host.run(["sleep", mark], check=False).returncode == -signal.SIGTERM
    assert gone(mark)


def test_beats_keep_a_command_alive(opened: Callable[..., SshHost]) -> None:
    host = opened(first_beat_s=0, beat_s=0.2, silence_s=5)
    assert host.run(["sh", "-c", "sleep 6; echo done"]).stdout == "done\n"


# ---- signals ----


def test_a_signal_reaches_the_whole_group(opened: Callable[..., SshHost], mark: str) -> None:
    script = 'trap "echo stopped; exit 3" INT; sleep "$1" >/dev/null 2>&1 & sleep "$1"'
    process = opened().start(["sh", "-c", script, "sh", mark])
    # A child that is not sleep yet has the shell's trap: it takes the signal, and the shell waits for it.
    assert until(lambda: sleeping(mark) >= 2)
    result = process.stop(60, "INT")
    assert (result.returncode, result.stdout) == (3, "stopped\n")
    # The shell started its child in the background, where POSIX has INT ignored: it is not ours to wait for.
    for pid in running(mark):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("name", ["INT", "TERM", "KILL"])
def test_the_signal_is_the_status(opened: Callable[..., SshHost], mark: str, name: str) -> None:
    process = opened().start(["sleep", mark])
    assert until(lambda: running(mark))
    assert process.stop(60, name).returncode == -signal.Signals[f"SIG{name}"]
    assert gone(mark)


def test_a_deadline_kills_a_command_that_ignores_signals(opened: Callable[..., SshHost], mark: str) -> None:
    process = opened().start(["sh", "-c", STUBBORN, "sh", mark])
    assert until(lambda: sleeping(mark) >= 2)
    with pytest.raises(DeadlineExceeded):
        process.wait(0.1)
    assert gone(mark)


# ---- a command that ends by itself ----


def test_nothing_of_a_short_command_stays(opened: Callable[..., SshHost], mark: str) -> None:
    opened().run(["true", mark])
    assert gone(mark)


def test_a_daemon_of_a_command_is_not_ended(opened: Callable[..., SshHost], mark: str) -> None:
    host = opened()
    host.run(["sh", "-c", 'sleep "$1" >/dev/null 2>&1 &', "sh", mark])
    host.close()
    # The watcher has the words of its command, so its own name and the mark.
    assert until(lambda: not set(running("hsp\0")) & set(running(mark)))
    assert len(running(mark)) == 1


def test_the_output_of_a_child_is_waited_for(opened: Callable[..., SshHost]) -> None:
    answer = opened().run(["sh", "-c", "(sleep 1; echo late) & echo early"])
    assert answer.stdout == "early\nlate\n"


# ---- the shell text itself, in the shells that will read it ----


def supervised(
    shell: list[str],
    argv: list[str],
    sent: bytes,
    input_bytes: int = 0,
    ready: Callable[[], object] = lambda: True,
) -> tuple[int, bytes, bytes]:
    """As sshd would run it: a session of its own, `sent` on stdin once `ready`, and no end of stdin
    before the command's."""
    words = Supervision(grace_s=1, silence_s=1).words(argv, input_bytes)
    process = subprocess.Popen(
        [*shell, *words[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin and process.stdout and process.stderr
    assert until(ready)
    process.stdin.write(sent)
    process.stdin.flush()
    guard = threading.Timer(60, process.kill)
    guard.start()
    code = process.wait()
    guard.cancel()
    process.stdin.close()
    with process.stdout, process.stderr:
        return code, process.stdout.read(), process.stderr.read()


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
class TestText:
    def test_arguments_status_and_no_input(self, shell: list[str]) -> None:
        argv = ["sh", "-c", 'cat; echo "$1|$2"; echo e >&2; exit 200', "sh", "a  b", "$(id)\n"]
        assert supervised(shell, argv, b"") == (200, b"a  b|$(id)\n\n", b"e\n")

    def test_input(self, shell: list[str]) -> None:
        assert supervised(shell, ["cat"], b"\xff\0\nbeat\n", 8)[:2] == (0, b"\xff\0\nbeat\n")

    def test_incomplete_input_does_not_start_the_command(self, shell: list[str], tmp_path: Path) -> None:
        words = Supervision().words(["touch", str(tmp_path / "x")], 8)
        done = subprocess.run(
            [*shell, *words[1:]], input=b"half", capture_output=True, start_new_session=True
        )
        assert (done.returncode, done.stderr) == (125, b"the input did not arrive whole\n")
        assert not (tmp_path / "x").exists()

    def test_a_signal_before_the_command_has_begun(self, shell: list[str], mark: str) -> None:
        assert supervised(shell, ["sleep", mark], b"INT\n")[0] == -signal.SIGINT

    def test_kill(self, shell: list[str], mark: str) -> None:
        script = "trap '' TERM INT; " + FAMILY
        argv = ["sh", "-c", script, "sh", mark]
        code, _, _ = supervised(shell, argv, b"TERM\nKILL\n", ready=lambda: sleeping(mark) >= 2)
        assert code == -signal.SIGKILL
        assert gone(mark)

    def test_silence_after_a_beat(self, shell: list[str], mark: str) -> None:
        assert supervised(shell, ["sleep", mark], b"beat\n")[0] == -signal.SIGTERM

    def test_unknown_lines_are_ignored(self, shell: list[str]) -> None:
        sent = b"$(touch /x)\n-9\nSTOP\n\nHUP INT\n"
        assert supervised(shell, ["sh", "-c", "sleep 1; echo end"], sent)[:2] == (0, b"end\n")

    def test_a_missing_program_has_exit_code_127(self, shell: list[str]) -> None:
        code, _, message = supervised(shell, ["no-such-program"], b"")
        assert code == 127 and b"no-such-program" in message
