"""An L2ARC after a restart of its server, with its content and without it: two machines, on a real clock."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.lab.image.image import Image
from kit.recovery.journal import read_journal
from kit.store.summary import Summary
from reports.features.cache_life.judge import sentences
from tests.lab.conftest import ROOT
from tests.lab.rig import agreed_commands
from tests.lab.test_power_server import World, running

PROTECTS = ("kit/run/power/restart.py", "kit/run/power/cut.py", "kit/remote/watch_rebuild.py")
pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(3000, func_only=True)]

_MIB, _BACK_S = 1 << 20, 1200.0
_DISKS = {"data0": 384 * _MIB, "data1": 384 * _MIB, "cache0": 192 * _MIB}
# The guest's init is a script, and no systemd: without --force twice nothing there can be asked.
_RESTART = '[restart]\ncommand = ["systemctl", "reboot", "--force", "--force"]\nback_within = "10min"\n'
WORKLOAD = """\
format = 1
name = "life"
title = "life"
base = "l2arc-life"
event = []
precondition = "none"
dataset.properties.recordsize = "128KiB"
job.bs = "128k"
[tunables]
zfs_arc_max = "80MiB"
[working_set]
size = "160MiB"
[[phase]]
name = "before"
base = "import"
title = "Before a restart"
[[phase]]
name = "after"
base = "import"
title = "The same reads after a restart"
restart = "KIND"
"""


@pytest.fixture(scope="module")
def world(image: Image) -> Iterator[World]:
    with running(image, disks=_DISKS, more=_RESTART) as made:
        yield made


def words(world: World, folder: Path, kind: str, text: str) -> list[str]:
    """Of `hsp run`."""
    workload, testbed = folder / "life.toml", world.testbed()
    workload.write_text(text.replace("KIND", kind))
    where = ("--testbed", os.fspath(testbed), "--results", os.fspath(folder))
    agreed = [word for name in _DISKS for word in ("--erase-serial", name.upper())]
    agreed += agreed_commands(workload, testbed)
    return ["run", os.fspath(workload), *where, *agreed, "--json"]


def run(world: World, folder: Path, kind: str, text: str = WORKLOAD) -> tuple[dict[str, Any], Path]:
    done = world.hsp(*words(world, folder, kind, text))
    assert done.stdout, done.stderr
    path = (folder / "life" / "latest").resolve()
    record = read_journal(path / "journal.jsonl")
    assert record.finished and not record.pending, done.stderr
    stored = json.loads((path / "manifest.json").read_text())
    # A machine that is emulated slowly may answer too few reads for its p99; nothing else is wrong.
    assert not stored["problems"] and not any(phase["problems"] for phase in stored["phases"]), stored
    return json.loads(done.stdout), path


def life_of(summary: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    [life] = [each for each in summary["caches"] if each["imports"]]
    [found] = life["imports"]
    print(found)
    return found, [*sentences(Summary.from_json(summary, "summary.json"))]


@pytest.mark.parametrize("kind", ["reboot", "power-cut"])
def test_after_a_restart_it_has_what_it_had(world: World, tmp_path: Path, kind: str) -> None:
    summary, path = run(world, tmp_path, kind)
    found, text = life_of(summary)
    assert found["kind"] == kind and found["share_before"] > 0.05
    assert found["share_after"] > 0.75 * found["share_before"]
    assert found["rebuilt_bytes"] > 10 * _MIB and found["rebuilt_s"] > 0 and not found["failures"]
    assert any("comes back warm" in each for each in text), text
    # In the order of the run, although the server's clock begins anew.
    before, after = json.loads((path / "manifest.json").read_text())["phases"]
    assert before["end_ns"] <= after["restarted"]["begin_ns"] < after["restarted"]["up_ns"]
    assert after["restarted"]["up_ns"] < after["restarted"]["import_ns"] < after["start_ns"]


# A minute of this feed is little beside what four of it have brought.
SLOW = """\
[tunables]
l2arc_rebuild_enabled = 0
l2arc_write_max = "512KiB"
l2arc_write_boost = 0
l2arc_feed_again = 0
"""
FILL = """\
[[phase]]
name = "fill"
base = "import"
title = "Fills the L2ARC"
duration = "180s"
"""


def test_without_a_rebuild_it_comes_back_cold(world: World, tmp_path: Path) -> None:
    text = WORKLOAD.replace("[tunables]\n", SLOW).replace("[[phase]]", f"{FILL}[[phase]]", 1)
    summary, _ = run(world, tmp_path, "reboot", text)
    found, said = life_of(summary)
    assert found["rebuilt_s"] is None and not found["rebuilt_bytes"]
    assert found["share_after"] < 0.25 * found["share_before"]
    assert any("comes back cold" in each and "nothing was rebuilt" in each for each in said), said


def test_hsp_that_is_killed_in_the_restart_leaves_what_is_cleaned_up_after_it(
    world: World, tmp_path: Path
) -> None:
    argv = [sys.executable, "-m", "kit.cli", *words(world, tmp_path, "reboot", WORKLOAD)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        until(lambda: any('"reboot", "--force"' in each.read_text() for each in commands(tmp_path)), process)
        process.kill()
    (path,) = {each.parents[1] for each in commands(tmp_path)}
    assert read_journal(path / "journal.jsonl").pending
    end = time.monotonic() + _BACK_S
    while (done := world.hsp("clean", os.fspath(path))).returncode:
        assert time.monotonic() < end, done.stderr
        time.sleep(5)
    record = read_journal(path / "journal.jsonl")
    assert record.finished and not record.pending
    # Nothing keeps the disks from the next run.
    listed = world.hsp("host", "disks", "--testbed", os.fspath(world.testbed()))
    assert all(f'serial = "{name.upper()}"' in listed.stdout for name in _DISKS), listed.stdout


def commands(folder: Path) -> list[Path]:
    return [each for each in folder.glob("life/*/raw/commands.jsonl") if not each.parents[1].is_symlink()]


def until(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _BACK_S
    while not is_so():
        assert process.poll() is None and time.monotonic() < end, process.stderr
        time.sleep(0.05)
