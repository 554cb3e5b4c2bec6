"""kit.core.proc_path: blanks and backslashes of paths, as in /proc/mounts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kit.core.proc_path import escape, unescape


def test_as_the_kernel_writes_them() -> None:
    assert escape("/a b\tc\nd\\e#é") == r"/a\040b\011c\012d\134e#é"


@given(st.text())
def test_nothing_is_lost(path: str) -> None:
    assert unescape(escape(path)) == path
    assert not set(escape(path)) & set(" \t\n")
