"""What can go wrong with a run, for real: each fault has its exit code, its words, and no leftovers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kit.core.clock import Clock
from kit.core.errors import HostError
from kit.core.progress import Progress
from kit.hosts.base import HostLost
from kit.lab.guest import RunningLab, open_host, probe_real_clock, runtime_dir
from kit.lab.image.image import Image
from kit.lab.qemu import LabSpec
from kit.lab.warm import open_lab
from kit.recovery.journal import read_journal
from tests.lab.conftest import finish, hsp
from tests.lab.workloads import write_small

PROTECTS = ("kit/recovery", "kit/hosts", "kit/lab")
pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(900, func_only=True)]


def qemus_of(state: Path) -> list[int]:
    """Processes that work in the state directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd").startswith(os.fspath(state)):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def states() -> set[Path]:
    return set(runtime_dir().glob("lab-*"))


def wait_for(condition: Callable[[], object], deadline_s: float, what: str) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not within {deadline_s} s: {what}"
        time.sleep(0.2)


def start_run(*words: str, results: Path) -> tuple[subprocess.Popen[str], Callable[[], Path]]:
    """Start `hsp run WORDS`; returns its process, and what finds its lab's state directory.

    The first directory may be that of a guest that is booted and saved: ask when the run's own is there.
    """
    before = states()
    process = hsp("run", *words, results=results)
    wait_for(lambda: states() - before or process.poll() is not None, 120, "the lab's state directory")

    def state() -> Path:
        (found,) = states() - before
        return found

    return process, state


def test_fio_failing_in_a_phase_is_unknown_and_keeps_the_data(image: Image, tmp_path: Path) -> None:
    workload = write_small(tmp_path, ("good", "write", "300ms"), ("bad", "broken", "300ms"))
    done = finish(hsp("run", str(workload), results=tmp_path), tmp_path, "small")
    assert done.code == 3, done.stderr
    assert done.summary["verdict"] == "unknown"
    assert any("fio failed" in reason for reason in done.summary["reasons"])
    assert done.row("slog")["count"] > 50
    assert [phase["name"] for phase in done.manifest["phases"]] == ["good", "bad"]


def test_one_ctrl_c_stops_the_load_keeps_the_data_and_cleans_up(image: Image, tmp_path: Path) -> None:
    workload = write_small(tmp_path, ("good", "write", "300ms"), ("long", "write", "600s"))
    process, state = start_run(str(workload), results=tmp_path)
    journal = tmp_path / "small" / "latest" / "journal.jsonl"
    commands = journal.parent / "raw" / "commands.jsonl"
    wait_for(lambda: commands.exists() and "/fio0-long/" in commands.read_text(), 600, "the second load")
    directory = state()
    with open_host(directory, 1) as guest:
        begun = "until pgrep -x fio >/dev/null; do sleep 0.1; done; sleep 1"
        guest.run(["sh", "-c", begun], deadline_s=300)
    process.send_signal(signal.SIGINT)
    done = finish(process, tmp_path, "small")
    assert done.code == 130, done.stderr
    assert done.summary["verdict"] == "unknown"
    assert any("interrupted" in reason for reason in done.summary["reasons"])
    phases = {phase["name"]: phase for phase in done.manifest["phases"]}
    assert phases["good"]["server_ios"] > 50
    assert phases["long"]["server_ios"] > 0
    assert "undo: destroy pool" in journal.read_text()
    assert not directory.exists()
    assert not qemus_of(directory)


def test_a_lab_that_is_killed_is_said_in_one_line_and_leaves_nothing(image: Image, tmp_path: Path) -> None:
    """What lived only in the lab is gone with it: nothing is "not undone", and nothing is to be cleaned."""
    workload = write_small(tmp_path, ("long", "write", "600s"))
    process, state = start_run(str(workload), results=tmp_path)
    commands = tmp_path / "small" / "latest" / "raw" / "commands.jsonl"
    wait_for(lambda: commands.exists() and "/fio0-long/" in commands.read_text(), 600, "the load")
    os.kill(json.loads((state() / "lab.json").read_text())["qemu_pid"], signal.SIGKILL)
    done = finish(process, tmp_path, "small")
    assert done.code == 5, done.stderr
    assert done.stderr.count("hsp: error: the lab ended during the run: QEMU ended with -9") == 1
    for unwanted in ("not undone", "connection broke", "sh -c", "sudo"):
        assert unwanted not in done.stderr, done.stderr
    assert (
        done.summary["verdict"] == "unknown" and read_journal(done.run.resolve() / "journal.jsonl").finished
    )
    cleaned = hsp("clean", results=tmp_path)
    assert "nothing to clean up" in cleaned.communicate(timeout=120)[1] and cleaned.returncode == 0


def test_kill_9_of_the_cli_leaves_nothing(image: Image, tmp_path: Path) -> None:
    """While the guest comes up. What a run leaves on hosts that outlive it: test_struck."""
    workload = write_small(tmp_path, ("good", "write", "300ms"))
    process, state = start_run(str(workload), results=tmp_path)
    wait_for(lambda: qemus_of(state()), 120, "QEMU")
    directory = state()
    process.kill()
    process.communicate()
    wait_for(lambda: not directory.exists() and not qemus_of(directory), 15, "QEMU and its state gone")


def test_a_guest_that_does_not_come_up_is_named_and_ended(image: Image) -> None:
    # A root disk that is not there: the kernel's own words must reach the user.
    spec = LabSpec(image.path, Clock("virtual", 4), 1024, ("rdinit=/nothing", "root=/dev/null"))
    with RunningLab(spec) as lab:
        state = lab.state
        assert qemus_of(state)
        for deadline_s, text in ((0, "did not come up within 0 s"), (None, "kernel panic")):
            with pytest.raises(HostError, match=text) as caught:
                lab.wait_ready(deadline_s)
            assert caught.value.exit_code == 5
    assert not state.exists()
    assert not qemus_of(state)


def test_a_panic_under_a_command_is_named(image: Image) -> None:
    with open_lab(LabSpec(image.path, Clock("virtual", 4), 2048), image, Progress(quiet=True)) as lab:
        lab.wait_ready()
        with lab.host() as guest, pytest.raises(HostLost, match="guest kernel panic: sysrq"):
            guest.run(["sh", "-c", "echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger; sleep 60"])


def test_kvm_counts_only_when_a_guest_has_booted(image: Image) -> None:
    """Whatever this machine has: either the probe says why not, or a guest really boots with it."""
    spec = LabSpec(image.path, Clock("virtual", 4), 1024)
    reason = probe_real_clock(spec, deadline_s=20)
    if reason:
        assert "kvm" in reason.lower() or "did not come up" in reason
        return
    with RunningLab(replace(spec, clock=Clock("real"))) as lab:
        lab.wait_ready(30)
        with lab.host() as guest:
            source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
            assert guest.run(["cat", source]).stdout.strip() in ("kvm-clock", "tsc")
