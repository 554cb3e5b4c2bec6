"""The program that does things at set times, run for real on this machine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kit.plan.schedule_steps import PROGRAM

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
    out, _ = process.communicate(timeout=20)
    return [json.loads(line) for line in out.splitlines()]


def test_actions_run_at_their_times_after_the_first_io(tmp_path: Path) -> None:
    made = tmp_path / "made"
    process = start(
        tmp_path,
        {"at_ns": 400 * MS, "steps": [{"run": ["tee", str(made)], "input": "x\n"}, {"sleep_ns": 200 * MS}]},
        {"at_ns": 100 * MS, "steps": [{
            "repeat": ["touch", f"{made}-{{n}}"], "every_ns": 50 * MS, "for_ns": 140 * MS,
        }]},
        {"at_ns": 200 * MS, "steps": [{"wait": ["sleep", "9"], "limit_ns": 100 * MS}]},
        {"at_ns": 150 * MS, "steps": [{"run": ["false"]}], "cleanup": [{"run": ["touch", f"{made}-clean"]}]},
    )  # fmt: skip
    time.sleep(0.3)
    assert process.poll() is None and not made.exists()
    (tmp_path / "count").write_text("other 1\nio 512 0\n")
    found = rows(process)
    load = found[0]["ns"]
    at = {(each["what"], each["id"]): (each["ns"] - load) / MS for each in found[1:]}
    assert found[0]["what"] == "load"
    assert 400 <= at["begin", 0] < 550 and at["end", 0] - at["begin", 0] >= 200
    assert 100 <= at["begin", 1] < 250 and 100 <= at["end", 2] - at["begin", 2] < 3000
    end = {each["id"]: each for each in found if each["what"] == "end"}
    assert end[1]["times"] == 3 and {path.name for path in tmp_path.glob("made-[0-9]")} == {
        "made-1", "made-2", "made-3",
    }  # fmt: skip
    assert "`false` ended with 1" in end[3]["error"] and (tmp_path / "made-clean").exists()
    assert made.read_text() == "x\n" and not end[0]["error"]


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
    assert 300 <= (found["end"]["ns"] - found["load"]["ns"]) / MS < 3000
