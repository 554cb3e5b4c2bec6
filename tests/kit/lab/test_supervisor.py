"""A lab that outlives its CLI holds nothing of it; it counts as up exactly while its supervisor lives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.lab import supervisor
from kit.lab.guest import _Supervisor, running_labs
from tests.kit.hosts.conftest import until
from tests.process import ROOT

# The supervisor is real; what it supervises has nothing to say.
UP = """
from kit.lab.guest import _Supervisor

lab = _Supervisor(files={}, argv=["sleep", "120"], info={})
print(lab.state, flush=True)
lab.detach()
"""


def test_who_reads_the_output_of_lab_up_sees_its_end(tmp_path: Path) -> None:
    """Standard error goes into a pipe, as in `hsp lab up 2>&1 | tee log`."""
    tmp_path.chmod(0o700)
    up = subprocess.Popen(
        [sys.executable, "-c", UP],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT), "XDG_RUNTIME_DIR": os.fspath(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = up.communicate(timeout=60)
        assert up.returncode == 0, output
        assert (Path(output.strip()) / "lab.json").exists()
    finally:
        for file in tmp_path.glob("hsp/lab-*/lab.json"):
            os.kill(json.loads(file.read_text())["supervisor_pid"], signal.SIGTERM)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Supervisor]:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.fspath(tmp_path))
    lab = _Supervisor(files={"client.key": b"secret"}, argv=["sleep", "120"], info={})
    yield lab
    lab.close()


def states() -> list[str]:
    return [lab["state"] for lab in running_labs()]


# What `hsp list labs` does first, in a process that sees /proc for the first time.
LOOK = "from kit.lab.guest import running_labs; print([lab['state'] for lab in running_labs()])"
FRESH_PROC = ["unshare", "--mount", "sh", "-c", 'mount -t proc proc /proc && exec "$@"', "sh"]
OTHER_PIDS = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]


@pytest.mark.parametrize("apart", [FRESH_PROC, OTHER_PIDS], ids=["fresh-proc", "another-pid-namespace"])
def test_a_live_lab_is_up_however_proc_looks(lab: _Supervisor, apart: list[str]) -> None:
    """An inode of /proc is as old as its first look-up, not as the process."""
    if subprocess.run([*apart, "true"], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("this user must not make such namespaces")
    # As if it had been up for long.
    os.utime(lab.state, (0, 0))
    look = subprocess.run(
        [*apart, sys.executable, "-c", LOOK],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert look.stdout.strip() == str([os.fspath(lab.state)])
    assert (lab.state / "client.key").read_bytes() == b"secret"


def test_lab_down_signals_no_process_of_another_pid_namespace(lab: _Supervisor) -> None:
    """The number of the supervisor is another process's there, or nobody's."""
    if subprocess.run([*OTHER_PIDS, "true"], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("this user must not make such namespaces")
    (lab.state / "detached").touch()
    down = subprocess.run(
        [*OTHER_PIDS, sys.executable, "-m", "kit.cli", "lab", "down"],
        env={**os.environ, "PYTHONPATH": os.fspath(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert down.returncode == 5, down.stderr
    assert f"{lab.state} is up, but its process" in down.stderr and "another container" in down.stderr
    assert states() == [os.fspath(lab.state)]


def test_a_live_lab_is_up_whatever_its_times_are(lab: _Supervisor) -> None:
    os.utime(lab.state, (0, 0))
    assert states() == [os.fspath(lab.state)]
    # Unreadable, because the disk was full: nothing tells what it is, but it is alive.
    (lab.state / "lab.json").write_text("")
    os.utime(lab.state, (0, 0))
    assert states() == []
    assert (lab.state / "client.key").exists()


def test_a_dead_lab_is_removed_though_its_process_id_is_another_supervisors(lab: _Supervisor) -> None:
    dead = _Supervisor(files={}, argv=["sleep", "120"], info={})
    described = json.loads((dead.state / "lab.json").read_text())
    os.kill(described["supervisor_pid"], signal.SIGKILL)
    dead.close()
    described["supervisor_pid"] = json.loads((lab.state / "lab.json").read_text())["supervisor_pid"]
    (dead.state / "lab.json").write_text(json.dumps(described))
    assert states() == [os.fspath(lab.state)]
    assert not dead.state.exists()


def test_a_lab_of_a_version_without_locks_is_up_while_its_process_is_there(lab: _Supervisor) -> None:
    (lab.state / "lock").unlink()
    os.utime(lab.state, (0, 0))
    assert states() == [os.fspath(lab.state)]
    described = json.loads((lab.state / "lab.json").read_text())
    (lab.state / "lab.json").write_text(json.dumps(described | {"supervisor_pid": os.getpid()}))
    assert states() == []
    assert not lab.state.exists()


def test_a_state_that_is_just_being_made_stays(lab: _Supervisor) -> None:
    young = lab.state.with_name("lab-young")
    young.mkdir()
    assert states() == [os.fspath(lab.state)]
    assert young.exists()
    os.utime(young, (0, 0))
    assert states() == [os.fspath(lab.state)]
    assert not young.exists()


# A lab whose QEMU runs and whose guest never comes up.
BOOT = """
import sys
from pathlib import Path

