"""kit.hosts.local: arguments arrive unchanged, and the whole process group is ended."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.errors import HostError
from kit.hosts import local
from kit.hosts.base import CommandFailed, DeadlineExceeded
from kit.hosts.local import LocalHost
from tests.process import ROOT

from .conftest import running, until
from .hostile_arguments import check_hostile_arguments


@pytest.fixture
def host() -> Iterator[LocalHost]:
    with LocalHost() as opened:
        yield opened


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_KILL_GRACE_S", 0.3)


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended but was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- Results ---


def test_output_and_status(host: LocalHost) -> None:
    result = host.run(["sh", "-c", "printf out; printf err >&2; exit 3"], check=False)
    assert (result.host, result.returncode, result.stdout, result.stderr) == ("local", 3, "out", "err")
    assert host.run(["sh", "-c", "kill -9 $$"], check=False).returncode == -9


def test_a_failed_command_says_what_and_why(host: LocalHost) -> None:
    with pytest.raises(CommandFailed) as caught:
        host.run(["sh", "-c", "echo 'no space' >&2; exit 3"])
    assert caught.value.exit_code == 5
    assert caught.value.result.returncode == 3
    message = caught.value.message
    assert "on local:" in message and "ended with 3: no space" in message
    assert shlex.join(["sh", "-c", "echo 'no space' >&2; exit 3"]) in message


@pytest.mark.parametrize("command", ["hsp-there-is-no-such-command", "/nowhere/x", "/etc/passwd", "/"])
def test_a_missing_program_is_an_error(host: LocalHost, command: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        host.run([command, "x"])
    assert caught.value.result.returncode == 127
    assert caught.value.result.argv == (command, "x")
    assert command in caught.value.hint
    assert host.run([command], check=False).returncode == 127


def test_starting_a_missing_program(host: LocalHost) -> None:
    with pytest.raises(HostError):
        host.start(["hsp-there-is-no-such-command"])


def test_bytes_that_are_no_text_are_replaced(host: LocalHost) -> None:
    assert host.run(["printf", r"a\377b"]).stdout == "a\ufffdb"


def test_input_of_any_size_and_none(host: LocalHost) -> None:
    content = bytes(range(256)) * 4096
    assert host.run(["sha256sum"], stdin=content).stdout != host.run(["sha256sum"]).stdout
    assert host.run(["wc", "-c"], stdin=content).stdout.strip() == str(len(content))
    assert host.run(["true"], stdin=content).returncode == 0  # `true` does not read it
    assert host.run(["cat"]).stdout == ""  # does not wait for a terminal


def test_the_locale_is_fixed_and_the_environment_added_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("HSP_OUTER", "1")
    out = LocalHost(env={"HSP_INNER": "2"}).run(["env"]).stdout.splitlines()
    assert {"LC_ALL=C.UTF-8", "HSP_OUTER=1", "HSP_INNER=2"} <= set(out)


def test_output_into_a_file_and_another_directory(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        result = LocalHost(output_file=log, cwd=tmp_path).run(["sh", "-c", "pwd; echo err >&2"])
    assert result.stdout == result.stderr == ""
    assert (tmp_path / "log").read_text() == f"{tmp_path}\nerr\n"


# --- Arguments ---


def test_every_argument_arrives_as_it_is(host: LocalHost, tmp_path: Path) -> None:
    check_hostile_arguments(host, tmp_path)


@pytest.mark.parametrize("argv", ["ls -l", "", [], ["a\0b"], ["ls", 5], ["ls", None], [b"ls"]])
def test_an_invalid_argv_is_refused(host: LocalHost, argv: Any) -> None:
    with pytest.raises(ValueError, match="argument"):
        host.run(argv)
    with pytest.raises(ValueError, match="argument"):
        host.start(argv)


# --- Deadlines ---


def test_a_command_is_stopped_at_its_deadline(host: LocalHost) -> None:
    with pytest.raises(DeadlineExceeded, match=r"did not end within 0\.2 s") as caught:
        host.run(["sleep", "600"], deadline_s=0.2)
    assert caught.value.exit_code == 5


def stopped_once_begun(host: LocalHost, script: str, pid_file: Path) -> int:
    """The process id that the script writes, after the deadline of its command."""
    process = host.start(["sh", "-c", script])
    assert until(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))
    with pytest.raises(DeadlineExceeded, match=r"did not end within 0\.1 s"):
        process.wait(0.1)
    return int(pid_file.read_text())


def test_a_child_that_ignores_term_is_killed(
    host: LocalHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time enough for its trap, on a busy machine as well.
    monkeypatch.setattr(local, "_KILL_GRACE_S", 2.0)
    pid_file = tmp_path / "pid"
    script = (
        f"trap 'echo TERM >> {tmp_path}/term' TERM INT; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    )
    assert not alive(stopped_once_begun(host, script, pid_file))
    assert (tmp_path / "term").exists()  # TERM came first


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize(
    "outer",
    [
        "sh -c {inner} & wait",
        # The parent ends on TERM; the grandchild holds no pipe that is waited for.
        "sh -c {inner} >/dev/null 2>&1 </dev/null & trap 'exit 0' TERM; wait; wait",
    ],
)
def test_a_grandchild_is_killed_too(host: LocalHost, tmp_path: Path, outer: str) -> None:
    pid_file = tmp_path / "pid"
    inner = f"trap '' TERM INT HUP; echo $$ > {pid_file}; while :; do sleep 0.05; done"
    pid = stopped_once_begun(host, outer.format(inner=shlex.quote(inner)), pid_file)
    assert until(lambda: not alive(pid))


def test_the_kits_own_group_is_not_touched(host: LocalHost) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with pytest.raises(DeadlineExceeded):
            host.run(["sleep", "600"], deadline_s=0.1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == []


def test_interrupted_waiting_ends_the_command(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    process = host.start(["sleep", "600"])
    original = process._exchange

    def interrupted(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(process, "_exchange", original)
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "_exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.wait(60)
    assert not process.running()


# --- Started commands ---


@pytest.mark.parametrize(("name", "status"), [("INT", -2), ("TERM", -15), ("KILL", -9)])
def test_a_background_command_runs_until_it_is_stopped(
    host: LocalHost, tmp_path: Path, name: str, status: int
) -> None:
    ready = tmp_path / "ready"
    program = "import pathlib, signal, sys, time; signal.signal(2, signal.SIG_DFL)"
    program += "; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    process = host.start([sys.executable, "-Sc", program, str(ready)])
    assert until(ready.exists)
    assert process.running()
    assert process.stop(60, name).returncode == status
    assert not process.running()


def test_the_output_of_a_started_command_is_kept(host: LocalHost) -> None:
    process = host.start(["sh", "-c", "echo out; echo err >&2; exit 4"])
    result = process.wait(60)
    assert (result.returncode, result.stdout, result.stderr) == (4, "out\n", "err\n")
    assert not process.running()


def test_stopping_what_ended_gives_its_result(host: LocalHost) -> None:
    process = host.start(["sh", "-c", "exit 4"])
    assert until(lambda: not process.running())
    assert process.stop(60).returncode == 4


@pytest.mark.usefixtures("short_grace")
def test_a_command_that_does_not_stop_is_killed(host: LocalHost, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process = host.start(["sh", "-c", f"trap '' INT TERM; touch {ready}; while :; do sleep 0.05; done"])
    assert until(ready.exists)
    with pytest.raises(DeadlineExceeded):
        process.stop(0.2)
    assert not process.running()


@pytest.mark.usefixtures("short_grace")
def test_no_pipe_stays_open_if_another_process_holds_its_end(host: LocalHost, mark: str) -> None:
    """A process in its own session does not belong to the group that is ended, and keeps the output open."""
    process = host.start(["sh", "-c", 'setsid sleep "$1" & wait', "sh", mark])
    assert until(lambda: [pid for pid in running(mark) if os.getsid(pid) == pid])
    with pytest.raises(DeadlineExceeded):
        process.wait(0.1)
    pipes = [process._child.stdin, process._child.stdout, process._child.stderr]
    assert [pipe is not None and pipe.closed for pipe in pipes] == [True] * 3


# --- Files ---


@given(st.binary(max_size=2000))
def test_files_go_there_and_back(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = str(tmp_path_factory.getbasetemp() / "a file; $(x)\n")
    LocalHost().put(content, path)
    assert LocalHost().get(path) == content


@pytest.mark.parametrize("exists", [True, False])
def test_a_file_is_for_its_owner_only(host: LocalHost, tmp_path: Path, exists: bool) -> None:
    file = tmp_path / "f"
    before = os.umask(0)
    try:
        if exists:
            file.write_bytes(b"older and longer")
        host.put(b"x", str(file))
    finally:
        os.umask(before)
    assert file.read_bytes() == b"x"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_missing_file_is_a_host_error(host: LocalHost, tmp_path: Path) -> None:
    with pytest.raises(HostError):
        host.get(str(tmp_path / "none"))


def test_output_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\0")
    assert LocalHost().output(["cat", str(tmp_path / "x")]) == (0, b"\xff\0", b"")
    assert LocalHost().output(["sh", "-c", "echo e >&2; exit 3"]) == (3, b"", b"e\n")
    assert LocalHost().output(["no-such-program"])[0] == 127


@pytest.mark.usefixtures("short_grace")
def test_commands_of_root_are_signalled_with_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: int, number: int) -> None:
        raise PermissionError

    # `env` in sudo's place: it runs the kill that follows.
    process = LocalHost(killer=("env",)).start(["sleep", "600"])
    monkeypatch.setattr(os, "killpg", refuse)
    assert process.stop(60, "INT").returncode == -2
    process = LocalHost(killer=("env",)).start(["sh", "-c", "trap '' TERM; sleep 600 & sleep 600"])
    with pytest.raises(DeadlineExceeded):
        process.wait(0.2)


def test_output_goes_to_a_file_as_it_comes(host: LocalHost, tmp_path: Path) -> None:
    output = tmp_path / "output"
    process = host.start(["sh", "-c", "echo one; read -r line; echo two; echo wrong >&2"], output)
    assert until(lambda: output.read_text() == "one\n") and process.running()
    result = process.wait(60, b"line\n")
    assert (output.read_text(), result.stdout, result.stderr) == ("one\ntwo\n", "", "wrong\n")


def test_output_does_not_replace_a_file(host: LocalHost, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("kept")
    with pytest.raises(CommandFailed):
        host.start(["echo", "one"], output)
    assert output.read_text() == "kept"


# --- The kit is killed -----------------------------------------------------------------------------------

_KIT = """\
import sys
from kit.hosts import file_settings, local
from kit.hosts.local import LocalHost
host, how, word = LocalHost(), sys.argv[1], sys.argv[2:]
file_settings.run_own(host, word) if how == "own" else host.run(word)
print(local._watcher._process.pid, flush=True)
host.run(["sleep", "1000"], deadline_s=1000)
"""
_WRITE = 'while :; do echo >>"$1"; sleep 0.02; done'
# Started in the background: in the group of the command, in a session of its own, and of no parent any more.
_LEAVING = {
    "in the group": f"(trap '' TERM; {_WRITE}) >/dev/null 2>&1 &",
    "in its own session": f'setsid sh -c \'trap "" TERM; {_WRITE}\' sh "$1" >/dev/null 2>&1 &',
    "a daemon": f"(setsid sh -c '{_WRITE}' sh \"$1\" >/dev/null 2>&1 &) &",
}


def _kit_that_is_killed(tmp_path: Path, how: str, script: str) -> Path:
    """What the script starts adds lines to the file."""
    file = tmp_path / "lines"
    argv = [sys.executable, "-c", _KIT, how, "sh", "-c", script, "sh", str(file)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE) as kit:
        assert kit.stdout
        watcher = int(kit.stdout.readline())
        until(file.exists)
        kit.kill()
    until(lambda: not alive(watcher))
    return file


def _writers(file: Path) -> list[int]:
    """Without their children, which have their command line until they are another program."""
    found: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(file) in place.read_bytes().split(b"\0"):
                parent = (place.parent / "stat").read_text().rpartition(")")[2].split()[1]
                found[int(place.parent.name)] = int(parent)
    return [pid for pid, parent in found.items() if parent not in found]


@pytest.mark.parametrize("where", _LEAVING)
def test_no_command_outlives_the_kit_that_is_killed(tmp_path: Path, where: str) -> None:
    assert _writers(_kit_that_is_killed(tmp_path, "run", _LEAVING[where])) == []


def test_what_a_command_of_the_users_has_started_is_not_ended(tmp_path: Path) -> None:
    """Such as the machine whose power it turns on."""
    file = _kit_that_is_killed(tmp_path, "own", _LEAVING["a daemon"])
    (writer,) = _writers(file)
    os.kill(writer, signal.SIGKILL)
