"""Which format a file has, and files that have none."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from kit.importers.base import Options
from kit.importers.run import BY_NAME, detect, read_files
from kit.importers.source import Source
from tests.kit.importers.samples import DATA, ROW, SEEDS, imported, put


@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name, contents in SEEDS.items() for content in contents]
)
def test_each_format_is_recognised(tmp_path: Path, name: str, content: bytes) -> None:
    assert detect(Source(put(tmp_path, content, "x"))).name == name


@pytest.mark.parametrize("content", ["hello\n", "1 2 3\n", "1,2,3\n", ", ".join("1" * 12) + "\n"])
def test_what_no_format_recognises_is_refused_with_the_formats(tmp_path: Path, content: str) -> None:
    with pytest.raises(ConfigError, match="no known format; the first line is") as caught:
        detect(Source(put(tmp_path, content, "x")))
    assert set(BY_NAME) <= set(caught.value.hint.replace(",", "").split())


@pytest.mark.parametrize(
    ("content", "found", "hint"),
    [
        (b"", "empty", "leave them out"),
        (b" \n\n", "empty", "leave them out"),
        (b"\xef\xbb\xbf1 2\n", "byte order mark", "without BOM"),
        ("1 2\n".encode("utf-16"), "UTF-16", "UTF-8"),
        (b"1 2\n1 \0\n", "line 2: binary", "printed"),
        (bz2.compress(b"1 2\n"), "bzip2", "decompress it first"),
        (lzma.compress(b"1 2\n"), "xz", "decompress it first"),
        (zlib.compress(b"1 2\n"), "zlib", "--inflate-log"),
        (gzip.compress(gzip.compress(b"1 2\n", mtime=0), mtime=0), "compressed twice", "once"),
    ],
)
@pytest.mark.parametrize("format_", [None, *BY_NAME])
def test_what_is_no_text_is_called_what_it_is(
    tmp_path: Path, content: bytes, found: str, hint: str, format_: str | None
) -> None:
    """Also with --from: an empty histogram log had -2 bins."""
    with pytest.raises(ConfigError, match=found) as caught:
        read_files([put(tmp_path, content, "x.txt")], Options(format=format_, unit="us"))
    assert hint in caught.value.hint


def test_the_same_ios_are_not_counted_twice(tmp_path: Path) -> None:
    lat, clat = put(tmp_path, ROW, "a_lat.1.log"), put(tmp_path, ROW, "a_clat.1.log")
    with pytest.raises(ConfigError, match="unlike kinds"):
        imported(lat, clat)
    (tmp_path / "again").symlink_to(lat)
    with pytest.raises(ConfigError, match="the same file"):
        imported(lat, tmp_path / "again")
    with pytest.raises(ConfigError, match="unlike formats"):
        imported(lat, DATA / "plain.json")
