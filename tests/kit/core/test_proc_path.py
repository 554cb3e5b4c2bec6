"""kit.core.proc_path: blanks and backslashes of paths, as in /proc/mounts."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.core.proc_path import escape, rows, unescape
from kit.lab.image.prune import _mounts_below
from kit.nfs import mount
from tests.fakes import ScriptedHost

KIT = Path(__file__).parents[3] / "kit"
# Blanks and ends of lines, to the kernel or only to Python; octal digits; an end of a comment.
HOSTILE = "a b\tc\nd\\e\\040#'\"\r\x0b\x1c\x85\u2028\u00a0é"


def test_as_the_kernel_writes_them() -> None:
    assert escape("/a b\tc\nd\\e#é") == r"/a\040b\011c\012d\134e#é"


@given(st.text())
def test_nothing_is_lost(path: str) -> None:
    assert unescape(escape(path)) == path
    assert not set(escape(path)) & set(" \t\n")
    assert rows(f"a {escape(path)}\tb\n")[0] == ["a", *([escape(path)] if path else []), "b"]


@pytest.mark.parametrize(("file", "column"), [("mounts", 1), ("mountinfo", 4), ("mountstats", 4)])
def test_this_kernel_writes_them_so(tmp_path: Path, file: str, column: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    place = tmp_path / HOSTILE
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("no mounts here, as in some containers")
    try:
        table = rows(os.fsdecode(Path(f"/proc/self/{file}").read_bytes()))
        below = _mounts_below(tmp_path)
    finally:
        subprocess.run(["umount", place], check=True)
    assert escape(str(place)) in [fields[column] for fields in table]
    assert below == [str(place)]


def test_mounts_of_others_with_such_names_are_in_nobodys_way() -> None:
    """An ordinary user can mount with FUSE wherever he can write."""
    foreign = f"x {escape('/home/' + HOSTILE)} fuse rw 0 0\n"
    table = f"{foreign}nas:/x /mnt/a\\040b nfs4 rw 0 0\n{foreign}"
    assert mount.is_mounted(ScriptedHost({"cat": table}), "/mnt/a b")


def test_there_is_one_escaping() -> None:
    pattern = re.compile(r"040|\[0-7\]\{3\}|:03o")
    assert [path.name for path in KIT.rglob("*.py") if pattern.search(path.read_text())] == ["proc_path.py"]
