"""kit.journal: what is on disk at every moment of a step, and the teardown that it drives."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kit.errors import HostError
from kit.journal import Journal


def lines(path: Path) -> list[dict[str, Any]]:
    """As someone else reads them from the disk: whole lines only."""
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [
        {key: value for key, value in json.loads(line).items() if key != "time"} for line in text.splitlines()
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def test_a_line_is_on_disk_before_and_after_a_step(path: Path) -> None:
    with Journal(path) as journal:
        assert lines(path) == []
        with journal.step("create pool", pool="hsp-x"):
            assert lines(path) == [{"step": "create pool", "state": "begin", "pool": "hsp-x"}]
        assert lines(path)[1:] == [{"step": "create pool", "state": "done"}]


def test_every_line_is_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    original = os.fsync

    def fsync(handle: int) -> None:
        original(handle)
        synced.append(len(lines(path)))

    monkeypatch.setattr(os, "fsync", fsync)
    with Journal(path) as journal:
        journal.on_teardown("x", lambda: None)
        with journal.step("a"):
            assert synced == [1, 2]
        journal.teardown()
    assert synced == [1, 2, 3, 4, 5]


def test_lines_have_their_time(path: Path) -> None:
    with Journal(path) as journal, journal.step("a"):
        pass
    times = [json.loads(line)["time"] for line in path.read_text().splitlines()]
    assert times == sorted(times) and times[0] > 1.7e9


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (HostError("no pool"), "no pool"),
        (ValueError("odd"), "odd"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_a_failed_step_says_why_and_passes_it_on(path: Path, error: BaseException, said: str) -> None:
    with Journal(path) as journal, pytest.raises(type(error)) as caught, journal.step("a"):
        raise error
    assert caught.value is error
    assert lines(path) == [
        {"step": "a", "state": "begin"},
        {"step": "a", "state": "failed", "error": said},
    ]


def test_a_journal_goes_on_where_it_ended(path: Path) -> None:
    for name in ("a", "b"):
        with Journal(path) as journal, journal.step(name):
            pass
    assert [line["step"] for line in lines(path)] == ["a", "a", "b", "b"]


def test_how_to_undo_is_on_disk_before_the_step_is_done(path: Path) -> None:
    with Journal(path) as journal, journal.step("a"):
        journal.on_teardown("destroy", lambda: None)
        assert lines(path)[-1] == {"undo": "destroy"}


def test_teardown_is_in_reverse_order_and_once(path: Path) -> None:
    undone: list[str] = []
    with Journal(path) as journal:
        for name in ("pool", "dataset", "mount"):
            journal.on_teardown(name, lambda name=name: undone.append(name))  # type: ignore[misc]
        assert journal.teardown() == []
        assert undone == ["mount", "dataset", "pool"]
        assert journal.teardown() == []
        assert undone == ["mount", "dataset", "pool"]
    assert [line["step"] for line in lines(path) if line.get("state") == "done"] == [
        "undo: mount", "undo: dataset", "undo: pool",
    ]  # fmt: skip


def broken(error: Exception) -> Any:
    def undo() -> None:
        raise error

    return undo


def test_teardown_goes_on_after_a_failure_and_reports_it(path: Path) -> None:
    undone: list[str] = []
    with Journal(path) as journal:
        journal.on_teardown("pool", lambda: undone.append("pool"))
        journal.on_teardown("export", broken(HostError("exportfs hangs")))
        journal.on_teardown("dataset", broken(HostError("busy")))
        journal.on_teardown("mount", lambda: undone.append("mount"))
        assert journal.teardown() == ["dataset: busy", "export: exportfs hangs"]
    assert undone == ["mount", "pool"]
    assert {"step": "undo: dataset", "state": "failed", "error": "busy"} in lines(path)


@pytest.mark.parametrize(
    "error", [json.JSONDecodeError("x", "", 0), OSError("pipe"), KeyError("pools")], ids=repr
)
def test_teardown_goes_on_after_any_failure(path: Path, error: Exception) -> None:
    undone: list[str] = []
    with Journal(path) as journal:
        journal.on_teardown("pool", lambda: undone.append("pool"))
        journal.on_teardown("mount", broken(error))
        [failure] = journal.teardown()
    assert failure.startswith("mount: ")
    assert undone == ["pool"]
