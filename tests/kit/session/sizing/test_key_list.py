"""Lists of keys of other programs: what is read, and what is refused."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard

from kit.core.errors import ConfigError
from kit.session.sizing import key_list
from kit.session.sizing.key_list import read_key_list


def read(tmp_path, text, block=None, name="keys.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_key_list(path, block)


def test_a_key_a_line(tmp_path):
    trace = read(tmp_path, "a\nb\na\n\nc\n", 4096)
    assert trace.block.size == 4 and trace.bytes_of.tolist() == [4096] * 3
    assert trace.block[0] == trace.block[2] != trace.block[1]
    assert trace.is_read.all() and trace.time_ns is None and trace.one_in == 1


def test_columns_by_name_in_any_order(tmp_path):
    trace = read(tmp_path, "# made by x\nkey,time_ns,other,op,bytes\n7,100,?,read,512\n8,150,?,write,4096\n")
    assert trace.time_ns.tolist() == [0, 50] and trace.is_read.tolist() == [True, False]
    assert trace.bytes_of[trace.block].tolist() == [512, 4096]


def test_columns_without_names(tmp_path):
    trace = read(tmp_path, "7 512 r 5\n7 1024 W 5\n")
    assert trace.is_read.tolist() == [True, False]
    # The last size of a block counts.
    assert trace.bytes_of.tolist() == [1024]


def test_quoted_keys_with_commas(tmp_path):
    trace = read(tmp_path, '"a,b",512\n"a,c",512\n"a,b",512\n')
    assert trace.bytes_of.size == 2 and trace.block.size == 3


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_files(tmp_path, pack):
    assert read(tmp_path, pack(b"a\nb\na\n"), 512).block.size == 3


def test_times_that_go_back_stay(tmp_path):
    trace = read(tmp_path, "key,time_ns\na,100\nb,90\nc,120\n", 512)
    assert trace.time_ns.tolist() == [0, 0, 20]


@pytest.mark.parametrize(
    ("text", "block", "words"),
    [
        ("", 512, "no requests"),
        ("key,bytes\n", None, "no requests"),
        ("# a comment\n", 512, "no requests"),
        ("a\nb\n", None, "no column says how large"),
        ("key,bytes\na,512\nb,-1\n", None, "line 3: bytes is '-1'"),
        ("key,bytes\na,NaN\n", None, "line 2: bytes is 'NaN'"),
        ("key,bytes\na,99999999999999999999999\n", None, "line 2: bytes is"),
        ("key,bytes\na,17000000\n", None, "from 1 to 16777216"),
        ("key,op\na,erase\n", 512, "line 2: op is 'erase', not read or write"),
        ("key,op\na,\x1b[31m\n", 512, "op is '?[31m'"),
        ("key,time_ns\na,x\n", 512, "line 2: time_ns is 'x'"),
        ("key,time_ns\na,-5\n", 512, "time_ns is '-5'"),
        ("key,bytes,bytes\na,1,1\n", None, "two columns have one name"),
        ("a,b,c,d,e,f\n", 512, "6 columns and no names"),
        ("a,512\nb,512,read,1,2,3\n", None, "no list of 2 columns"),
        (b"\x1f\x8b\x08\x00damaged", 512, "damaged compression"),
        (gzip.compress(gzip.compress(b"a\n" * 9, mtime=0), mtime=0), 512, "compressed once more"),
        (gzip.compress(zstandard.compress(b"a\n" * 9), mtime=0), 512, "compressed once more"),
        (zlib.compress(b"a\n" * 9), 512, "compressed once more"),
        (gzip.compress(b"# of 2026\n" + zlib.compress(b"a\n" * 9), mtime=0), 512, "compressed once more"),
    ],
)
def test_what_is_no_list_is_refused_with_its_line(tmp_path, text, block, words):
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text, block)
    assert words in refused.value.message, refused.value.message
    assert "\x1b" not in refused.value.message


@pytest.mark.parametrize("seed", range(6))
def test_damaged_bytes_are_read_or_refused(tmp_path, seed):
    """Never anything but a ConfigError."""
    random = np.random.default_rng(seed)
    good = b"key,bytes,op,time_ns\n" + b"".join(b"%d,512,read,%d\n" % (n % 50, n) for n in range(300))
    for _ in range(40):
        damaged = bytearray(good)
        for at in random.integers(0, len(damaged), 8):
            damaged[at] = random.integers(0, 256)
        try:
            assert read(tmp_path, bytes(damaged[: random.integers(1, len(damaged))])).block.size
        except ConfigError:
            pass


def test_many_keys_are_sampled_and_all_reads_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(key_list, "MOST_BLOCKS", 500)
    monkeypatch.setattr(key_list, "MOST_ACCESSES", 3000)
    monkeypatch.setattr(key_list, "_COUNTED_ROWS", 16)
    random = np.random.default_rng(1)
    keys, ops = random.integers(0, 8000, 40_000), random.random(40_000) < 0.7
    text = "".join(f"{key},{'read' if op else 'write'}\n" for key, op in zip(keys, ops, strict=True))
    trace = read(tmp_path, "key,op\n" + text, 512)
    assert trace.one_in >= 16 and trace.block.size <= 3000 and trace.bytes_of.size <= 600
    # A half that begins between two counts of 16 rows.
    assert trace.all_reads == pytest.approx(ops[20_000:].sum(), abs=16)
    # All requests for a block that is in the sample are.
    expected = np.bincount(keys, minlength=8000)
    assert set(np.bincount(trace.block)) <= set(expected)
    assert trace.block.size * trace.one_in == pytest.approx(40_000, rel=0.3)


def test_one_key_with_nearly_all_requests_is_no_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(key_list, "MOST_BLOCKS", 100)
    monkeypatch.setattr(key_list, "MOST_ACCESSES", 100)
    with pytest.raises(ConfigError, match=r"keys.*: one key has nearly all"):
        read(tmp_path, "a\n" * 1000, 512)


@pytest.mark.parametrize("block", [0, (16 << 20) + 1, 1 << 40])
def test_a_block_that_no_zfs_has_is_refused(tmp_path, block):
    with pytest.raises(ConfigError, match=r"--block is .* bytes: a block of ZFS has 1 to 16,777,216"):
        read(tmp_path, "a\n" * 1000, block)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("key,size\na,4096\nb,4096\n", "a column 'size': is it the bytes of a block?"),
        ("key,op\na,read\n,read\n", "line 3: key is ''"),
    ],
)
def test_what_would_be_left_out_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "keys.csv"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_key_list(path, 4096)
    assert words in error.value.message


def test_the_key_is_the_column_of_that_name_and_may_begin_with_a_hash(tmp_path: Path) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("# made by hand\n\ntime_ns,key\n" + "".join(f"{n},#{n % 7}\n" for n in range(70)))
    trace = read_key_list(path, 4096)
    assert (trace.bytes_of.size, trace.block.size) == (7, 70)
    assert trace.time_ns is not None and trace.time_ns[-1] == 69
