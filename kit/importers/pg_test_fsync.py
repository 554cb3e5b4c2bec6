"""The output of pg_test_fsync (PostgreSQL): for each method, how many operations a second.

It prints means alone. So each row is as many writes as were done, all with the mean as their latency: its
percentiles are not those of single writes, and the run says so. A row is a phase of its own. Source:
src/bin/pg_test_fsync/pg_test_fsync.c (OPS_FORMAT).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kit.core.bins import bin_index
from kit.importers.base import Format, Options, Reading, one_by_one
from kit.importers.histogram_accumulator import Account, Tally
from kit.importers.source import Source
from kit.store.parts.import_source import ImportSource

_LIMIT_BYTES = 1 << 20
_BEGIN = re.compile(rb"[0-9]{1,6} seconds per test")
_ROW = re.compile(r"[ \t]+(\S.{0,60}?) +([0-9]{1,15}\.[0-9]{1,9}) ops/sec +[0-9]{1,18} usecs/op")
_MISSING = re.compile(r"[ \t]+(\S.{0,60}?) +n/a\*?")
# What stands before the rows, and how they are called then; the other sections' rows say all themselves.
_SECTIONS = {"one 8kB write": "one 8kB", "two 8kB writes": "two 8kB", "Non-sync'ed": "not forced, 8kB"}
_MOST_OPS_PER_S, _MOST_S = 1e9, 86_400
_WARNING = "each row has its mean alone: percentiles are those of the means, not of single writes"


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether it begins as pg_test_fsync does."""
    return bool(lines and _BEGIN.fullmatch(lines[0].strip()))


def read(source: Source, options: Options, tally: Tally) -> Account:
    """Add one output to `tally`. Raises ConfigError for a row that cannot be."""
    account = Account(str(source.path), warnings=[_WARNING])
    text = source.whole(_LIMIT_BYTES).decode("utf-8", "replace")
    first, *lines = text.splitlines() or [""]
    seconds = _seconds(source, first)
    account.runtime_ns = seconds * 10**9
    section = ""
    for number, line in enumerate(lines, 2):
        if line.endswith(":") and not line[0].isspace():
            section = next((name for words, name in _SECTIONS.items() if words in line), "")
        elif row := _ROW.fullmatch(line.rstrip()):
            label = f"{section}: {row[1].strip()}" if section else " ".join(row[1].split())
            _add(source, number, tally, account, label, float(row[2]), seconds)
        elif missing := _MISSING.fullmatch(line.rstrip()):
            account.warnings.append(f"{section}: {missing[1]}: n/a" if section else f"{missing[1]}: n/a")
    return account


def _seconds(source: Source, line: str) -> int:
    words = line.split()
    seconds = (
        int(words[0]) if words and words[0].isascii() and words[0].isdecimal() and len(words[0]) < 7 else 0
    )
    if not 0 < seconds <= _MOST_S or not _BEGIN.fullmatch(line.strip().encode("utf-8", "replace")):
        raise source.fail(1, f"not the begin of pg_test_fsync's output: {line[:60]!r}", "give all of it")
    return seconds


def _add(
    source: Source,
    line: int,
    tally: Tally,
    account: Account,
    label: str,
    rate: float,
    seconds: int,
) -> None:
    ios = round(rate * seconds)
    if not 0 < rate <= _MOST_OPS_PER_S or not ios:
        raise source.fail(line, f"{rate:g} ops/sec cannot be", "is the file damaged?")
    account.read(ios)
    group = tally.group(label, "write")
    mean_ns = round(1e9 / rate)
    tally.add(tally.part(group, np.zeros(1, np.int64), bin_index([mean_ns]), np.array([ios])))
    tally.sum(group, ios, ios * mean_ns)
    account.rows_counted += ios


def open_files(sources: Sequence[Source], options: Options) -> Reading:
    """See kit.importers.base.Format."""
    return replace(one_by_one(read)(sources, options), rows_are_phases=True)


FORMAT = Format(
    "pg-test-fsync",
    "client",
    ImportSource(
        files="pg_test_fsync output",
        program="pg_test_fsync",
        latency="as the mean of each row of its table; of single writes nothing is known",
        timed=False,
    ),
    recognises,
    open_files,
)
