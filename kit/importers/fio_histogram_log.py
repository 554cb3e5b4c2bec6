"""fio's histogram logs (write_hist_log) of others; kit.load.fio_histogram_log is the parser.

The stamp is the end of a window; its I/Os are put into the interval in which the window began.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter

import numpy as np

from kit.core.text import commas
from kit.importers.base import CUT, OPS, TRIMS, Format, Options, Reading, data_line, only_kind
from kit.importers.fio_other_logs import notes
from kit.importers.histogram_accumulator import Account, Accumulator, IntArray
from kit.importers.source import Block, Source, in_order
from kit.load.fio_bins import LAYOUTS, HistogramColumns
from kit.load.fio_histogram_log import FIRST_COUNT, Windows, parse
from kit.load.fio_latency_log import TRIM, BadLine, shown
from kit.store.parts.import_source import ImportSource

_NATURAL = re.compile(rb"[ \t]*[0-9]{1,19}[ \t\r]*")
LAST_WINDOW = (
    "fio leaves the last, unfinished window out of this log: its I/Os are missing here; json+ of the same "
    "job has all (--output-format=json+)"
)
OF_SERVER = (
    "by its name a log that a fio server has sent: fio (up to 3.42 at least) counts I/Os of earlier windows "
    "in it again, so these counts are too high; import json+ of the same job instead"
)
_HINT = "repair or remove the line; nothing was imported"
_BACK = (
    "a log of all jobs (per_job_logs=0) is known by its name: call it x_clat_hist.log. Else repair or remove "
    "the line; nothing was imported"
)


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether the first line is one of fio's: as many bins as fio has, all numbers, and a direction."""
    fields = data_line(lines).split(b",")
    return (
        len(fields) - FIRST_COUNT in LAYOUTS
        and all(map(_NATURAL.fullmatch, fields))
        and int(fields[1]) <= TRIM
    )


def open_files(sources: Sequence[Source], options: Options) -> Reading:
    """Open logs, whose bins may be of unlike coarseness. Raises ConfigError for other bins than fio's."""
    layouts = {source: layout(source) for source in sources}
    versions = {source: f"fio {2 if mine.old else 3}" for source, mine in layouts.items()}
    only_kind(versions, "histograms of fio 2 and of fio 3 have unlike bins", "import them as two runs")
    # fio's coarse bins are whole numbers of fine ones.
    common = max(layouts.values(), key=lambda layout: layout.coarseness)
    tally = Accumulator(options.interval_ns, common.edges)
    return Reading(tally, read(layouts, options, tally, common))


def layout(source: Source) -> HistogramColumns:
    """The bins of one log, by its number of columns. Raises ConfigError if fio has no such bins."""
    first = source.head().split(b"\n", 1)[0]
    columns = first.count(b",") + 1 - FIRST_COUNT
    if columns in LAYOUTS:
        return LAYOUTS[columns]
    raise source.fail(
        1, f"{columns} bins; fio writes 1856 >> log_hist_coarseness, fio 2 1216 >> it: {shown(first)}"
    )


def read(
    layouts: Mapping[Source, HistogramColumns], options: Options, tally: Accumulator, common: HistogramColumns
) -> Generator[Account, None, None]:
    """Add logs to `tally`, whose bins are the columns of `common`: an account of each, one after the other.

    All are one stream of blocks: a log of a few MB is over before two threads have found their pace.
    Raises ConfigError for damage.
    """

    def work(item: tuple[Source, Block]) -> tuple[Source, Block, Windows | None]:
        source, block = item
        if block.cut:
            return source, block, None
        try:
            return source, block, parse(block.data, layouts[source].columns)
        except BadLine as error:
            raise source.fail(block.first_line + error.index, str(error), _HINT) from None

    all_blocks = ((source, block) for source in layouts for block in source.blocks())
    with closing(in_order(work, all_blocks)) as worked:
        # A source without a block has no layout either.
        for source, blocks in groupby(worked, key=itemgetter(0)):
            groups = np.array([tally.group(options.host_of(source), op) for op in OPS])
            yield _add(source, blocks, layouts[source], common, groups, tally)


def _add(
    source: Source,
    blocks: Iterator[tuple[Source, Block, Windows | None]],
    mine: HistogramColumns,
    common: HistogramColumns,
    groups: IntArray,
    tally: Accumulator,
) -> Account:
    """Add the blocks of one log."""
    account = Account(str(source.path))
    account.warnings += notes(source)
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
        tally.until_ns = max(tally.until_ns, int(windows.time_ms.max()) * 10**6)
        # A trim's line has no count here, so it does not matter which group it is given.
        group = groups[np.minimum(windows.direction, 1)]
        bins = column >> common.coarseness - mine.coarseness
        tally.add(tally.part(group, starts_ms * 10**6, bins, counts, row))
    if account.rows_counted:
        account.warnings += [LAST_WINDOW, *[OF_SERVER] * source.is_of_server]
    if opened:
        account.warnings.append(f"{commas(opened)} I/Os are in fio's last bin, which has no upper edge")
    return account


def _starts(
    source: Source, block: Block, windows: Windows, before_ms: dict[int, int], first_ms: int
) -> IntArray:
    """When each window began, in ms; `before_ms` has when the last of each direction ended, and is kept up.

    The first is taken to be `first_ms` long. In a log of all jobs, which fio writes one after the other, time
    that goes back begins the next job; else it raises ConfigError with the line.
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
        if source.is_of_all_jobs:
            starts[mine] = np.where(starts[mine] > times, np.maximum(times - first_ms, 0), starts[mine])
        back += mine[starts[mine] > times][:1].tolist()
    if back:
        line = min(back)
        raise source.fail(block.first_line + line, f"time goes back from {starts[line]} ms", _BACK)
    return starts


_SOURCE = ImportSource(
    files="fio histogram logs", program="fio", timed=True,
    latency="as fio counted it in its own bins (write_hist_log); a window counts where it began",
)  # fmt: skip
FORMAT = Format("fio-hist", "client", _SOURCE, recognises, open_files)
