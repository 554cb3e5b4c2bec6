"""kit.hosts.wrapped: every command of a recorded host is recorded, and an error there stops none."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from kit.hosts.local import LocalHost
from kit.hosts.wrapped import RecordedHost, Recorder
from tests.fakes import FullDisk, ScriptedHost


def entries(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


def test_commands_and_files_are_written_down_and_passed_on(tmp_path: Path) -> None:
    recorder, inner = Recorder(tmp_path / "commands.jsonl"), ScriptedHost(default="out")
    with RecordedHost(inner, recorder) as host:
        assert host.run(["a", "b c"], deadline_s=3, stdin=b"in").stdout == "out"
        assert host.start(["d"]).wait(1).stdout == "out"
        host.put(b"123", "/f")
        assert host.get("/f") == b"123"
    assert (inner.commands[0].deadline_s, inner.commands[0].stdin, inner.closed) == (3, b"in", 1)
    assert entries(tmp_path / "commands.jsonl") == [
        {"host": "server", "argv": ["a", "b c"]},
        {"host": "server", "argv": ["d"], "started": True},
        {"host": "server", "put": "/f", "bytes": 3},
        {"host": "server", "get": "/f"},
    ]


def test_a_full_disk_does_not_stop_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "commands.jsonl")
    host = RecordedHost(LocalHost("here"), recorder)
    FullDisk(monkeypatch, 3)
    assert host.run(["echo", "there"]).stdout == "there\n"
    assert recorder.unwritten is not None and recorder.unwritten.errno == errno.ENOSPC
    assert (tmp_path / "commands.jsonl").read_text() == ""
