"""kit.recovery.journal: the lines on disk at each moment of a step, and teardown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit.core.errors import ConfigError, HostError
from kit.hosts.identity import HostIdentity
from kit.recovery.journal import Journal, LeftAlone, RunGoesOn, Undo, held_by, read_journal
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


def test_lines_have_their_time(path: Path) -> None:
    with Journal(path) as journal, journal.step("a"):
        pass
    times = [json.loads(line)["time"] for line in path.read_text().splitlines()]
    assert times == sorted(times) and times[0] > 1.7e9


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


def test_a_journal_is_appended(path: Path) -> None:
    for name in ("a", "b"):
        with Journal(path) as journal, journal.step(name):
            pass
    assert [line["step"] for line in lines(path)] == ["a", "a", "b", "b"]


def test_the_undo_is_on_disk_before_the_step(path: Path) -> None:
    with Journal(path) as journal, journal.step("a"):
        number = journal.on_teardown("pool", "server", "destroy it", name="p")
        entry = {
            "undo": 1,
            "kind": "pool",
            "host": "server",
            "text": "destroy it",
            "arguments": {"name": "p"},
        }
        assert lines(path)[-1] == entry
        journal.know(number, guid="7")
        assert lines(path)[-1] == {"undo": 1, "known": {"guid": "7"}}
        assert journal.pending == (Undo(1, "pool", "server", "destroy it", {"name": "p", "guid": "7"}),)


def add(journal: Journal, *kinds: str) -> None:
    for kind in kinds:
        journal.on_teardown(kind, "server", f"undo {kind}")


def test_teardown_is_in_reverse_order_and_once(path: Path) -> None:
    undone: list[str] = []
    with Journal(path) as journal:
        add(journal, "pool", "export", "mount")
        for _ in range(2):
            assert journal.teardown(lambda undo, left: undone.append(undo.kind)) == []
            assert undone == ["mount", "export", "pool"]
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
    [
        '{"undo": "unexport /x"}',
        "{}",
        "[]",
        "null",
        '{"undone": 9}',
        '{"step": "a"}',
        "\x00",
        '{"undo": 9, "known": {}}',
    ],
)
def test_damage_is_refused_with_its_line(path: Path, line: str) -> None:
    with Journal(path, "a-run", "digest"):
        pass
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ConfigError, match=r"journal.jsonl:2: "):
        read_journal(path)


def test_a_second_undone_is_no_damage(path: Path) -> None:
    """Seen where `hsp clean` and the run itself undid the same."""
    with Journal(path, "a-run", "digest") as journal:
        add(journal, "pool", "mount")
    with path.open("a") as file:
        file.write('{"undone": 2}\n{"undone": 2}\n{"undo": 2, "known": {}}\n')
    assert [undo.kind for undo in read_journal(path).pending] == ["pool"]


@pytest.mark.parametrize("line", ['{"undo": 3}', '{"undo": 3, "kind": "mount", "arguments": 7}'])
def test_an_undo_that_cannot_be_described_stops_no_other(path: Path, line: str) -> None:
    with Journal(path, "a-run", "digest") as journal:
        add(journal, "pool", "mount")
    with path.open("a") as file:
        file.write(line + "\n")
    undoing = Undoing(**{json.loads(line).get("kind", ""): HostError("it says nothing")})

    def by_hand(undo: Undo) -> tuple[str, ...]:
        raise KeyError(undo.kind)

    with Journal(path) as journal:
        left = journal.teardown(undoing, by_hand)
    assert [one.text for one in left if one.why] == ["undo 3 of the journal"] + ["undo mount"] * (
        "mount" in line
    )
    assert "pool" in undoing.undone


def test_what_is_not_the_runs_any_more_is_said_once(path: Path) -> None:
    with Journal(path, "a-run", "digest") as journal:
        add(journal, "pool", "tunable")
        (left,) = journal.teardown(Undoing(tunable=LeftAlone("somebody else has changed it")))
    assert left.text == "undo tunable" and read_journal(path).finished


def test_two_processes_cannot_have_a_journal(path: Path) -> None:
    with Journal(path, "a-run", "digest") as journal:
        assert "process" in str(held_by(path))
        held = [sys.executable, "-c", "import sys; from kit.recovery.journal import Journal, RunGoesOn\n"]
        held[2] += "try: Journal(__import__('pathlib').Path(sys.argv[1]))\n"
        held[2] += "except RunGoesOn as error: print(error.message)"
        said = subprocess.run([*held, path], capture_output=True, text=True, check=True).stdout
        assert f"the run {path.parent} still goes on (process {os.getpid()})" in said
        with pytest.raises(RunGoesOn):
            Journal(path)
        journal.on_teardown("pool", "server", "it still can write")
    assert held_by(path) is None and held_by(path.parent / "other") is None
    assert len(read_journal(path).pending) == 1


def test_who_a_host_is_and_the_token_are_read_back(path: Path) -> None:
    identity = HostIdentity("m", "b")
    with Journal(path) as journal:
        journal.begin("a-run", "digest", "t" * 64)
        journal.know_host("server", identity)
    record = read_journal(path)
    assert (record.run, record.token_sha256, record.hosts) == ("a-run", "t" * 64, {"server": identity})


@pytest.mark.parametrize("line", ['{"run": "other", "plan": ""}', '{"undo": 1, "kind": "pool"}'])
def test_what_contradicts_is_damage(path: Path, line: str) -> None:
    with Journal(path, "a-run", "digest") as journal:
        add(journal, "mount")
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ConfigError, match="not a line of a journal"):
        read_journal(path)


def test_a_missing_journal_has_nothing_to_undo(tmp_path: Path) -> None:
    record = read_journal(tmp_path / "journal.jsonl")
    assert record.finished and not record.pending


def test_a_full_disk_stops_no_teardown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, undone = tmp_path / "journal.jsonl", list[str]()

    def do(undo: Undo, left: frozenset[str]) -> None:
        undone.append(undo.kind)

    journal = Journal(path, "run")
    for kind in ("pool", "export", "mount"):
        journal.on_teardown(kind, "server", kind)
    disk = FullDisk(monkeypatch, 20)
    with pytest.raises(OSError, match="No space left"), journal.step("load"):
        pytest.fail("a step whose begin is not on the disk was begun")
    (left,) = journal.teardown(do)
    assert undone == ["mount", "export", "pool"] and journal.pending == ()
    assert "No space left" in left.why and f"hsp clean {tmp_path}" in left.by_hand[0]
    journal.close()
    # The journal does not know the undos: they run again when there is space.
    assert not read_journal(path).finished and len(read_journal(path).pending) == 3
    disk.free_bytes = 10_000
    with Journal(path) as again:
        assert again.teardown(do) == []
    assert read_journal(path).finished and len(undone) == 6


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("copied", [False, True])
def test_no_other_user_can_lock_a_journal(tmp_path: Path, copied: bool) -> None:
    """Who can open it can hold a shared lock, and keep `hsp clean` out for good."""
    path = tmp_path / "journal.jsonl"
    if copied:
        path.touch(mode=0o644)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    Journal(path, "20260101T000000Z-abcdef", "plan").close()
    locks = "import fcntl, os, sys; os.setuid(65534); fcntl.flock(os.open(sys.argv[1], 0), fcntl.LOCK_SH)"
    argv = [sys.executable, "-c", locks, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr
