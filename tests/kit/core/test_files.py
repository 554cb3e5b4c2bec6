"""kit.core.files: appended lines are complete, also when the disk gets full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kit.core.files import AppendLog, write_atomically
from tests.fakes import FullDisk

pytestmark = pytest.mark.any_python


def test_lines_are_added_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one\ncut o")
    file = AppendLog(path)
    file.append("two", sync=True)
    file.append("")
    file.close()
    file.close()
    assert path.read_text() == "one\ntwo\n\n"


@pytest.mark.parametrize("free", range(5))
def test_a_line_is_written_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    path = tmp_path / "f"
    file = AppendLog(path)
    file.append("one")
    disk = FullDisk(monkeypatch, free)
    with pytest.raises(OSError, match="No space left") as caught:
        file.append("four")
    assert caught.value.filename == str(path) and caught.value.errno == errno.ENOSPC
    assert path.read_text() == "one\n"
    disk.free_bytes = 100
    file.append("two")
    assert path.read_text() == "one\ntwo\n"


def test_what_is_put_in_the_place_of_a_new_file_is_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who owns the directory, between any two steps."""
    shadow, folder = tmp_path / "shadow", tmp_path / "theirs"
    shadow.write_text("secret")
    shadow.chmod(0o600)
    folder.mkdir()
    before = shadow.stat()

    def plant(step: str) -> None:
        real = getattr(os, step)

        def planted(*arguments: object, **keys: object) -> object:
            for file in folder.iterdir():
                file.unlink()
                file.symlink_to(shadow)
            return real(*arguments, **keys)

        monkeypatch.setattr(os, step, planted)

    for step in ("fsync", "chmod", "fchmod", "replace"):
        with monkeypatch.context():
            plant(step)
            write_atomically(folder / "out.csv", b"x")
            monkeypatch.undo()
        now = shadow.stat()
        assert (now.st_mode, now.st_mtime_ns, shadow.read_text()) == (
            before.st_mode,
            before.st_mtime_ns,
            "secret",
        ), step
