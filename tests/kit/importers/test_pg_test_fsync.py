"""The output of pg_test_fsync: a phase a row, with its mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.core.errors import ConfigError
from kit.importers.run import detect
from kit.importers.source import Source
from tests.kit.importers.samples import DATA, imported, put

FILE = DATA / "pg_test_fsync.txt"
HEAD = "5 seconds per test\n\nNon-sync'ed 8kB writes:\n"


def test_each_row_is_a_phase_with_its_mean() -> None:
    assert detect(Source(FILE)).name == "pg-test-fsync"
    run = imported(FILE)
    titles = [phase["title"] for phase in run.phases]
    assert len(titles) == len(set(titles)) == 16
    assert titles[:2] == ["one 8kB: open_datasync", "one 8kB: fdatasync"]
    assert titles[-4:] == [
        "16 * 1kB open_sync writes", "write, fsync, close", "write, close, fsync", "not forced, 8kB: write",
    ]  # fmt: skip
    (first,) = [row for row in run.frame.iter_rows(named=True) if row["phase"] == run.phases[0]["name"]]
    # 18,482 a second, for 5 seconds; 54.1 us each.
    assert first["count"] == run.phases[0]["client_ios"] == 92_411
    assert first["lo_ns"] <= 54_106 < first["hi_ns"]
    (mean,) = run.phases[0]["sums"]
    assert mean["sum_ns"] / mean["ios"] == 54_106
    texts = " ".join(run.section["warnings"])
    assert "not of single writes" in texts and "one 8kB: fsync_writethrough: n/a" in texts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD, "no I/O"),
        (HEAD + "        write        0.000 ops/sec       3 usecs/op\n", "0 ops/sec cannot be"),
        (HEAD + "        write   99999999999.000 ops/sec       3 usecs/op\n", "cannot be"),
        ("0 seconds per test\n", "not the begin"),
        ("six seconds per test\n", "not the begin"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        imported(put(tmp_path, text, "x.txt"), format="pg-test-fsync")
