"""The program that does things at set times: its times on a clock of the test, the rest for real."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kit.plan.schedule_steps import PROGRAM
from kit.remote import run_schedule

pytestmark = pytest.mark.any_python

MS = 10**6


def start(tmp_path: Path, *actions: dict[str, Any], last_ns: int = 3600 * 10**9) -> subprocess.Popen[str]:
    (tmp_path / "count").write_text("other 1\nio 0 0\n")
    begin = {"file": str(tmp_path / "count"), "after": None, "line": "io "}
    listed = [{"id": number, "cleanup": [], **each} for number, each in enumerate(actions)]
    argv = [
        sys.executable,
        "-I",
        str(PROGRAM),
        json.dumps({"begin": begin, "last_ns": last_ns, "actions": listed}),
    ]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout and json.loads(process.stdout.readline())["pid"] == process.pid
    return process


def rows(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, _ = process.communicate(timeout=60)
    return [json.loads(line) for line in out.splitlines()]


class SetClock:
    """In place of the program's event: to wait moves the clock, and nothing else does."""

    now_ns = 0

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        self.now_ns += round(seconds * 1e9)
        return False


def test_an_action_keeps_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SetClock()
    monkeypatch.setattr(run_schedule, "STOP", clock)
    monkeypatch.setattr(run_schedule, "now_ns", lambda: clock.now_ns)
    touch = ["touch", str(tmp_path / "made-{n}")]
    for steps, expected in (
        ([{"run": ["true"]}, {"sleep_ns": 200 * MS}], (400, 600, 1)),
        ([{"repeat": touch, "every_ns": 50 * MS, "for_ns": 140 * MS}], (400, 550, 3)),
        ([{"until_end": 1}], (400, 3000, 1)),
    ):
        clock.now_ns = 7
        spec = {"id": 0, "at_ns": 400 * MS, "steps": steps}
        run_schedule.Action(spec, 7 + 3000 * MS).act(7)
        begin, end = map(json.loads, capsys.readouterr().out.splitlines())
        assert ((begin["ns"] - 7) / MS, (end["ns"] - 7) / MS, end["times"]) == expected
    assert {path.name for path in tmp_path.iterdir()} == {"made-1", "made-2", "made-3"}


def test_actions_run_after_the_first_io(tmp_path: Path) -> None:
    made = tmp_path / "made"
    process = start(
        tmp_path,
        {"at_ns": 40 * MS, "steps": [{"run": ["tee", str(made)], "input": "x\n"}, {"sleep_ns": 20 * MS}]},
        {"at_ns": 20 * MS, "steps": [{"wait": ["sleep", "600"], "limit_ns": 10 * MS}]},
        {"at_ns": 15 * MS, "steps": [{"run": ["false"]}], "cleanup": [{"run": ["touch", f"{made}-clean"]}]},
    )
    written_ns = time.monotonic_ns()
    (tmp_path / "count").write_text("other 1\nio 512 0\n")
    found = rows(process)
    load_ns = found[0]["ns"]
    assert found[0]["what"] == "load" and load_ns >= written_ns
    at = {(each["what"], each["id"]): each["ns"] for each in found[1:]}
    # Each waits for its own time, however late the machine is.
    assert at["begin", 0] - load_ns >= 40 * MS and at["end", 0] - at["begin", 0] >= 20 * MS
    assert at["begin", 1] - load_ns >= 20 * MS and at["end", 1] - at["begin", 1] >= 10 * MS
    end = {each["id"]: each for each in found if each["what"] == "end"}
    assert "`false` ended with 1" in end[2]["error"] and (tmp_path / "made-clean").exists()
    assert made.read_text() == "x\n" and not end[0]["error"] and not end[1]["error"]


def test_what_goes_on_is_undone_when_the_load_ends_and_the_rest_never_begins(tmp_path: Path) -> None:
    undone, lasting = tmp_path / "undone", tmp_path / "lasting"
    process = start(
        tmp_path,
        {"at_ns": 0, "steps": [{"sleep_ns": 10**13}], "cleanup": [{"run": ["touch", str(undone)]}]},
        {"at_ns": 0, "steps": [{"until_end": 1}], "cleanup": [{"run": ["touch", str(lasting)]}]},
        {"at_ns": 10**13, "steps": [{"run": ["touch", str(tmp_path / "late")]}]},
    )
    (tmp_path / "count").write_text("io 1 0\n")
    assert process.stdout
    begun = [json.loads(process.stdout.readline())["what"] for _ in range(3)]
    process.send_signal(signal.SIGTERM)
    found = rows(process)
    assert begun == ["load", "begin", "begin"]
    end = {each["id"]: each for each in found if each["what"] == "end"}
    assert end[0]["cut"] and not end[0]["lasted"] and undone.exists()
    assert end[0]["clean"] and end[1]["clean"]
    assert end[1]["lasted"] and not end[1]["cut"] and lasting.exists()
    assert 2 not in end and not (tmp_path / "late").exists()


def test_what_lasts_ends_a_while_after_the_load_had_to(tmp_path: Path) -> None:
    """A load that waits for the fault's end does not end by itself."""
    ended = tmp_path / "ended"
    process = start(
        tmp_path,
        {"at_ns": 0, "steps": [{"until_end": 1}], "cleanup": [{"run": ["touch", str(ended)]}]},
        last_ns=300 * MS,
    )
    (tmp_path / "count").write_text("other 1\nio 512 0\n")
    found = {each["what"]: each for each in rows(process)}
    assert ended.exists() and found["end"]["lasted"] and found["end"]["clean"] and not found["end"]["cut"]
    assert found["end"]["ns"] - found["load"]["ns"] >= 300 * MS
