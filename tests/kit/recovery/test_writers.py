"""Processes of an ended run that still live hold up what would give their devices free."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.core.errors import HostError, SafetyRefusal
from kit.core.progress import Progress
from kit.hosts.local import LocalHost
from kit.recovery import clean, writers
from kit.recovery.journal import Journal
from tests.fakes import Answer, ScriptedHost
from tests.kit.recovery.test_clean import DIRECTORY, LIVING, RUN, World, changes, machine, make_run
from tests.loops import loop_device

# Says that it is ready, then waits for the end of its input.
WAIT = "print('ready', flush=True); import sys; sys.stdin.read()"
MAPPED = (
    "import ctypes, os; f = os.open(sys.argv[1], os.O_RDWR); call = ctypes.CDLL(None).mmap; "
    "call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]; "
    f"call(None, 4096, 3, 1, f, 0); os.close(f); {WAIT}"
)
OPEN = f"f = open(sys.argv[1], 'rb'); {WAIT}"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_PATIENCE_S", 0.0)


@contextlib.contextmanager
def living(code: str, *words: str, **environ: str) -> Iterator[int]:
    argv = [sys.executable, "-c", f"import sys; {code}", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, env={**os.environ, **environ}) as process:
        assert process.stdout and process.stdout.readline() == b"ready\n"
        yield process.pid
        process.communicate()


def refusal(*devices: str) -> str:
    with pytest.raises(SafetyRefusal) as caught:
        writers.refuse_any(LocalHost(), RUN, devices)
    return f"{caught.value.message}; {caught.value.hint}"


def test_a_command_that_names_the_run_is_one_of_it() -> None:
    writers.refuse_any(LocalHost(), RUN, [])
    with living(WAIT, f"--output={DIRECTORY}/load.json") as pid:
        text = refusal()
        assert f"process {pid} (python" in text and f"names {DIRECTORY}" in text and f"kill {pid}" in text
    with living(WAIT, HSP_DIRECTORY=f"/mnt/hsp-{RUN}") as pid:
        assert f"process {pid} " in refusal()
    # Another run's, a shell that was there, and the run's tracer, which an undo of its own ends.
    with (
        living(WAIT, f"/run/hsp/20260102T000000Z-abcdee/x {RUN}"),
        living(WAIT, OLDPWD=DIRECTORY),
        living(WAIT, f"{DIRECTORY}/nfsd.bt"),
    ):
        writers.refuse_any(LocalHost(), RUN, [])


def test_who_has_a_device_open_or_mapped_may_write_to_it(tmp_path: Path) -> None:
    with loop_device(tmp_path) as mine, loop_device(tmp_path) as other:
        for code in (OPEN, MAPPED):
            with living(code, mine.node) as pid:
                assert f"process {pid} " in (text := refusal(str(mine.link))) and str(mine.link) in text
                writers.refuse_any(LocalHost(), RUN, [str(other.link), "/dev/disk/by-id/none"])
        writers.refuse_any(LocalHost(), RUN, [str(mine.link)])


@pytest.mark.skipif(os.geteuid() != 0, reason="/run/hsp is root's")
def test_a_file_of_the_runs_directory_is_enough() -> None:
    directory = Path(DIRECTORY)
    directory.mkdir(parents=True)
    try:
        (directory / "log").touch()
        # Opened by what has no name of the run in its command.
        code = f"f = open('/'.join(['', 'run', 'hsp', sys.argv[1], 'log'])); {WAIT}"
        with living(code, RUN) as pid:
            assert f"process {pid} " in (text := refusal()) and f"{DIRECTORY}/log open" in text
    finally:
        (directory / "log").unlink()
        directory.rmdir()


def test_what_cannot_be_told_is_refused() -> None:
    for answer in ("", "7", "[7]", "[[]]", "{}x"):
        with pytest.raises(HostError, match="cannot be told"):
            writers.refuse_any(ScriptedHost({LIVING: answer}), RUN, [])


def test_nothing_is_undone_on_a_host_where_a_writer_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, token = make_run(tmp_path)
    with Journal(run / "journal.jsonl") as journal:
        device = {"path": "/dev/disk/by-id/x", "serial": "S", "pool": "hsp-abcdef"}
        journal.on_teardown("device", "server", "remove the pool's label", **device)
    more: dict[str, Answer] = {LIVING: '[[77, "fio", "it has /dev/disk/by-id/x open"]]'}
    world = World(monkeypatch, nas=machine(token, more=more), c1=machine(token))
    done = clean.clean(run, Progress(quiet=True))
    assert changes(world.hosts["nas"]) == [] and done.undone == 0
    assert len(done.left) == 3 and "process 77 (fio)" in done.left[0].why
    asked = world.hosts["nas"].called("/usr/bin/python3")[0][-1]
    assert '"devices": ["/dev/disk/by-id/x"]' in asked
