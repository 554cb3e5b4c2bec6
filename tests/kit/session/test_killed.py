"""hsp on this machine is killed: what it has started ends, whatever session it is in."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loops import Loop, host_with_serials, loop_device
from tests.process import ROOT

pytestmark = pytest.mark.slow

NOTHING = "#!/bin/sh\n"
# No pool is imported, and none can be.
FAKES = {"zpool": NOTHING, "zdb": NOTHING, "udevadm": NOTHING}
TESTBED = """\
[server]
host = "local"
[[client]]
host = "local"
[[device]]
name = "ssd"
role = "log"
path = "{loop.link}"
serial = "{loop.serial}"
size = "64MiB"
"""
WORKLOAD = """\
format = 1
name = "bare"
title = "Writes to a bare device"
precondition = "none"
[[phase]]
name = "write"
title = "Writes"
target = "device:log"
job = "w.fio"
duration = "600s"
interval = "1s"
log = "histograms"
"""
JOB = """\
[write]
ioengine=psync
rw=randwrite
bs=4k
direct=1
filename=${HSP_DEVICE}
size=${HSP_SIZE}
norandommap
time_based
runtime=${HSP_RUNTIME}
"""


# Where the first process cannot be looked at, no disk is used: so hsp gets processes of its own to look at.
NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
KILLED = """\
folder=$1; shift
"$@" >"$folder/output" 2>&1 &
until [ -e "$folder/kill" ]; do kill -s 0 $! || exit; sleep 0.05; done
kill -s KILL $!
touch "$folder/killed"
sleep 1000
"""


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Loop]:
    with loop_device(tmp_path) as loop:
        yield loop


def written(loop: Loop) -> int:
    """Sectors."""
    return int(Path(f"/sys/class/block/{loop.kernel_name}/stat").read_text().split()[6])


def holders(loop: Loop) -> list[str]:
    """Processes that have it open."""
    found = []
    # Not Path.glob, which raises where a process ends meanwhile.
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) == loop.node:
                found.append(link.split("/")[2])
        except OSError:
            continue
    return found


def words_of(what: str, loop: Loop, folder: Path) -> list[str]:
    common = ["--erase-serial", loop.serial, "--results", str(folder / "results")]
    if what == "slog":
        return ["slog", str(loop.link), "--writes", "1000000", *common]
    if what == "preconditioning":
        return ["slog", str(loop.link), "--state", "aged", "--writes", "1000000", *common]
    (folder / "here.toml").write_text(TESTBED.format(loop=loop))
    (folder / "w.fio").write_text(JOB)
    (folder / "bare.toml").write_text(WORKLOAD)
    return ["run", str(folder / "bare.toml"), "--testbed", str(folder / "here.toml"), *common]


@pytest.mark.parametrize("what", ["slog", "preconditioning", "run"])
def test_nothing_writes_to_a_device_after_kill_9(loop: Loop, tmp_path: Path, what: str) -> None:
    if what != "slog" and not shutil.which("fio"):
        pytest.skip("fio is not installed")
    path = host_with_serials(tmp_path, {loop.kernel_name: loop.serial}, FAKES).env["PATH"]
    state = str(tmp_path / "state")
    environ = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": state}
    hsp = [sys.executable, "-m", "kit.cli"]
    words = [str(tmp_path), *hsp, *words_of(what, loop, tmp_path)]
    with subprocess.Popen([*NAMESPACE, "sh", "-c", KILLED, "sh", *words], env=environ) as around:
        try:
            begun = written(loop)
            while written(loop) < begun + 1000:
                assert around.poll() is None, (tmp_path / "output").read_text()
                time.sleep(0.05)
            (tmp_path / "kill").touch()
            while not (tmp_path / "killed").exists():
                time.sleep(0.01)
            end = time.monotonic() + 60
            while (left := holders(loop)) and time.monotonic() < end:
                time.sleep(0.05)
            assert left == []
            last = written(loop)
            time.sleep(0.5)
            assert written(loop) == last
        finally:
            around.kill()
    # Nothing but its directory is left of the run.
    clean = [*NAMESPACE, *hsp, "clean", "--results", str(tmp_path / "results")]
    done = subprocess.run(clean, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
