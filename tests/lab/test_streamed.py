"""A phase of counts whose controller is killed at a random moment: every interval but the last is there."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kit.core.errors import EXIT_HOST
from tests.lab.hoststate import differences, state_of
from tests.lab.rig import Bed, Rig
from tests.lab.workloads import JOB, write_small, write_testbed

PROTECTS = ("kit/load", "kit/recovery")
pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(3000, func_only=True)]
# A slow job: what idles takes the lab hardly any time.
_SLOW = "rw=randread\nsize=${{HSP_SIZE}}\nthinktime={think}\n"


class Endurance:
    """A workload of one phase that may be continued, and its run. `deadline_s`: of each part."""

    def __init__(self, folder: Path, duration: str, interval: str, think: str, deadline_s: int = 900) -> None:
        self.folder, self.results, self.deadline_s = folder, folder / "results", deadline_s
        self.workload = write_small(folder, ("read", "read", duration))
        (folder / "read.fio").write_text(JOB + _SLOW.format(think=think))
        text = self.workload.read_text().replace('interval = "50ms"', f'interval = "{interval}"')
        self.workload.write_text(text + 'log = "histograms"\nresumable = true\n')
        self.testbed = write_testbed(folder)
        self.agreed: list[str] = []

    @property
    def run(self) -> Path:
        (run,) = (self.results / "small").glob("2*")
        return run

    def begin(self) -> subprocess.Popen[bytes]:
        words = ["run", str(self.workload), "--testbed", str(self.testbed), *self.agreed]
        return self._start(words)

    def resume(self) -> subprocess.Popen[bytes]:
        return self._start(["run", "--resume", str(self.run), *self.agreed])

    def _start(self, words: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "kit.cli", *words, "--results", str(self.results)]
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=Path(__file__).parents[2])

    def counts(self, part: int) -> list[dict[str, Any]]:
        """The whole lines of a part."""
        paths = list(self.results.glob(f"small/2*/raw/read-*-counts.{part}.jsonl"))
        text = paths[0].read_text() if paths else ""
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def await_lines(self, process: subprocess.Popen[bytes], part: int, lines: int) -> None:
        end = time.monotonic() + self.deadline_s
        while len(self.counts(part)) < lines:
            assert process.poll() is None, self.log
            assert time.monotonic() < end
            time.sleep(0.05)

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()[-2000:]

    def kill(self, process: subprocess.Popen[bytes], part: int, lines: int) -> int:
        """Once so many intervals are there; returns how many I/Os they have."""
        self.await_lines(process, part, lines)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        return sum(sum(row["read"]["bins"].values()) for row in self.counts(part))


def killed_often(endurance: Endurance, kills: int, most_lines: int) -> None:
    drawn = random.Random(7)
    known = []
    process = endurance.begin()
    for part in range(1, kills + 1):
        known.append(endurance.kill(process, part, drawn.randint(2, most_lines)))
        rows = endurance.counts(part)
        # One after the other, without a hole: what is missing came after the last.
        assert [row["from_ns"] for row in rows[1:]] == [row["asked_ns"] for row in rows[:-1]]
        process = endurance.resume()
    assert process.wait(endurance.deadline_s) == 0, endurance.log
    (phase,) = json.loads((endurance.run / "manifest.json").read_text())["phases"]
    parts = phase["parts"]
    assert [part["end"] for part in parts] == ["lost"] * kills + ["itself"]
    assert [part["client_ios"] for part in parts[:-1]] == known
    assert abs(sum(part["client_ios"] - part["server_ios"] for part in parts)) <= sum(
        part["apart_ios"] for part in parts
    )
    assert sum(event["kind"] == "gap" for event in phase["events"]) == kills
    latency = pl.read_parquet(endurance.run / "latency.parquet")
    counted = dict(latency.group_by("layer").agg(pl.col("count").sum()).iter_rows())
    assert counted == {"client": phase["client_ios"], "nfs-server": phase["server_ios"]}
    summary = json.loads((endurance.run / "summary.json").read_text())
    assert summary["verdict"] == "valid", summary["reasons"]


def test_a_killed_run_goes_on_in_the_middle(tmp_path: Path) -> None:
    killed_often(Endurance(tmp_path, "2s", "100ms", "2ms"), kills=1, most_lines=10)


@pytest.mark.long
@pytest.mark.timeout(4 * 3600, func_only=True)
def test_two_hours_killed_ten_times(tmp_path: Path) -> None:
    """`HSP_ENDURANCE`: another number of minutes."""
    minutes = int(os.environ.get("HSP_ENDURANCE", "120"))
    endurance = Endurance(tmp_path, f"{minutes}min", "1s", "50ms", deadline_s=2 * 3600)
    killed_often(endurance, kills=10, most_lines=max(minutes * 60 // 10, 3))


@pytest.mark.long
def test_hosts_that_are_silent_for_a_minute(rig: Rig, tmp_path: Path) -> None:
    """Longer than SSH waits for them: what had arrived is stored, and the run goes on in the middle."""
    endurance = Endurance(tmp_path, "60s", "500ms", "20ms")
    bed = Bed(rig, tmp_path / "bed", {"data": ("vd0",), "log": ("vd1",)})
    endurance.testbed, endurance.agreed = bed.path, bed.agreed
    before = state_of(rig.host)
    process = endurance.begin()
    endurance.await_lines(process, 1, 10)
    with rig.relay.silence():
        time.sleep(60)
    assert process.wait(endurance.deadline_s) == EXIT_HOST, endurance.log
    known = sum(sum(row["read"]["bins"].values()) for row in endurance.counts(1))
    assert "127.0.0.1" in endurance.log and "Traceback" not in endurance.log
    process = endurance.resume()
    assert process.wait(endurance.deadline_s) == 0, endurance.log
    (phase,) = json.loads((endurance.run / "manifest.json").read_text())["phases"]
    assert [part["end"] for part in phase["parts"]] == ["lost", "itself"]
    assert phase["parts"][0]["client_ios"] == known > 0
    assert differences(before, state_of(rig.host)) == []
