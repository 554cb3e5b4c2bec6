"""fio's histogram logs (write_hist_log): `time_ms, ddir, bs, count, count, ...` per window.

One line per window and direction. The stamp is the end of a window; its I/Os are put into the interval
in which the window began.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import numpy as np

from kit.importers.base import CUT, OPS, TRIMS, Format, Options, Reading, data_line, only_kind
from kit.importers.fio_bins import LAYOUTS, Layout
from kit.importers.histogram_accumulator import Account, IntArray, Tally
from kit.importers.number_columns import Irregular, not_zero
from kit.importers.source import Block, Source, in_order
from kit.load.fio_latency_log import MAX_TIME_MS, TRIM, shown
from kit.store.import_source import BY_FORMAT

_FIRST = 3
_MIN_COMMAS = 19
MAX_COUNT = 1 << 40
_HINT = "repair or remove the line; nothing was imported"
_NATURAL = re.compile(rb"[ \t]*0*[0-9]{1,19}[ \t\r]*")


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether the first line has at least as many columns as the coarsest histogram."""
    return data_line(lines).count(b",") >= _MIN_COMMAS


def open_files(sources: Sequence[Source], options: Options) -> Reading:
    """Open logs, whose bins may be of unlike coarseness. Raises ConfigError for other bins than fio's."""
    layouts = {source: layout(source) for source in sources}
    versions = {source: f"fio {2 if mine.old else 3}" for source, mine in layouts.items()}
    only_kind(versions, "histograms of fio 2 and of fio 3 have unlike bins", "import them as two runs")
    # fio's coarse bins are whole numbers of fine ones.
    common = max(layouts.values(), key=lambda layout: layout.coarseness)
    tally = Tally(options.interval_ns, common.edges)
    return Reading(tally, read(layouts, options, tally, common))


def layout(source: Source) -> Layout:
    """The bins of one log, by its number of columns. Raises ConfigError if fio has no such bins."""
    first = source.head().split(b"\n", 1)[0]
    columns = first.count(b",") + 1 - _FIRST
    if columns in LAYOUTS:
        return LAYOUTS[columns]
    raise source.fail(
        1, f"{columns} bins; fio writes 1856 >> log_hist_coarseness, fio 2 1216 >> it: {shown(first)}"
    )


def read(
    layouts: Mapping[Source, Layout], options: Options, tally: Tally, common: Layout
) -> Iterator[Account]:
    """Add logs to `tally`, whose bins are the columns of `common`: an account of each, one after the other.

    All are one stream of blocks: a log of a few MB is over before two threads have found their pace.
    Raises ConfigError for damage.
    """

    def work(item: tuple[Source, Block]) -> tuple[Source, Block, Windows | None]:
        source, block = item
        if block.cut:
            return source, block, None
        columns = layouts[source].columns
        return source, block, fast_windows(block, columns) or slow_windows(source, block, columns)

    worked = in_order(work, ((source, block) for source in layouts for block in source.blocks()))
    # A source without a block has no layout either.
    for source, blocks in groupby(worked, key=itemgetter(0)):
        groups = np.array([tally.group(options.host_of(source), op) for op in OPS])
        yield _add(source, blocks, layouts[source], common, groups, tally)


