"""Files as blocks of whole lines, plain and compressed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from kit.core.errors import ConfigError
from kit.importers.source import Source
from tests.kit.importers.samples import DATA, ROW, imported, put, put_log

pytestmark = pytest.mark.any_python


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    for start, line in (("1,2,0,4,", 1), (ROW * 3, 4), (ROW * 200_000, 200_001)):
        with pytest.raises(ConfigError, match=f"line {line}: longer than 1 MiB"):
            imported(put_log(tmp_path, start + "1" * (5 << 20)), format="fio-log")


def test_a_zstd_file_that_begins_with_a_skippable_frame(tmp_path: Path) -> None:
    """pzstd puts the size of each frame into one before it."""
    frame = zstandard.ZstdCompressor().compress(ROW.encode())
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    found = imported(put(tmp_path, (skipped + frame) * 2, "x_lat.1.log.zst"))
    assert found.section["rows_counted"] == 2


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gz", "zst"])
def test_compressed_logs(tmp_path: Path, pack: object) -> None:
    plain = (DATA / "plain_clat.1.log").read_bytes()
    half = plain[: plain.index(b"\n", 500) + 1]
    packed = pack(half) + pack(plain[len(half) :])  # type: ignore[operator]
    path = put(tmp_path, packed, "plain_clat.1.log.gz")
    assert imported(path).frame.equals(imported(DATA / "plain_clat.1.log").frame)
    for damaged in (packed[:-5], packed[:30], packed[:20] + b"\0\0\0\0" + packed[24:]):
        with pytest.raises(ConfigError, match="damaged compression"):
            imported(put(tmp_path, damaged, "cut.log"), format="fio-log")


def test_a_block_border_loses_no_line(tmp_path: Path) -> None:
    lines = [f"{n}, {n + 1}, {n % 2}, 512, 0\n" for n in range(1000)]
    source = Source(put_log(tmp_path, "".join(lines)))
    for size in (1, 7, 100, 4096, 1 << 20):
        blocks = list(source.blocks(size))
        assert b"".join(b.data for b in blocks).decode() == "".join(lines)
        seen = 1
        for block in blocks:
            assert block.first_line == seen and not block.cut
            seen += block.data.count(b"\n")
