"""kit.core.append_log on a disk that gets full in the middle of a line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kit.core.append_log import LineFile
from kit.hosts.local import LocalHost
from kit.hosts.recorded import Recorder, recorded
from kit.recovery.journal import Journal, Undo, read_journal


class Disk:
    """Takes so many bytes more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
        self.free_bytes, self._write = free_bytes, os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, handle: int, content: bytes) -> int:
        if not self.free_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._write(handle, content[: self.free_bytes])
        self.free_bytes -= taken
        return taken


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one\ncut o")
    file = LineFile(path)
    file.append("two", sync=True)
    file.append("")
    file.close()
    file.close()
    assert path.read_text() == "one\ntwo\n\n"


@pytest.mark.parametrize("free", range(5))
def test_a_line_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    path = tmp_path / "f"
    file = LineFile(path)
    file.append("one")
    disk = Disk(monkeypatch, free)
    with pytest.raises(OSError, match="No space left") as caught:
        file.append("four")
    assert caught.value.filename == str(path) and caught.value.errno == errno.ENOSPC
    assert path.read_text() == "one\n"
    disk.free_bytes = 100
    file.append("two")
    assert path.read_text() == "one\ntwo\n"


def test_a_full_disk_stops_no_teardown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, undone = tmp_path / "journal.jsonl", list[str]()

    def do(undo: Undo, left: frozenset[str]) -> None:
        undone.append(undo.kind)

    journal = Journal(path, "run")
    for kind in ("pool", "export", "mount"):
        journal.on_teardown(kind, "server", kind)
    disk = Disk(monkeypatch, 20)
    with pytest.raises(OSError, match="No space left"), journal.step("load"):
        pytest.fail("a step whose begin is not on the disk was begun")
    (left,) = journal.teardown(do)
    assert undone == ["mount", "export", "pool"] and journal.pending == ()
    assert "No space left" in left.why and f"hsp clean {tmp_path}" in left.by_hand[0]
    journal.close()
    # Nobody can know that all of it was undone: it is undone once more, when there is space.
    assert not read_journal(path).finished and len(read_journal(path).pending) == 3
    disk.free_bytes = 10_000
    with Journal(path) as again:
        assert again.teardown(do) == []
    assert read_journal(path).finished and len(undone) == 6


def test_what_cannot_be_recorded_is_run_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path / "commands.jsonl")
    host = recorded(LocalHost("here"), recorder)
    Disk(monkeypatch, 3)
    assert host.run(["echo", "there"]).stdout == "there\n"
    assert recorder.unwritten is not None and recorder.unwritten.errno == errno.ENOSPC
    assert (tmp_path / "commands.jsonl").read_text() == ""
