"""The output of pg_test_fsync: a phase a row, with its mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from kit.importers.format_detection import Imported, detect
from kit.importers.source import Source
from tests.kit.importers.samples import DATA, imported, put

FILE = DATA / "pg_test_fsync.txt"
TEXT = FILE.read_text()
HEAD = "5 seconds per test\n\nNon-sync'ed 8kB writes:\n"
ROW = "        write                            333333.333 ops/sec       3 usecs/op\n"
FSYNC = "        fsync                             15384.000 ops/sec      65 usecs/op\n"
# As 9.2 prints it: no microseconds, and other words.
OLD = """2 seconds per test
O_DIRECT supported on this platform for open_datasync and open_sync.

Compare file sync methods using one 8kB write:
(in wal_sync_method preference order, except fdatasync
is Linux's default)
        open_datasync                                n/a*
        fdatasync                          61.345 ops/sec
        open_sync                                    n/a*
* This file system and its mount options do not support direct
I/O, e.g. ext4 in journaled mode.

Compare open_sync with different write sizes:
(This is designed to compare the cost of writing 16kB
in different write open_sync sizes.)
        16kB open_sync write               54.000 ops/sec
         8kB open_sync writes              27.500 ops/sec

Non-Sync'ed 8kB writes:
        write                           45000.000 ops/sec
"""
FOOTNOTE = (
    "* This file system and its mount options do not support direct\n  I/O, e.g. ext4 in journaled mode.\n"
)


def titles(run: Imported) -> list[str]:
    return [phase["title"] for phase in run.phases]


def texts(run: Imported) -> str:
    return " ".join(run.section["warnings"])


def test_each_row_is_a_phase_with_its_mean() -> None:
    assert detect(Source(FILE)).name == "pg-test-fsync"
    run = imported(FILE)
    assert len(titles(run)) == len(set(titles(run))) == 16
    assert titles(run)[:2] == ["one 8kB: open_datasync", "one 8kB: fdatasync"]
    assert titles(run)[-4:] == [
        "16 * 1kB open_sync writes", "write, fsync, close", "write, close, fsync", "not forced, 8kB: write",
    ]  # fmt: skip
    (first,) = [row for row in run.frame.iter_rows(named=True) if row["phase"] == run.phases[0]["name"]]
    # 18,482 a second, for 5 seconds; 54.1 us each.
    assert first["count"] == run.phases[0]["client_ios"] == 92_411
    assert first["lo_ns"] <= 54_106 < first["hi_ns"]
    (mean,) = run.phases[0]["sums"]
    assert mean["sum_ns"] / mean["ios"] == 54_106
    assert "not of single ones" in texts(
        run
    ) and "one 8kB: fsync_writethrough: not available there (n/a)" in texts(run)


@pytest.mark.parametrize(
    ("layer", "key", "other"),
    [("client", "client_ios", "server_ios"), ("nfs-server", "server_ios", "client_ios")],
)
def test_each_row_counts_its_own_ios_where_they_were_measured(layer: str, key: str, other: str) -> None:
    run = imported(FILE, layer=layer)
    counts = [run.frame.filter(run.frame["phase"] == phase["name"])["count"].sum() for phase in run.phases]
    assert [phase[key] for phase in run.phases] == counts and sum(counts) == run.section["rows_counted"]
    assert {phase[other] for phase in run.phases} == {0}


def blocks_of_4k(text: str) -> str:
    return text.replace("8kB", "4kB").replace("2 *  4kB", "2 *  8kB")


@pytest.mark.parametrize(
    ("change", "size"),
    [
        (blocks_of_4k, "4kB"),
        (lambda text: blocks_of_4k(text).replace("4kB", "64kB").replace("4 *  64kB", "4 *  4kB"), "64kB"),
        (lambda text: text.replace(":\n", ":  \t\n"), "8kB"),
        (lambda text: text.replace("Non-sync'ed", "Non-Sync'ed"), "8kB"),
        (lambda text: text.replace("\n", "\r\n"), "8kB"),
        (lambda text: "\n" + text, "8kB"),
        (lambda text: text.replace("\nCompare open_sync", f"{FOOTNOTE}\nCompare open_sync"), "8kB"),
    ],
)
def test_sections_are_known_whatever_their_blocks_and_blanks(
    tmp_path: Path, change: Callable[[str], str], size: str
) -> None:
    run = imported(put(tmp_path, change(TEXT), "x.txt"))
    assert titles(run) == [title.replace("8kB:", f"{size}:") for title in titles(imported(FILE))]
    assert [p["client_ios"] for p in run.phases] == [p["client_ios"] for p in imported(FILE).phases]


def test_versions_that_print_no_microseconds_are_read(tmp_path: Path) -> None:
    path = put(tmp_path, OLD, "x.txt")
    assert detect(Source(path)).name == "pg-test-fsync"
    run = imported(path)
    assert titles(run) == [
        "one 8kB: fdatasync", "16kB open_sync write", "8kB open_sync writes", "not forced, 8kB: write",
    ]  # fmt: skip
    assert [phase["client_ios"] for phase in run.phases] == [123, 108, 55, 90_000]
    assert "open_datasync: not available there (n/a)" in texts(
        run
    ) and "one 8kB: open_sync: not available there (n/a)" in texts(run)


def test_one_second_is_not_several(tmp_path: Path) -> None:
    path = put(tmp_path, TEXT.replace("5 seconds", "1 second", 1), "x.txt")
    assert detect(Source(path)).name == "pg-test-fsync"
    assert imported(path).phases[0]["client_ios"] == 18_482


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("cached.txt", "bypassed.txt"), ("cached", "bypassed")),
        (("cached/pg.txt", "bypassed/pg.txt"), ("cached/pg", "bypassed/pg")),
        (("pg.txt", "pg.log"), ("1. pg", "2. pg")),
    ],
)
def test_rows_of_several_files_are_phases_of_their_own(
    tmp_path: Path, names: tuple[str, str], found: tuple[str, str]
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    slower = TEXT.replace("18482.210 ops/sec      54", "8130.000 ops/sec     123")
    run = imported(*(put(tmp_path, text, name) for name, text in zip(names, (TEXT, slower), strict=True)))
    alone = titles(imported(FILE))
    assert titles(run) == [f"{name}: {title}" for name in found for title in alone]
    counts = {phase["title"]: phase["client_ios"] for phase in run.phases}
    assert [counts[f"{name}: one 8kB: open_datasync"] for name in found] == [92_411, 40_650]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "no I/O"),
        (HEAD + "        write        0.000 ops/sec       3 usecs/op\n", "line 4: 0 ops/sec cannot be"),
        (HEAD + "        write        0.000 ops/sec     inf usecs/op\n", "line 4: 0 ops/sec cannot be"),
        (HEAD + "        write   99999999999.000 ops/sec       3 usecs/op\n", "cannot be"),
        ("0 seconds per test\n", "line 1: not the begin"),
        ("six seconds per test\n", "not the begin"),
        (TEXT.replace("15384.000 ops/sec", "15384.000 ops/se"), r"x.txt, line 8: neither a row .*15384.000"),
        (TEXT.replace("      65 usecs/op", "      65 usec"), "line 8: neither a row"),
        (TEXT.replace("15384.000", "-15384.000"), "line 8: neither a row"),
        (TEXT.replace("15384.000", "nan"), "line 8: neither a row"),
        (TEXT.replace("15384.000 ops/sec", ""), "line 8: neither a row"),
        (TEXT.replace(FSYNC, FSYNC.lstrip().replace("15384", "x")), "line 8: neither a row"),
        (TEXT.replace("    fsync_writethrough   ", "    fsync   "), r"line 9: .*time, after line 8"),
        (TEXT.replace("\nCompare file sync methods using two 8kB writes:\n", ""), "line 12: .*second time"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    assert text != TEXT
    with pytest.raises(ConfigError, match=message) as caught:
        imported(put(tmp_path, text, "x.txt"), format="pg-test-fsync")
    assert caught.value.hint


def test_a_decimal_comma_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 6: ") as caught:
        imported(put(tmp_path, TEXT.replace(".210 ops", ",210 ops"), "x.txt"))
    assert "LC_ALL=C" in caught.value.hint


@pytest.mark.parametrize(
    "cut",
    [" usecs/op", "ec       3 usecs/op", ".333 ops/sec       3 usecs/op", ROW.strip(), ROW, f"s:\n{ROW}"],
)
def test_a_last_line_that_was_cut_is_left_out_with_a_warning(tmp_path: Path, cut: str) -> None:
    end = f"{ROW}"
    assert TEXT.endswith(end)
    text = TEXT.removesuffix("\n").removesuffix(cut.removesuffix("\n"))
    run = imported(put(tmp_path, text, "x.txt"))
    assert len(run.phases) == 15
    warned = "cut, left out" in texts(run)
    # Only before a whole line nothing can be seen.
    assert warned == (not text.endswith("\n")), texts(run)


def test_a_last_line_that_is_whole_counts_without_its_newline(tmp_path: Path) -> None:
    run = imported(put(tmp_path, TEXT.rstrip("\n"), "x.txt"))
    assert len(run.phases) == 16 and "cut" not in texts(run)


def test_a_test_that_was_interrupted_is_left_out_with_a_warning(tmp_path: Path) -> None:
    """On Ctrl-C pg_test_fsync ends the line of the test that goes on."""
    end = "         1 * 16kB open_sync write         "
    run = imported(put(tmp_path, TEXT[: TEXT.index(end)] + end + "\n", "x.txt"))
    assert len(run.phases) == 8 and "line 23: cut, left out: '         1 * 16kB open_sync write'" in texts(
        run
    )


def test_a_row_is_known_by_its_method_whichever_others_there_are(tmp_path: Path) -> None:
    """Lines of the terminal before it are no part of it."""
    run = imported(put(tmp_path, "$ pg_test_fsync\n" + TEXT.replace(FSYNC, ""), "x.txt"))
    assert [phase["name"] for phase in run.phases] == titles(run) and "one 8kB: fsync" not in titles(run)
    assert set(run.frame["phase"].unique()) == set(titles(run))
    assert "1 lines of text before it are left out" in texts(run)
