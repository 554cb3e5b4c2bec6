"""`hsp clean`, and a second `hsp run`, beside a run that still goes on: nothing of it is touched.

In the lab, on a host over SSH, and on an appliance, which has no lock on its server.
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

from kit.core.errors import EXIT_INTERRUPTED, EXIT_SAFETY, EXIT_UNKNOWN
from kit.lab.image.image import Image
from kit.recovery.journal import read_journal
from tests.lab.conftest import RUN_DEADLINE_S, finish, hsp
from tests.lab.hoststate import differences, state_of
from tests.lab.rig import Bed, Rig, call
from tests.lab.test_faults import start_run, states, wait_for
from tests.lab.workloads import write_small, write_testbed

PROTECTS = ("kit/recovery", "kit/devices/locks.py", "kit/hosts")
pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(1500, func_only=True)]

# Long enough that all of the commands beside it are tried while it goes on.
_LONG = ("long", "write", "20s")
_GOES_ON = "still goes on (process "
_EXPORT = "/run/hsp-test-nas"


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


def test_in_the_lab(image: Image, tmp_path: Path) -> None:
    """It said "hosts are as they were", and no run of these results could be cleaned or resumed any more."""
    workload, labs = write_small(tmp_path, ("long", "write", "600s")), states()
    # Nothing here depends on its devices, nor on which tier answers.
    testbed = write_testbed(tmp_path, memory="4GiB", trace="none")
    process, lab = start_run(os.fspath(workload), "--testbed", os.fspath(testbed), results=tmp_path)
    with ended(process):
        run = run_of(tmp_path, process)
        clean_beside(run, tmp_path, process)
        resumed = hsp("run", "--resume", os.fspath(run), results=tmp_path)
        assert _GOES_ON in resumed.communicate(timeout=RUN_DEADLINE_S)[1]
        assert resumed.returncode == EXIT_SAFETY and states() - labs == {lab}, "a second lab was booted"
        process.send_signal(signal.SIGINT)
        done = finish(process, tmp_path, "small")
    assert done.code == EXIT_INTERRUPTED and "not undone" not in done.stderr, done.stderr
    assert read_journal(run / "journal.jsonl").finished
    again = hsp("clean", results=tmp_path)
    assert "nothing to clean up" in again.communicate(timeout=RUN_DEADLINE_S)[1] and again.returncode == 0


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


@pytest.fixture
def export(rig: Rig) -> Iterator[str]:
    """An export that the kit does not make, on the rig."""
    rig.host.run(["mkdir", "-p", _EXPORT])
    rig.host.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=0777", "tmpfs", _EXPORT])
    options = "rw,sync,no_subtree_check,root_squash,fsid=4242"
    rig.host.run(["exportfs", "-o", options, f"127.0.0.1:{_EXPORT}"])
    yield f"127.0.0.1:{_EXPORT}"
    rig.host.run(["exportfs", "-u", f"127.0.0.1:{_EXPORT}"])
    rig.host.run(["exportfs", "-f"])
    rig.host.run(["umount", "-l", _EXPORT])
    rig.host.run(["rmdir", _EXPORT])


def test_on_an_appliance(rig: Rig, export: str, tmp_path: Path) -> None:
    # On an appliance fio may be late by two minutes, on the clock of this machine, which is faster.
    workload, testbed = write_small(tmp_path, ("long", "write", "8s")), tmp_path / "nas.toml"
    config = rig.ssh_config(tmp_path / "ssh_config")
    testbed.write_text(
        f'name = "nas"\nssh_config = "{config}"\n[server]\nhost = "none"\nexport = "{export}"\n'
        f'[[client]]\nhost = "{rig.address}"\n'
    )
    results = tmp_path / "results"
    words = ["run", os.fspath(workload), "--testbed", os.fspath(testbed)]
    process = hsp(*words, results=results)
    with ended(process):
        run = run_of(results, process)
        clean_beside(run, results, process)
        second = call([*words, "--results", os.fspath(results)])
        assert second.returncode == EXIT_SAFETY and _GOES_ON in second.stderr, second.stderr
        # From other results it is found on the client itself.
        other = [*words, "--results", os.fspath(tmp_path / "other")]
        third = call(other)
        assert third.returncode == EXIT_SAFETY and _GOES_ON in third.stderr, third.stderr
        assert rig.host.run(["ls", _EXPORT]).stdout.split() == [f"hsp-{run.name}"]
        assert f"/mnt/hsp-{run.name}" in rig.host.run(["cat", "/proc/mounts"]).stdout
        done = finish(process, results, "small")
    # Never better than unknown: its server was not seen. But the load went on to its end.
    assert done.code == EXIT_UNKNOWN and "not undone" not in done.stderr, done.stderr
    assert done.manifest["phases"][0]["problems"] == [] and read_journal(run / "journal.jsonl").finished
    assert rig.host.run(["ls", _EXPORT]).stdout == ""
