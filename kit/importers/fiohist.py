"""fio's histogram logs (write_hist_log): `time_ms, ddir, bs, count, count, ...` per window.

One line per window and direction. The stamp is the end of a window; its I/Os are put into the interval
in which the window began.
"""

from __future__ import annotations

import re

import numpy as np

from kit.errors import ConfigError
from kit.importers.fiobins import Layout, layout_of
from kit.importers.fiolog import CUT, MAX_TIME_MS, OPS, TRIM, TRIMS, shown
from kit.importers.source import Source
from kit.importers.tally import Account, IntArray, Tally

_FIRST = 3
MAX_COUNT = 1 << 40
_HINT = "repair or remove the line; nothing was imported"
_NATURAL = re.compile(rb"[ \t]*[0-9]{1,19}[ \t\r]*")


def layout(source: Source) -> Layout:
    """The bins of one log, told by its number of columns. Raises ConfigError if fio has no such bins."""
    first = source.head().split(b"\n", 1)[0]
    columns = first.count(b",") + 1 - _FIRST
    if found := layout_of(columns):
        return found
    raise source.fail(
        1, f"{columns} bins; fio writes 1856 >> log_hist_coarseness, fio 2 1216 >> it: {shown(first)}"
    )


def common_layout(sources: list[Source]) -> Layout:
    """The coarsest of the logs' layouts: fio's coarse bins are whole numbers of fine ones."""
    layouts = {source: layout(source) for source in sources}
    if len({found.old for found in layouts.values()}) > 1:
        raise ConfigError("histograms of fio 2 and of fio 3 have unlike bins", "import them as two runs")
    return max(layouts.values(), key=lambda found: found.coarseness)


def read(source: Source, tally: Tally, host: str, common: Layout) -> Account:
    """Add one log to `tally`, whose bins are the columns of `common`. Raises ConfigError for damage."""
    account = Account(str(source.path))
    mine = layout(source)
    groups = [tally.group(host, op) for op in OPS]
    before_ms: dict[int, int] = {}
    opened = 0
    for block in source.blocks():
        if block.cut:
            account.warnings.append(f"{CUT} (line {block.first_line}): its I/Os are missing")
            continue
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line):
            time_ms, direction, counts = _row(source, number, line, mine.columns)
            total = int(counts.sum())
            account.read(total)
            start_ms = before_ms.get(direction, max(time_ms - tally.interval_ns // 10**6, 0))
            if start_ms > time_ms:
                raise source.fail(number, f"time goes back from {start_ms} ms", _HINT)
            before_ms[direction] = time_ms
            if direction == TRIM:
                account.leave_out(TRIMS, total)
                continue
            used = np.flatnonzero(counts)
            bins = used >> (common.coarseness - mine.coarseness)
            times = np.full(used.size, start_ms * 1_000_000, dtype=np.int64)
            tally.add(groups[direction], times, bins, counts[used])
            account.rows_counted += total
            opened += int(counts[-1])
    if opened:
        account.warnings.append(f"{opened} I/Os are in fio's last bin, which has no upper edge")
    return account


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
