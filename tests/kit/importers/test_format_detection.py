"""What holds for every format: which one a file has, errors, progress, and any bytes are read or refused."""

from __future__ import annotations

import bz2
import functools
import gzip
import lzma
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.core.errors import ConfigError
from kit.importers.base import Options
from kit.importers.format_detection import BY_NAME, detect, read_files
from kit.importers.histogram_accumulator import Accumulator
from kit.importers.source import Source
from tests.kit.importers.samples import DATA, ROW, SEEDS, imported, put, survives

SEEDS_BY_NAME = [(name, content) for name, contents in SEEDS.items() for content in contents]
HIST = "{time}, 0, 512, " + ", ".join(["0"] * 1850 + ["{count}"] + ["0"] * 5) + "\n"


def hist(lines: int, bad: int = 0) -> bytes:
    """A histogram log, with a line that is no histogram's."""
    rows = [HIST.format(time=n * 1000, count="NaN" if n == bad else 7) for n in range(1, lines + 1)]
    return "".join(rows).encode()


@pytest.mark.parametrize("lines", [40, 400])
def test_the_first_error_in_order_is_told_whatever_was_read_ahead(tmp_path: Path, lines: int) -> None:
    bad = put(tmp_path, hist(lines, lines), "one_clat_hist.1.log")
    # More than is looked at to tell what kind of file it is.
    cut = put(tmp_path, gzip.compress(hist(300))[:-20], "two_clat_hist.2.log.gz")
    with pytest.raises(ConfigError, match=rf"one_clat_hist.1.log, line {lines}: .*NaN"):
        imported(bad, cut)
    with pytest.raises(ConfigError, match=r"two_clat_hist.2.log.gz: damaged compression"):
        imported(put(tmp_path, hist(9), "good_clat_hist.3.log"), cut, bad)


@pytest.mark.parametrize(
    ("content", "name"),
    [(hist(40), "x_clat_hist.1.log"), ((ROW * 40).encode(), "x_lat.log")],
    ids=["hist", "log"],
)
def test_no_thread_is_left_to_the_garbage_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, name: str
) -> None:
    def full(tally: Accumulator, part: object) -> None:
        raise ConfigError("too much", "import less")

    monkeypatch.setattr(Accumulator, "add", full)
    with pytest.raises(ConfigError, match="too much"):
        imported(put(tmp_path, content, name))
    assert not [each for each in threading.enumerate() if each.name.startswith("ThreadPoolExecutor")]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_progress_over_many_files_never_goes_back(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    paths = [put(tmp_path, pack(hist(20 * n)), f"x{n}_clat_hist.{n}.log") for n in range(1, 5)]
    told: list[float] = []
    found = read_files(paths, Options(), told.append)
    assert found.section["rows_counted"] == 7 * 20 * 10
    assert told == sorted(told) and told[-1] == 1 and told[0] < 0.5


@functools.cache
def little() -> bytes:
    """300 MiB that are packed."""
    return gzip.compress(bytes(300 << 20), 1)


@pytest.mark.parametrize("format_", BY_NAME)
def test_little_that_inflates_to_much_is_refused_in_little_memory(tmp_path: Path, format_: str) -> None:
    path = put(tmp_path, little(), "x.gz")
    tracemalloc.start()
    try:
        with pytest.raises(ConfigError):
            imported(path, format=format_, unit="us")
        # The formats that are documents are bounded at 64 and 256 MiB of content.
        assert tracemalloc.get_traced_memory()[1] < 560 << 20
    finally:
        tracemalloc.stop()


TOKENS = [
    b"",
    b"\n",
    b",",
    b" ",
    b"-",
    b"nan",
    b"inf",
    b"1e99",
    b"9" * 19,
    b"\xff",
    b"\0",
    b"{",
    b'"',
    b"}",
    b"0x",
]


edits = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(TOKENS) | st.binary(max_size=4)),
    max_size=4,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(SEEDS_BY_NAME),
    edits,
    st.booleans(),
)
def test_damaged_files_are_read_or_refused(
    tmp_path: Path, seed: tuple[str, bytes], changes: list[tuple[float, int, bytes]], told: bool
) -> None:
    format_, content = seed
    for where, length, token in changes:
        at = int(where * len(content))
        content = content[:at] + token + content[at + length :]
    path = put(tmp_path, content, "x")
    survives([path], Options(format=format_ if told else None, unit="us", log_vdevs=frozenset({1})))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=300),
    st.sampled_from([*BY_NAME, None]),
    st.sampled_from([b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]),
)
def test_any_bytes_are_read_or_refused(
    tmp_path: Path, content: bytes, format_: str | None, start: bytes
) -> None:
    path = put(tmp_path, start + content, "x")
    survives([path], Options(format=format_, unit="us", log_vdevs=frozenset({1})))


_ALL = {"host": "a", "op": "write", "unit": "us", "time_unit": "us", "log_vdevs": frozenset({1})}
_USED = {
    "fio-log": {"--host", "--unit"},
    "trace": {"--host", "--op", "--unit", "--time-unit"},
    "bpftrace": {"--host", "--log-vdev"},
    "pg-test-fsync": set[str](),
    "diskinfo": set[str](),
    "fio-percentiles": set[str](),
    "bpf-hist": {"--op", "--unit"},
    "elbencho": set[str](),
    "hdr-log": {"--op", "--unit"},
    "hdr-percentiles": {"--op", "--unit"},
    "ioping": {"--op"},
    "mountstats": set[str](),
    "nfsiostat": set[str](),
    "prometheus": {"--op", "--unit"},
    "vdbench": {"--op"},
}


@pytest.mark.parametrize(("name", "content"), [(name, contents[-1]) for name, contents in SEEDS.items()])
def test_an_option_without_effect_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    found = imported(put(tmp_path, content, "x"), **_ALL).section["warnings"]
    said = {
        warning.split()[0]
        for warning in found
        if warning.endswith(f"has no effect on files of the format {name}")
    }
    assert said == {"--host", "--op", "--unit", "--time-unit", "--log-vdev"} - _USED.get(name, {"--host"})


@pytest.mark.parametrize(("name", "content"), SEEDS_BY_NAME)
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
        imported(put(tmp_path, content, "x.txt"), format=format_, unit="us")
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


BONNIE = "1.97,1.97,host,1,1700000000,8G,,1010,99,145035,15,74341,9,4899,97,187364,10,411.5,6,16" + "," * 5
BONNIE += "11862,19,+++++,+++,17463,24,14174,21,+++++,+++,17437,24,9213us,1024ms,1097ms,10453us,209ms\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BONNIE, "no known format: this is the CSV of bonnie++"),
        ("nsec, read_clat_ns_count, read_clat_ns_cumulative,\n12, 3, 3,\n", "CSV of fio_jsonplus_clat2csv"),
        ("clat_nsec, read_count, read_cumulative, read_percentile, \n12, 3, 3, 1, \n", "CSV of fio_jsonplus"),
        ("  capacity  operations  total_wait disk_wait\npool alloc free read\n", "zpool iostat -l"),
        ("$ fio\n", "no known format; the first line is"),
        ("1, 2, 3, 4, 5\n", "no known format; the first line is"),
        (", ".join("7" * 31) + "\n", "no known format; the first line is"),
    ],
)
def test_a_file_of_another_program_is_not_called_damaged(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        imported(put(tmp_path, content, "x.csv"))
    assert said in caught.value.message
