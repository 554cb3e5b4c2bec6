"""Trees: as many files as asked for, and those of a list, whatever the list says."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.config import tree_shape
from kit.config.tree_shape import MOST_DEPTH, Shape, even, read_list
from kit.core.errors import ConfigError

FIND = ["-type", "d", "-printf", "0 %P/\\n", "-o", "-type", "f", "-printf", "%s %P\\n"]


def listed(folder: Path, text: str | bytes) -> Shape:
    path, by = folder / "files.txt", folder / "tree.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    by.touch()
    return read_list(path, by)


@given(st.integers(1, 200), st.integers(0, 3), st.integers(1, 5), st.integers(0, 50), st.integers(0, 3000))
def test_an_even_tree(files: int, depth: int, width: int, least: int, more: int) -> None:
    shape = even(files, depth, width, least, least + more if least else 0, "7")
    assert (shape.files, shape.depth) == (files, depth)
    assert shape.directories == sum(width**level for level in range(depth + 1))
    counts = [len(sizes) for sizes in shape.sizes]
    assert max(counts) - min(counts) <= 1
    low, high = shape.least_and_most_bytes
    assert least <= low <= high <= (least + more if least else 0)
    assert all(parent < number for number, parent in enumerate(shape.parents, start=1))


def test_a_list_of_find_is_the_tree_that_it_was_made_of(tmp_path: Path) -> None:
    made = tmp_path / "made"
    for name, size in (("a", 3), ("x/b", 0), ("x/y/c d", 70_000), ("x/y/e\udcff", 5)):
        path = Path(os.path.join(made, name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"." * size)
    (made / "empty" / "deep").mkdir(parents=True)
    found = subprocess.run(["find", os.fspath(made), *FIND], capture_output=True, check=True).stdout
    shape = listed(tmp_path, found)
    assert (shape.files, shape.directories, shape.depth, shape.total_bytes) == (4, 5, 2, 70_008)
    assert sorted(map(sorted, shape.sizes)) == [[], [], [0], [3], [5, 70_000]]
    assert "c d" not in shape.to_json()


def test_the_order_of_a_list_is_kept_and_directories_come_before_what_is_in_them(tmp_path: Path) -> None:
    shape = listed(tmp_path, "5 b/c/x\n6 a\n7 b/y\n")
    assert shape == Shape((0, 1), ((6,), (7,), (5,)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ":1: no file in it"),
        ("0 /\n", ":1: no file in it"),
        ("5 a\nabc\n", ':2: "abc" is not BYTES PATH'),
        ("-5 a\n", "is not BYTES PATH"),
        ("5\n", "is not BYTES PATH"),
        ("\u0665 a\n", "is not BYTES PATH"),
        ("999999999999999999 a\n", "at most 64MiB"),
        ("5 ../a\n", "a path below the directory"),
        ("5 /etc/passwd\n", "a path below the directory"),
        ("5 a//b\n", "a path below the directory"),
        ("5 a/./b\n", "a path below the directory"),
        ("0 ..//\n", "a path below the directory"),
        (f"5 {'x' * 256}\n", "longer than 255 bytes"),
        (f"5 {'x/' * MOST_DEPTH}y\n", "names in it, at most"),
        ("5 a\n5 a\n", ":2: .*in the list already"),
        ("5 a/b\n5 a\n", ":2: .*in the list already"),
        ("5 a\n5 a/b\n", ":2: .*a file further up"),
        ("5 a\n0 a/\n", ":2: .*a file further up"),
        ("5 \x1b[2J/../b\n", r"\\x1b"),
        ("0 d/\r\n5 d/a\r\n", ":1: it ends in a carriage return"),
    ],
)
def test_lists_that_are_none_are_refused_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"files\.txt.*{problem}"):
        listed(tmp_path, text)


@pytest.mark.parametrize(
    ("line", "read", "said"),
    [
        ("0 d{}/\n", 11, "more than 10 directories"),
        ("5 f{}\n", 21, "more than 20 files"),
        ("no line {}\n", 100, ":100: "),
    ],
)
def test_a_list_is_read_until_it_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, read: int, said: str
) -> None:
    monkeypatch.setattr(tree_shape, "MOST_DIRECTORIES", 10)
    monkeypatch.setattr(tree_shape, "MOST_FILES", 20)
    taken: list[bytes] = []
    take = tree_shape._List.problem
    monkeypatch.setattr(tree_shape._List, "problem", lambda self, one: taken.append(one) or take(self, one))
    with pytest.raises(ConfigError, match=said) as error:
        listed(tmp_path, "".join(map(line.format, range(1000))))
    assert len(taken) <= read and "no file in it" not in error.value.message


def test_a_list_that_others_may_write_or_that_is_a_link_is_refused(tmp_path: Path) -> None:
    listed(tmp_path, "5 a\n")
    path, by = tmp_path / "files.txt", tmp_path / "tree.toml"
    path.chmod(0o666)
    with pytest.raises(ConfigError, match="by everybody"):
        read_list(path, by)
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    with pytest.raises(ConfigError, match="link"):
        read_list(tmp_path / "link.txt", by)


@given(st.binary(max_size=200))
def test_no_list_is_anything_but_a_tree_or_an_error(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            shape = listed(Path(folder), content)
        except ConfigError:
            return
    assert shape.files > 0 and len(shape.parents) == shape.directories - 1
