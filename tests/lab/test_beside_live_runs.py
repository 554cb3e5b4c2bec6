"""`hsp clean`, and a second `hsp run`, beside a run that still goes on: nothing of it is touched.

On a host over SSH; in the lab and on an appliance: tests/kit/cli/test_beside_live_runs.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.core.errors import EXIT_SAFETY
from tests.lab.conftest import RUN_DEADLINE_S, finish, hsp
from tests.lab.hoststate import differences, state_of
from tests.lab.rig import Bed, Rig, call
from tests.lab.test_faults import wait_for
from tests.lab.workloads import write_small

PROTECTS = ("kit/recovery", "kit/devices/locks.py", "kit/hosts")
pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(1500, func_only=True)]

# Long enough that all of the commands beside it are tried while it goes on.
_LONG = ("long", "write", "12s")
_GOES_ON = "still goes on (process "


def run_of(results: Path, process: subprocess.Popen[str]) -> Path:
    """The run directory, once its load goes on."""
    latest = results / "small" / "latest"
    journal = latest / "journal.jsonl"

    def loading() -> bool:
        assert process.poll() is None, process.communicate()[1]
        return journal.exists() and '"phase long"' in journal.read_text()

    wait_for(loading, 900, "the load")
    return latest.resolve()


def clean_beside(run: Path, results: Path, process: subprocess.Popen[str]) -> None:
    """By itself and by name; nothing is written into its journal but its own steps."""
    before = (run / "journal.jsonl").read_bytes()
    for words, code in (("clean",), 0), (("clean", os.fspath(run)), EXIT_SAFETY):
        done = call([*words, "--results", os.fspath(results)])
        assert done.returncode == code and f"{_GOES_ON}{process.pid})" in done.stderr, done.stderr
    assert process.poll() is None, "it had ended before: nothing was shown"
    journal = (run / "journal.jsonl").read_bytes()
    assert journal.startswith(before)
    added = [json.loads(line) for line in journal[len(before) :].splitlines()]
    assert all("step" in entry for entry in added), added


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """It ends with the block, whatever happens."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=RUN_DEADLINE_S)


def test_on_a_host_over_ssh(rig: Rig, tmp_path: Path) -> None:
    bed = Bed(rig, tmp_path / "bed", {"data": ("vd0",), "log": ("vd1",)}, trace="none")
    pristine = state_of(rig.host)
    words = bed.run_words(write_small(bed.folder, _LONG))
    process = hsp(*words, results=bed.folder)
    with ended(process):
        run = run_of(bed.folder, process)
        before = state_of(rig.host)
        clean_beside(run, bed.folder, process)
        second = bed.hsp(*words, *bed.results)
        assert second.returncode == EXIT_SAFETY and _GOES_ON in second.stderr, second.stderr
        # Who has copied the directory is told too, also if he agrees to it.
        copy = tmp_path / "copy" / "small" / run.name
        shutil.copytree(run, copy)
        copied = bed.hsp("clean", os.fspath(copy), "--agree", run.name)
        assert copied.returncode == EXIT_SAFETY and _GOES_ON in copied.stderr, copied.stderr
        during = differences(before, state_of(rig.host))
        # Its load goes on: processes, its own directory, whose mode changes with the first phase, and the
        # input of a command that began (kit.hosts.supervision).
        own = "processes", f"files: new: /run/hsp/{run.name}", f"files: gone: /run/hsp/{run.name} d 700"
        own += ("files: gone: /tmp/tmp.",)
        assert [line for line in during if not line.startswith(own)] == []
        assert rig.host.run(["test", "-d", f"/run/hsp/{run.name}"], check=False).returncode == 0
        done = finish(process, bed.folder, "small")
    assert done.code == 0 and done.summary["verdict"] == "valid", done.stderr
    assert differences(pristine, state_of(rig.host)) == []
