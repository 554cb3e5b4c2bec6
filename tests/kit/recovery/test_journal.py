"""kit.recovery.journal: the lines on disk at each moment of a step, and teardown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import ConfigError, HostError
from kit.recovery.journal import Journal, Undo, read_journal
from tests.fakes import FullDisk


def lines(path: Path) -> list[dict[str, Any]]:
    """As another process reads them: complete lines only."""
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
    with Journal(path) as journal, journal.step("another process"):
        assert len(lines(path)) == 3
    times = [json.loads(line)["time"] for line in path.read_text().splitlines()]
    assert times == sorted(times) and times[0] > 1.7e9


def test_every_line_is_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    original = os.fsync

    def fsync(handle: int) -> None:
        original(handle)
        synced.append(len(lines(path)))

    monkeypatch.setattr(os, "fsync", fsync)
    with Journal(path) as journal:
        journal.on_teardown("mount", "client0", "x")
        with journal.step("a"):
            assert synced == [1, 2]
        journal.teardown(lambda undo, left: None)
    # The undo, its step before and after, that it is undone, and that nothing is left.
    assert synced == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (HostError("no pool"), "no pool"),
        (ValueError("odd"), "odd"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_a_failed_step_is_written_with_its_error(path: Path, error: BaseException, text: str) -> None:
    with Journal(path) as journal, pytest.raises(type(error)) as caught, journal.step("a"):
        raise error
    assert caught.value is error
    assert lines(path) == [
        {"step": "a", "state": "begin"},
        {"step": "a", "state": "failed", "error": text},
    ]


def test_the_undo_is_on_disk_before_the_step(path: Path) -> None:
    with Journal(path) as journal, journal.step("a"):
        number = journal.on_teardown("pool", "server", "destroy it", name="p")
        arguments = {"kind": "pool", "host": "server", "text": "destroy it", "arguments": {"name": "p"}}
        assert lines(path)[-1] == {"undo": 1, **arguments}
        journal.know(number, guid="7")
        assert lines(path)[-1] == {"undo": 1, "known": {"guid": "7"}}
        assert journal.pending == (Undo(1, "pool", "server", "destroy it", {"name": "p", "guid": "7"}),)


def add(journal: Journal, *kinds: str) -> None:
    for kind in kinds:
        journal.on_teardown(kind, "server", f"undo {kind}")


def test_teardown_is_in_reverse_order_and_once(path: Path) -> None:
    undoing = Undoing()
    with Journal(path) as journal:
        add(journal, "pool", "export", "mount")
        for _ in range(2):
            assert journal.teardown(undoing) == []
            assert undoing.undone == ["mount", "export", "pool"]
    assert read_journal(path).finished


class Undoing:
    """Undoes all but some kinds."""

    def __init__(self, **failing: Exception) -> None:
        self.failing, self.undone, self.left = failing, list[str](), list[frozenset[str]]()

    def __call__(self, undo: Undo, left: frozenset[str]) -> None:
        self.left.append(left)
        if undo.kind in self.failing:
            raise self.failing[undo.kind]
        self.undone.append(undo.kind)


def test_teardown_goes_on_after_a_failure_and_reports_it(path: Path) -> None:
    undoing = Undoing(export=HostError("exportfs hangs"), dataset=HostError("busy"))
    with Journal(path) as journal:
        add(journal, "pool", "export", "dataset", "mount")
        left = journal.teardown(undoing, lambda undo: (f"rm {undo.kind}",))
    assert [str(leftover) for leftover in left] == ["undo dataset: busy", "undo export: exportfs hangs"]
    assert [leftover.by_hand for leftover in left] == [("rm dataset",), ("rm export",)]
    assert undoing.undone == ["mount", "pool"]
    assert undoing.left == [
        frozenset(), frozenset(), frozenset({"dataset"}), frozenset({"dataset", "export"}),
    ]  # fmt: skip
    assert {"step": "undo: undo dataset", "state": "failed", "error": "busy"} in lines(path)
    record = read_journal(path)
    assert not record.finished
    assert [undo.kind for undo in record.pending] == ["export", "dataset"]


@pytest.mark.parametrize(
    "error", [json.JSONDecodeError("x", "", 0), OSError("pipe"), KeyError("pools")], ids=repr
)
def test_teardown_goes_on_after_any_failure(path: Path, error: Exception) -> None:
    undoing = Undoing(mount=error)
    with Journal(path) as journal:
        add(journal, "pool", "mount")
        [left] = journal.teardown(undoing)
    assert left.text == "undo mount" and type(error).__name__ in left.why
    assert undoing.undone == ["pool"]


def test_another_process_undoes_what_is_pending(path: Path) -> None:
    with Journal(path, "a-run", "digest") as journal:
        add(journal, "pool", "mount")
        journal.teardown(Undoing(pool=HostError("busy")))
    with Journal(path, "a-run", "digest") as journal:
        assert [undo.kind for undo in journal.pending] == ["pool"]
        assert journal.on_teardown("mount", "client0", "x") == 3
        undoing = Undoing()
        assert journal.teardown(undoing) == []
    assert undoing.undone == ["mount", "pool"]
    assert read_journal(path).finished


@pytest.mark.parametrize("cut", range(1, 60))
def test_a_line_that_a_crash_cut_off_is_ignored(path: Path, cut: int) -> None:
    with Journal(path, "a-run", "digest") as journal:
        add(journal, "pool", "mount")
    path.write_bytes(path.read_bytes()[:-cut])
    assert [undo.kind for undo in read_journal(path).pending] == ["pool"]
    with Journal(path) as journal:
        add(journal, "export")
        assert [undo.kind for undo in journal.pending] == ["pool", "export"]
    assert [undo.kind for undo in read_journal(path).pending] == ["pool", "export"]


@pytest.mark.parametrize(
    "line",
    ['{"undo": "unexport /x"}', "{}", "[]", "null", '{"undone": 9}', '{"undo": 1}', '{"step": "a"}', "\x00",
     '{"undo": 9, "known": {}}'],
)  # fmt: skip
def test_damage_is_refused_with_its_line(path: Path, line: str) -> None:
    with Journal(path, "a-run", "digest"):
        pass
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ConfigError, match=r"journal.jsonl:2: "):
        read_journal(path)


def test_a_missing_journal_has_nothing_to_undo(tmp_path: Path) -> None:
    record = read_journal(tmp_path / "journal.jsonl")
    assert record.finished and not record.pending


def test_a_full_disk_stops_no_teardown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, undoing = tmp_path / "journal.jsonl", Undoing()
    journal = Journal(path, "run")
    add(journal, "pool", "export", "mount")
    disk = FullDisk(monkeypatch, 20)
    with pytest.raises(OSError, match="No space left"), journal.step("load"):
        pytest.fail("a step whose begin is not on the disk was begun")
    (left,) = journal.teardown(undoing)
    assert undoing.undone == ["mount", "export", "pool"] and journal.pending == ()
    assert "No space left" in left.why and f"hsp clean {tmp_path}" in left.by_hand[0]
    journal.close()
    # The journal does not know the undos: they run again when there is space.
    assert not read_journal(path).finished and len(read_journal(path).pending) == 3
    disk.free_bytes = 10_000
    with Journal(path) as again:
        assert again.teardown(undoing) == []
    assert read_journal(path).finished and len(undoing.undone) == 6
