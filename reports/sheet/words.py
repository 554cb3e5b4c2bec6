"""Words and marks of the sheet, the same in every form."""

from __future__ import annotations

from kit.store.sheet import Candidate, SheetLine

# A need without a number.
REQUIRED = "required"
MARKS = {True: "met", False: "not met", None: "not known"}
# What stands on a candidate's chip, and its colour on a page.
CHIPS = {
    "buy": ("buy", "valid"),
    "too-slow": ("too slow", "invalid"),
    "not-met": ("not what you need", "invalid"),
    "worse": ("worse than now", "invalid"),
    "no-change": ("no change for clients", "unknown"),
    "cannot-tell": ("cannot tell", "unknown"),
    "today": ("today", "today"),
}
# Words that a reader may not know.
WORDS = (
    ("Log device (SLOG)", "a drive that keeps writes which must be safe at once, until the pool has them"),
    ("L2ARC", "a drive that answers reads which memory (ARC) does not hold"),
    ("Synchronous write", "the client waits until the server says that the data is safe"),
    ("p50, p99, p99.9", "half, 99 %, 99.9 % of all I/Os take at most so long"),
    ("Aged", "measured after the drive was filled, as often as its note says; new drives are faster"),
    ("I/O/s", "reads or writes a second"),
    ("Write amplification", "bytes that the flash is programmed with for each byte that is written"),
    ("95 %, over 3 runs", "the value lies in this range with 95 % confidence, by what the runs differ in"),
    ("Within this run", "by its sample size alone: another run may give another value"),
)


def marked(line: SheetLine, candidate: Candidate) -> str:
    """The text of a value; with what is needed, whether it is met."""
    value = candidate.values[line.key]
    mark = MARKS[value.met]
    return f"{value.text}: {mark}" if line.need and value.text != mark else value.text
