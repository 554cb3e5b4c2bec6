"""Traces of two columns."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from kit.core.bins import bin_index
from kit.core.errors import ConfigError
from tests.kit.importers.samples import imported, put


@pytest.mark.parametrize(
    "text", ["0.5 120\n1.5 130\n", "0.5,120\n1.5,130\n", "# s us\n\n 0.5\t 120 \n1.5 , 130\n"]
)
def test_a_trace_of_two_columns(tmp_path: Path, text: str) -> None:
    found = imported(put(tmp_path, text, "x.txt"), unit="us", time_unit="s", op="write")
    rows = found.frame.sort("time_ns").rows()
    assert [(r[0], r[4], r[5], r[8]) for r in rows] == [(0, "write", "all", 1), (10**9, "write", "all", 1)]
    assert [int(bin_index(r[6])) for r in rows] == bin_index([120_000, 130_000]).tolist()
    assert found.section["files"][0]["left_out"] == ({"comments and empty lines": 2} if "#" in text else {})


@pytest.mark.parametrize(
    "bad", ["1 nan", "1 -5", "nan 1", "1 inf", "1", "1 2 3", "x y", "1 1e99", "1 \xff", "1,,2"]
)
def test_a_damaged_trace_is_refused_with_its_line(tmp_path: Path, bad: str) -> None:
    path = put(tmp_path, f"1 2\n1 3\n{bad}\n4 4\n".encode("latin-1"), "x.txt")
    with pytest.raises(ConfigError, match="line 3: "):
        imported(path, unit="us")


@pytest.mark.parametrize(
    "inner",
    [b"x\x01\t2\x031\n&2,\n", gzip.compress(bytes(1 << 20), mtime=0) + b" 1\n", b"\x28\xb5\x2f\xfd 1\n"],
)
def test_what_is_compressed_twice_is_text_that_is_damaged(tmp_path: Path, inner: bytes) -> None:
    """Found by fuzzing: a parser of CSV decompressed what looked compressed, and failed in its own way."""
    for content in (inner, gzip.compress(inner)):
        with pytest.raises(ConfigError, match=r"line 1: |damaged compression|compressed twice"):
            imported(put(tmp_path, content, "x.txt"), format="trace", unit="us")


def test_a_trace_needs_a_unit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(put(tmp_path, "1 2\n", "x.txt"))
    assert "--unit" in caught.value.hint
