"""The output of pg_test_fsync (PostgreSQL): for each method, how many operations a second.

It prints means alone. So each row is as many writes as were done, all with the mean as their latency: its
percentiles are not those of single writes, and the run says so. A row is a phase of its own. Source:
src/bin/pg_test_fsync/pg_test_fsync.c (OPS_FORMAT), before 9.5 contrib/pg_test_fsync.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal

from kit.core.errors import ConfigError
from kit.importers.histogram_accumulator import Account
from kit.importers.summaries.summary_file import SummaryFile, summary_format
from kit.load.fio_latency_log import shown

_LIMIT_BYTES = 1 << 20
_BEGIN = re.compile(r"([0-9]{1,6}) seconds? per test")
# Old versions print no microseconds.
_ROW = re.compile(r"[ \t]*(\S.{0,60}?) +([0-9]{1,15}\.[0-9]{1,9}) ops/sec(?: +(?:[0-9]{1,18}|inf) usecs/op)?")
_MISSING = re.compile(r"[ \t]*(\S.{0,60}?) +n/a\*?")
# Ended with Ctrl-C, it ends the line of the test that was going on.
_LABEL_ALONE = re.compile(r"[ \t]+(?:[0-9]+ \* +)?(?:[0-9]+kB )?[a-z][a-z_, ]{0,60}")
_COMMA = re.compile(r"[0-9],[0-9]")
# What stands before the rows, and how they are called then; the other sections' rows say all themselves.
_SECTIONS = (
    (re.compile(r"\b(one|two) ([0-9]{1,5}kB) writes?:$", re.IGNORECASE), r"\1 \2: "),
    (re.compile(r"\bnon-sync'ed ([0-9]{1,5}kB) writes?:$", re.IGNORECASE), r"not forced, \1: "),
)
_MOST_OPS_PER_S, _MOST_S = 1e9, 86_400
# Lines of a terminal that may stand before it, such as the prompt with the command.
_MOST_BEFORE = 20
_AGAIN = "give what pg_test_fsync printed, whole and unchanged; nothing was imported"


@dataclass
class _Table:
    """One output as it is read. `rows`: the line of each."""

    file: SummaryFile
    seconds: int
    section: str = ""
    rows: dict[str, int] = field(default_factory=dict)

    def add(self, line: int, label: str, rate: float) -> None:
        """A row. Raises ConfigError for one that cannot be."""
        ios = round(rate * self.seconds)
        if not 0 < rate <= _MOST_OPS_PER_S or not ios:
            raise self.file.fail(line, f"{rate:g} ops/sec cannot be", f"is the file damaged? {_AGAIN}")
        self._once(line, label)
        self.file.add_mean(label, "write", ios, Decimal(round(1e9 / rate)), line=line)

    def missing(self, line: int, label: str) -> None:
        """A row without a figure."""
        self._once(line, label)
        self.file.warn(f"{label}: not available there (n/a)")

    def label(self, words: str) -> str:
        """What a row is called. In its section alone it is the only one of that name."""
        return self.section + " ".join(words.split())

    def _once(self, line: int, label: str) -> None:
        first = self.rows.setdefault(label, line)
        if first != line:
            raise self.file.fail(
                line,
                f"the row {shown(label.encode())} is there a second time, after line {first}",
                "the output of one run has each row once: give each output as a file of its own",
            )


def read(file: SummaryFile) -> None:
    """Add one output. Raises ConfigError for a row that cannot be, or cannot be read."""
    text = file.source.whole(_LIMIT_BYTES).decode("utf-8", "replace")
    lines = _own_lines(text, file.account)
    table = _Table(file, _seconds(file, *(lines[0] if lines else (1, ""))))
    file.ran(Decimal(table.seconds * 10**9))
    last = lines[-1][0]
    footnote = False
    for number, line in lines[1:]:
        is_last, is_cut = number == last, number == last and not text.endswith("\n")
        if line.endswith(":") and not line[0].isspace() and not is_cut:
            table.section = _section(line)
        elif row := _ROW.fullmatch(line):
            table.add(number, table.label(row[1]), float(row[2]))
        elif missing := _MISSING.fullmatch(line):
            table.missing(number, table.label(missing[1]))
        elif is_cut or (is_last and _LABEL_ALONE.fullmatch(line)):
            file.warn(f"line {number}: cut, left out: {shown(line.encode())}")
        elif "ops/sec" in line or "usecs/op" in line or (line[0].isspace() and not footnote):
            raise _damaged(file, number, line)
        # What its asterisk means, goes on in a second line.
        footnote = line.startswith("*")


def _own_lines(text: str, account: Account) -> list[tuple[int, str]]:
    """Number and text of the lines of the output, without empty lines and what a terminal has before it."""
    lines = [(number, line) for number, each in enumerate(text.split("\n"), 1) if (line := each.rstrip())]
    for at, (_, line) in enumerate(lines[:_MOST_BEFORE]):
        if _BEGIN.fullmatch(line.strip()):
            account.warnings += [f"{at} lines of text before it are left out"] if at else []
            return lines[at:]
    return lines


def _section(line: str) -> str:
    for pattern, before in _SECTIONS:
        if found := pattern.search(line):
            return found.expand(before)
    return ""


def _damaged(file: SummaryFile, number: int, line: str) -> ConfigError:
    hint = _AGAIN
    if _COMMA.search(line):
        hint = "it has a decimal comma: run pg_test_fsync again with LC_ALL=C; nothing was imported"
    return file.fail(number, f"neither a row with ops/sec nor n/a: {shown(line.encode())}", hint)


def _seconds(file: SummaryFile, number: int, line: str) -> int:
    found = _BEGIN.fullmatch(line.strip())
    seconds = int(found[1]) if found else 0
    if not 0 < seconds <= _MOST_S:
        raise file.fail(
            number,
            f"not the begin of pg_test_fsync's output: {shown(line.encode())}",
            "give all of it, as LC_ALL=C prints it",
        )
    return seconds


FORMAT = summary_format(
    "pg-test-fsync", rb"\s*[0-9]{1,6} seconds? per test\s*$", read, files="pg_test_fsync output",
    program="pg_test_fsync", most_before=_MOST_BEFORE,
    latency="as the mean of each row of its table; of single writes nothing is known",
)  # fmt: skip