from kit.cli import lab, main
from kit.lab.guest import RunningLab
from kit.lab.image.image import Image

lab.build = lambda inputs, progress: Image(Path("/nowhere"), {})
lab.warm.open_lab = lambda spec, image, progress: RunningLab(spec)
wait_ready = RunningLab.wait_ready
RunningLab.wait_ready = lambda up: (print("waiting", flush=True), wait_ready(up))
sys.argv = ["hsp", "lab", "up"]
main.main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_boot_that_is_ended_says_interrupted_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    tmp_path.chmod(0o700)
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text("#!/bin/sh\nexec sleep 120\n")
    qemu.chmod(0o755)
    up = subprocess.Popen(
        [sys.executable, "-c", BOOT],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": os.fspath(ROOT),
            "XDG_RUNTIME_DIR": os.fspath(tmp_path),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert up.stdout and up.stdout.readline() == "waiting\n"
    (file,) = tmp_path.glob("hsp/lab-*/lab.json")
    pid = json.loads(file.read_text())["qemu_pid"]
    up.send_signal(number)
    _, err = up.communicate(timeout=60)
    by = "" if number == signal.SIGINT else f" ({number.name})"
    assert up.returncode == 130
    assert err.endswith(f"hsp: interrupted{by}\n") and "waiting for the guest: interrupted after" in err
    assert "failed" not in err and "Traceback" not in err
    assert not Path(f"/proc/{pid}").exists() and not list(tmp_path.glob("hsp/lab-*"))


# Of several threads, as QEMU is.
THREADS = """
import threading
import time

for _ in range(3):
    threading.Thread(target=time.sleep, args=(120,)).start()
print("up", flush=True)
"""


def cpus_of(pid: int) -> set[frozenset[int]]:
    return {frozenset(os.sched_getaffinity(int(task))) for task in os.listdir(f"/proc/{pid}/task")}


def qemu_of(lab: _Supervisor) -> int:
    return int(json.loads((lab.state / "lab.json").read_text())["qemu_pid"])


def test_the_threads_of_a_guest_with_a_virtual_clock_have_one_cpu(lab: _Supervisor) -> None:
    """Otherwise its clock leaps while the others are late: docs/decisions/0031."""
    pinned = _Supervisor(files={}, argv=[sys.executable, "-c", THREADS], info={}, one_cpu=True)
    try:
        assert until(lambda: "up" in (pinned.state / "qemu.log").read_text())
        pid = qemu_of(pinned)
        assert len(os.listdir(f"/proc/{pid}/task")) == 4
        (cpus,) = cpus_of(pid)
        assert len(cpus) == 1
    finally:
        pinned.close()
    # With a real clock the CPU is the host's, and has its barriers.
    assert cpus_of(qemu_of(lab)) == {frozenset(os.sched_getaffinity(0))}


def test_a_guest_moves_to_a_cpu_with_fewer_and_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("this machine has one CPU")
    here, there = cpus[:2]
    child = subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout and child.stdout.readline() == "up\n"
        for task in os.listdir(f"/proc/{child.pid}/task"):
            os.sched_setaffinity(int(task), {here})
        for guests, expected in (({here: 1, there: 1}, here), ({here: 1, there: 0}, there)):
            monkeypatch.setattr(supervisor, "_guests_by_cpu", lambda but, found=guests: found)
            supervisor._balance(child.pid)
            assert cpus_of(child.pid) == {frozenset({expected})}
        state = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state in "RS", "it is not left stopped"
    finally:
        child.kill()
        child.communicate()


def test_guests_are_counted_by_their_cpu(tmp_path: Path) -> None:
    qemu = tmp_path / "qemu-system-test"
    qemu.symlink_to("/bin/sleep")
    cpu = min(os.sched_getaffinity(0))
    argv = ["taskset", "--cpu-list", str(cpu), os.fspath(qemu), "600"]
    with subprocess.Popen(argv) as child:
        try:
            assert until(lambda: Path(f"/proc/{child.pid}/comm").read_text().startswith("qemu"))
            assert supervisor._guests_by_cpu()[cpu] > supervisor._guests_by_cpu(but=child.pid)[cpu]
        finally:
            child.kill()
