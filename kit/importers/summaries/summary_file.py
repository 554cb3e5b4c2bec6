"""What the formats of this folder share: series of counts between two bounds, or of a mean alone.

A series is what a file has under one name: a map, a metric with its labels, a mount and its operation. Each
becomes a phase with that title. Series are never summed up: the same I/O may be in several. Bins stay those
of the source, however wide: what a percentile can be in them, the report says with its bounds. Of a mean all
I/Os are put into the bin of the mean, as with pg_test_fsync, and a warning says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np

from kit.core.bins import bin_edges, bin_index
from kit.core.errors import ConfigError
from kit.core.text import counted, safe_text
from kit.importers.base import Format, Options, Reading
from kit.importers.histogram_accumulator import Account, Accumulator, IntArray, plain
from kit.importers.source import Source
from kit.load.fio_latency_log import MAX_LATENCY_NS, shown
from kit.store.parts.import_source import ImportSource

# low_ns (inclusive), high_ns (exclusive; None: the source has no upper edge), I/Os
Bin = tuple[int, int | None, int]
MAX_COUNT = 1 << 53
_MAX_BYTES = 64 << 20
# As many as an accumulator numbers.
_MOST_BOUNDS = 2048
_MOST_TITLE, _MOST_NAME = 200, 100
_MOST_RUNTIME_NS = 1 << 60
_AGAIN = "give what the program printed, whole and unchanged; nothing was imported"
_OPS = "read|write|commit|fsync|fdatasync|getattr|setattr|lookup|access|create|remove|rename|readdir"
_OP = re.compile(rf"(?<![a-z])({_OPS})(?:s|ing)?(?![a-z])", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,19}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?")
_UNIT = re.compile(
    r"(?<![a-z])(?:(ns|nsecs?|nanoseconds?)|(us|usecs?|microseconds?)|(ms|msecs?|milliseconds?)"
    r"|(s|secs?|seconds?))(?![a-z])",
    re.IGNORECASE,
)
_MEANS = "each row has its mean alone: percentiles are those of the means, not of single ones"
_NO_OP = "nothing says which operation these are: they are counted as reads (--op says what they are)"


def units_of(text: str) -> set[int]:
    """Units of time in a text, as powers of 1000."""
    return {n for found in _UNIT.finditer(text) for n in range(4) if found[n + 1]}


class _Bounds:
    """Numbers for pairs of bounds, in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}

    def number(self, low_ns: int, high_ns: int) -> int:
        number = self._numbers.setdefault((low_ns, high_ns), len(self._numbers))
        if number >= _MOST_BOUNDS:
            raise ConfigError(
                f"more than {_MOST_BOUNDS} different bins", "import fewer series or files at once"
            )
        return number

    def edges(self, numbers: IntArray) -> tuple[IntArray, IntArray]:
        table = np.array(list(self._numbers), dtype=np.int64).reshape(-1, 2)
        return table[numbers, 0], table[numbers, 1]


