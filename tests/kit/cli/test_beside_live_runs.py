"""`hsp clean`, and a second `hsp run`, beside a run of another process: nothing of it is touched.

In the lab, which no lock of a host protects, and on an appliance, which has no lock on its server. Over SSH,
with a load that goes on, it is a test of the lab.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kit.config.testbed import LAB_TESTBED, read_testbed
from kit.config.workload import read_workload
from kit.core.errors import EXIT_SAFETY
from kit.plan.plan import make_plan
from tests.lab.workloads import write_small

Called = Callable[..., subprocess.CompletedProcess[str]]
RUN = "20260101T000000Z-abcdef"
APPLIANCE = 'name = "nas"\n[server]\nhost = "none"\nexport = "nas:/x"\n[[client]]\nhost = "ssh://c"\n'
# A run that has made a directory in the lab or on a client, until its stdin ends.
LIVE = """\
import sys
from pathlib import Path
from kit.recovery import registry
from kit.recovery.journal import Journal

run = Path(sys.argv[1])
with Journal(run / "journal.jsonl") as journal:
    journal.begin(run.name, "digest", registry.digest(registry.enter(run.name, run).token))
    journal.on_teardown("work-directory", "client0", "remove it", path=f"/run/hsp/{run.name}")
    print(flush=True)
    sys.stdin.read()
"""


class Live:
    """A run that goes on in another process, and the words that begin it again."""

    def __init__(self, folder: Path, testbed: Path) -> None:
        workload = write_small(folder, ("good", "write", "1s"))
        self.results, self.run = folder / "results", folder / "results" / "small" / RUN
        self.run.mkdir(parents=True)
        plan = make_plan(read_workload(workload), read_testbed(testbed), workload, testbed)
        (self.run / "plan.json").write_text(json.dumps(plan.as_json()))
        self.words = "run", os.fspath(workload), "--testbed", os.fspath(testbed)
        argv = [sys.executable, "-c", LIVE, os.fspath(self.run)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout and self.process.stdout.readline()

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture(params=["lab", "appliance"])
def live(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", os.fspath(tmp_path))
    (tmp_path / "nas.toml").write_text(APPLIANCE)
    run = Live(tmp_path, LAB_TESTBED if request.param == "lab" else tmp_path / "nas.toml")
    yield run
    run.end()


def test_nothing_of_it_is_touched(live: Live, hsp_here: Called, tmp_path: Path) -> None:
    """It said "hosts are as they were", and no run of these results could be cleaned or resumed any more."""
    results, before = ("--results", os.fspath(live.results)), (live.run / "journal.jsonl").read_bytes()
    commands = [
        (("clean",), 0),
        (("clean", os.fspath(live.run)), EXIT_SAFETY),
        (("run", "--resume", os.fspath(live.run)), EXIT_SAFETY),
    ]
    # Guests of the lab are not shared.
    commands += [(live.words, EXIT_SAFETY)] if "nas.toml" in live.words[-1] else []
    for words, code in commands:
        done = hsp_here(*words, *results)
        assert done.returncode == code, (words, done.stderr)
        assert f"still goes on (process {live.process.pid})" in done.stderr, (words, done.stderr)
    assert (live.run / "journal.jsonl").read_bytes() == before
    assert [*live.run.parent.glob("2*")] == [live.run], "no other run was begun"
    assert [*tmp_path.rglob("lab-*")] == [], "a second lab was booted"