def _add(
    source: Source,
    blocks: Iterator[tuple[Source, Block, Windows | None]],
    mine: Layout,
    common: Layout,
    groups: IntArray,
    tally: Tally,
) -> Account:
    """Add the blocks of one log."""
    account = Account(str(source.path))
    before_ms: dict[int, int] = {}
    opened = 0
    for _, block, windows in blocks:
        if windows is None:
            account.warnings.append(f"{CUT} (line {block.first_line}): its I/Os are missing")
            continue
        row, column, counts = windows.row, windows.column, windows.counts
        account.read(int(counts.sum()))
        if int(windows.direction.max()) == TRIM:
            kept = windows.direction[row] < TRIM
            account.leave_out(TRIMS, int(counts[~kept].sum()))
            row, column, counts = row[kept], column[kept], counts[kept]
        account.rows_counted += int(counts.sum())
        opened += int(counts[column == mine.columns - 1].sum())
        starts_ms = _starts(source, block, windows, before_ms, tally.interval_ns // 10**6)
        # A trim's line has no count here, so it does not matter which group it is given.
        group = groups[np.minimum(windows.direction, 1)]
        bins = column >> common.coarseness - mine.coarseness
        tally.add(tally.part(group, starts_ms * 10**6, bins, counts, row))
    if opened:
        account.warnings.append(f"{opened} I/Os are in fio's last bin, which has no upper edge")
    return account


@dataclass(frozen=True)
class Windows:
    """The lines of a block, `time_ms` and `direction` one per line; and the counts that are not 0.

    `row` and `column` say where those are.
    """

    time_ms: IntArray
    direction: IntArray
    row: IntArray
    column: IntArray
    counts: IntArray


def _starts(
    source: Source, block: Block, windows: Windows, before_ms: dict[int, int], first_ms: int
) -> IntArray:
    """When each window began, in ms; `before_ms` has when the last of each direction ended, and is kept up.

    The first is taken to be `first_ms` long. Raises ConfigError with the line where time goes back.
    """
    starts = np.empty(windows.time_ms.size, dtype=np.int64)
    back = []
    for direction in range(TRIM + 1):
        mine = np.flatnonzero(windows.direction == direction)
        if not mine.size:
            continue
        times = windows.time_ms[mine]
        first = before_ms.get(direction, max(int(times[0]) - first_ms, 0))
        starts[mine] = np.concatenate([[first], times[:-1]])
        before_ms[direction] = int(times[-1])
        back += mine[starts[mine] > times][:1].tolist()
    if back:
        line = min(back)
        raise source.fail(block.first_line + line, f"time goes back from {starts[line]} ms", _HINT)
    return starts


def fast_windows(block: Block, columns: int) -> Windows | None:
    """The windows of whole lines, or None where anything is odd: then slow_windows finds out what."""
    width = columns + _FIRST
    try:
        lines, fields, values = not_zero(block.data, width)
    except Irregular:
        return None
    # Fields ascend, so nothing need be divided: where each line's begin, and those that are counts.
    line_ends = np.arange(1, lines + 1) * width
    found = np.diff(np.searchsorted(fields, line_ends), prepend=0)
    row = np.repeat(np.arange(lines), found)
    column = fields - np.repeat(line_ends - (width - _FIRST), found)
    time_ms, direction = np.zeros((2, lines), dtype=np.int64)
    heads = np.flatnonzero(column < 0)
    for number, part in enumerate((time_ms, direction)):
        mine = heads[column[heads] == number - _FIRST]
        part[row[mine]] = values[mine]
    counted = np.flatnonzero(column >= 0)
    row, column, counts = row[counted], column[counted], values[counted]
    if time_ms.max() > MAX_TIME_MS or direction.max() > TRIM or counts.max(initial=0) > MAX_COUNT:
        return None
    return Windows(time_ms, direction, row, column, counts)


def slow_windows(source: Source, block: Block, columns: int) -> Windows:
    """As fast_windows, line by line. Raises ConfigError with the line."""
    rows = [
        _row(source, number, line, columns)
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line)
    ]
    times, directions, counts = (np.array(part, dtype=np.int64) for part in zip(*rows, strict=True))
    row, column = np.nonzero(counts)
    return Windows(times, directions, row, column, counts[row, column])


def _row(source: Source, number: int, line: bytes, columns: int) -> tuple[int, int, IntArray]:
    fields = line.split(b",")
    if len(fields) != columns + _FIRST:
        found = f"{len(fields) - _FIRST} bins where the first line has {columns}"
        raise source.fail(number, f"{found}: {shown(line)}", _HINT)
    if not all(map(_NATURAL.fullmatch, fields)):
        bad = next(f for f in fields if not _NATURAL.fullmatch(f))
        raise source.fail(number, f"{shown(bad)} is not a natural number", _HINT)
    time_ms, direction = int(fields[0]), int(fields[1])
    counts = np.array(fields[_FIRST:], dtype=np.bytes_).astype(np.uint64)
    if time_ms > MAX_TIME_MS or direction > TRIM or int(counts.max()) > MAX_COUNT:
        raise source.fail(number, f"time, direction or count is impossible: {shown(line)}", _HINT)
    return time_ms, direction, counts.astype(np.int64)


FORMAT = Format("fio-hist", "client", BY_FORMAT["fio-hist"], recognises, open_files)