@dataclass
class SummaryFile:
    """One file as it is read. `before`: what stands before each title, where there are several files."""

    source: Source
    options: Options
    tally: Accumulator
    bounds: _Bounds
    account: Account
    before: str = ""
    titles: dict[str, int] = field(default_factory=dict)

    def lines(self, whole_end: str | tuple[str, ...] = "\n") -> Iterator[tuple[int, str]]:
        """Number and text of each line that is not empty.

        What follows the last newline is left out with a warning, unless it ends with `whole_end`. Raises
        ConfigError for a line of more than a megabyte and a file of more than 64.
        """
        seen = 0
        for block in self.source.blocks():
            seen += len(block.data)
            if seen > _MAX_BYTES:
                raise self.source.fail(
                    block.first_line, f"more than {_MAX_BYTES >> 20} MiB", "no tool writes that much here"
                )
            for number, raw in enumerate(block.data.split(b"\n"), block.first_line):
                text = raw.decode("utf-8", "replace").rstrip()
                if block.cut and not text.endswith(whole_end):
                    self.warn(f"line {number}: cut, left out: {shown(raw)}")
                elif text:
                    yield number, text

    def warn(self, text: str) -> None:
        """Say it once."""
        if text not in self.account.warnings:
            self.account.warnings.append(text)

    def fail(self, line: int | None, found: str, hint: str = "") -> ConfigError:
        """The error for damage; `line` counts from 1."""
        return self.source.fail(line, found, hint or _AGAIN)

    def bad_line(self, line: int, text: str, what: str) -> ConfigError:
        """The error for a line that is not `what`."""
        return self.fail(line, f"not {what}: {shown(text.encode())}")

    def number(self, text: str, line: int | None, what: str, unit: int = 1) -> Decimal:
        """`text` times `unit`, exact. Raises ConfigError for what is no number from 0 on, or is absurd."""
        value = Decimal(text) * unit if _NUMBER.fullmatch(text) else Decimal(MAX_COUNT)
        if value >= MAX_COUNT:
            raise self.fail(line, f"{what} is {text[:40]!r}, and must be a number from 0 to 2^53")
        return value

    def count(self, text: str, line: int | None) -> int:
        """I/Os. Raises ConfigError for what is no whole number of them."""
        value = self.number(text, line, "a count")
        if value != int(value):
            raise self.fail(line, f"{text[:40]!r} I/Os: not a whole number")
        return int(value)

    def op(self, *texts: str) -> str:
        """The operation that a name has; else that of --op; else reads, with a warning."""
        found = {str(word).lower() for text in texts for word in _OP.findall(text)}
        if len(found) == 1:
            return found.pop().replace("fdatasync", "fsync")
        if self.options.op is None:
            self.warn(_NO_OP)
        return self.options.op or "read"

    def unit_ns(self, name: str, line: int | None = None) -> int:
        """The unit that --unit says, else the one that a name has. Raises ConfigError without one."""
        units = units_of(self.options.unit or name)
        if len(units) != 1:
            said = "several units" if units else "no unit of time"
            raise self.fail(line, f"{said} in {name[:80]!r}", "say it: --unit ns, us, ms or s")
        return int(1000 ** units.pop())

    def ran(self, time_ns: Decimal) -> None:
        """How long the program ran; the longest of a file is that of the import."""
        self.account.runtime_ns = min(max(self.account.runtime_ns, int(time_ns)), _MOST_RUNTIME_NS)

    def add(
        self, title: str, op: str, bins: Iterable[Bin], *, line: int | None = None,
        time_ns: int | None = None, sum_ns: int | None = None,
    ) -> None:  # fmt: skip
        """I/Os of a series, bin by bin, and the sum of their latencies, where it is known.

        A title that was there gets a number, but with `time_ns` it is the next interval of the same series. A
        bin without an upper edge ends at twice its lower one, with a warning. Raises ConfigError.
        """
        used = [each for each in bins if each[2]]
        ios, least_ns = sum(each[2] for each in used), sum(low * n for low, _, n in used)
        if not ios:
            return
        title = safe_text(plain(title))[:_MOST_TITLE]
        times = self.titles[title] = self.titles.get(title, 0) + (time_ns is None)
        group = self.tally.group(self.before + title + (f" #{times}" if times > 1 else ""), op)
        numbers, most_ns = [], 0
        for low, high, n in used:
            if high is None:
                self.warn(f"{counted(n, 'I/O')} in the last bin, which has no upper edge: see its lower one")
                # As zpool's: twice the lower edge, but no more than the sum of all latencies has room for.
                rest_ns = low if sum_ns is None or sum_ns < least_ns else sum_ns - least_ns
                high = low + max(min(low, rest_ns), 1)
            if not 0 <= low < high <= MAX_LATENCY_NS:
                raise self.fail(line, f"a bin from {low} to {high} ns", "latencies are 0 to 104 days long")
            numbers.append(self.bounds.number(low, high))
            most_ns += high * n
        self.account.read(ios)
        self.account.rows_counted += ios
        self.tally.add_at(time_ns or 0, group, numbers, [each[2] for each in used])
        if sum_ns is not None and least_ns <= sum_ns <= most_ns:
            self.tally.sum(group, ios, sum_ns)
        elif sum_ns is not None:
            self.warn("the sum of its latencies cannot be that of its bins, and is not used")

    def add_mean(
        self, title: str, op: str, ios: int, mean_ns: Decimal, *, off_ns: Decimal = Decimal(0),
        line: int | None = None,
    ) -> None:  # fmt: skip
        """A row that has a number of I/Os and their mean, which is up to `off_ns` more than `mean_ns`."""
        if mean_ns + off_ns >= MAX_LATENCY_NS:
            raise self.fail(line, f"a mean of {mean_ns:.3g} ns is impossible (104 days or more)")
        self.warn(_MEANS)
        (low, _), (_, high) = np.transpose(
            bin_edges(bin_index([int(mean_ns), int(mean_ns + off_ns)]))
        ).tolist()
        exact = off_ns * 100 <= mean_ns
        self.add(
            title, op, [(low, high, ios)], line=line,
            sum_ns=round(ios * (mean_ns + off_ns / 2)) if exact else None,
        )  # fmt: skip

    def leave_out(self, reason: str, ios: int) -> None:
        """I/Os that are read and not counted, and why."""
        self.account.set_aside(reason, ios)


def _names(sources: Sequence[Source]) -> list[str]:
    """What tells the files apart: their names, or with the folders, or with numbers."""
    names = [plain(source.host)[:_MOST_NAME] for source in sources]
    folders = [plain(source.path.absolute().parent.name)[:_MOST_NAME] for source in sources]
    longer = [f"{folder}/{name}" for folder, name in zip(folders, names, strict=True)]
    numbered = [f"{number}. {name}" for number, name in enumerate(names, 1)]
    return next(each for each in (names, longer, numbered) if len(set(each)) == len(sources))


def summary_format(
    name: str, looks: bytes, read: Callable[[SummaryFile], None], *, files: str, program: str, latency: str,
    timed: bool = False, uses: Iterable[str] = (), layer: str = "client", most_before: int = 1000,
    step_ns: Callable[[Source], int] = lambda source: 0,
) -> Format:  # fmt: skip
    """A format whose series are phases. `read` adds one file; `step_ns`: how long the intervals in it are.

    Its files have a line that begins as the pattern `looks` says, after fewer than `most_before` others.
    """
    pattern = re.compile(looks)

    def recognises(lines: Sequence[bytes]) -> bool:
        return any(pattern.match(line) for line in lines[:most_before])

    def open_files(sources: Sequence[Source], options: Options) -> Reading:
        bounds = _Bounds()
        tally = Accumulator(max([options.interval_ns, *map(step_ns, sources)]), bounds.edges)
        prefixes = [f"{name}: " for name in _names(sources)] if len(sources) > 1 else [""]

        def accounts() -> Generator[Account, None, None]:
            for each, before in zip(sources, prefixes, strict=True):
                file = SummaryFile(each, options, tally, bounds, Account(str(each.path)), before)
                read(file)
                yield file.account

        return Reading(tally, accounts(), rows_are_phases=True)

    source = ImportSource(files=files, program=program, latency=latency, timed=timed)
    return Format(name, layer, source, recognises, open_files, frozenset(uses))
