"""fio's per-I/O latency logs (write_lat_log) of others; kit.load.fio_latency_log is the parser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np

from kit.core.bins import bin_index
from kit.core.units import NS_PER_UNIT
from kit.importers.base import CUT, OPS, TRIMS, Format, Options, Reading, data_line
from kit.importers.clock_tick import tick_ns
from kit.importers.fio_log_unit import first_rows, unit_ns
from kit.importers.fio_other_logs import notes
from kit.importers.histogram_accumulator import Account, AccumulatedPart, Accumulator, IntArray
from kit.importers.source import Block, Source, in_order
from kit.load.fio_latency_log import (
    MAX_COLUMNS,
    MAX_LATENCY_NS,
    MIN_COLUMNS,
    TRIM,
    BadLine,
    column_count,
    parse,
    total_ns,
)
from kit.store.parts.import_source import ImportSource

_ASIDE_BITS = 60


_MS_NS = 1_000_000
_FIELD = re.compile(rb"[ \t]*(?:[0-9]{1,20}|0x[0-9a-fA-F]{1,16})[ \t\r]*")


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether the first line has as many numbers as one of a log of I/Os, and a direction among them."""
    fields = data_line(lines).split(b",")
    if not MIN_COLUMNS <= len(fields) <= MAX_COLUMNS or not all(map(_FIELD.fullmatch, fields)):
        return False
    # Of averages and maxima (log_window_value=both) the direction is one further.
    return any(field.strip() in (b"0", b"1", b"2") for field in fields[2:4])


def open_files(sources: Sequence[Source], options: Options) -> Reading:
    """Open logs, whose units may be unlike. Raises ConfigError where a log does not tell its unit."""
    units = {source: unit_ns(source, options) for source in sources}
    begins_ns = [_begin_ns(source, unit) for source, unit in units.items()]
    tally = Accumulator(options.interval_ns, begin_ns=min(begins_ns, default=0))
    return Reading(tally, (read(source, options, tally, unit) for source, unit in units.items()))


def _begin_ns(source: Source, unit: int) -> int:
    """When the first I/O began."""
    rows = first_rows(source)
    if rows is None or not rows.time_ms.size:
        return 0
    return max(int(rows.time_ms[0]) * _MS_NS - int(rows.latency_ns[0]) * unit, 0)


def read(source: Source, options: Options, tally: Accumulator, unit: int = 1) -> Account:
    """Add the I/Os of one log to `tally`; its latencies are of `unit` ns. Raises ConfigError for damage."""
    account = Account(str(source.path))
    account.warnings += notes(source)
    if unit == NS_PER_UNIT["us"] and options.unit is None:
        account.warnings.append(
            "its latencies are read as microseconds, as fio 2 wrote them: so they add up to the time that "
            "passed; if fio 3 wrote it (a paced job), give --unit ns"
        )
    groups = np.array([tally.group(options.host_of(source), op) for op in OPS])
    try:
        columns = column_count(source.head().split(b"\n", 1)[0])
    except BadLine as error:
        hint = error.hint or "is it what fio's write_lat_log wrote? --from says what a file is"
        raise source.fail(1, str(error), hint) from None

    work = partial(_digest, source, tally, groups, columns, unit)
    with closing(in_order(work, source.blocks())) as digests:
        for digest in digests:
            account.read(digest.rows)
            account.rows_counted += digest.ios
            account.leave_out(TRIMS, digest.trims)
            account.leave_out(CUT, digest.cut)
            if digest.part:
                tally.add(digest.part)
                tally.tick_ns = max(tally.tick_ns, digest.tick_ns)
                # Ends are cut to whole milliseconds.
                tally.until_ns = max(tally.until_ns, digest.part.last_ns + _MS_NS)
            for group, ios, sum_ns, low_ns, high_ns in digest.exact:
                tally.extremes(group, low_ns, high_ns)
                tally.sum(group, ios, sum_ns)
    return account


@dataclass(frozen=True)
class _Digest:
    """What one block held. `exact`: group, I/Os, sum, lowest and highest latency (ns) of each direction."""

    rows: int
    ios: int = 0
    trims: int = 0
    cut: int = 0
    part: AccumulatedPart | None = None
    exact: tuple[tuple[int, int, int, int, int], ...] = ()
    tick_ns: float = 0.0


def _digest(
    source: Source, tally: Accumulator, groups: IntArray, columns: int, unit: int, block: Block
) -> _Digest:
    if block.cut:
        return _Digest(rows=1, cut=1)
    try:
        rows = parse(block.data, columns)
    except BadLine as error:
        hint = error.hint or "repair or remove the line; nothing was imported"
        raise source.fail(block.first_line + error.index, str(error), hint) from None
    time_ms, latency_ns, direction = rows.time_ms, rows.latency_ns, rows.direction
    if unit > 1:
        if latency_ns.size and int(latency_ns.max()) >= MAX_LATENCY_NS // unit:
            line = block.first_line + int(latency_ns.argmax())
            raise source.fail(line, "the latency is impossible (104 days or more)", "is that its --unit?")
        latency_ns = latency_ns * unit
    kept = direction != TRIM
    ios = int(np.count_nonzero(kept))
    if ios < direction.size:
        time_ms, latency_ns, direction = time_ms[kept], latency_ns[kept], direction[kept]
    part = tally.part_of(groups, direction, time_ms * 1_000_000, bin_index(latency_ns))
    exact = tuple(_exact(groups, latency_ns, direction))
    return _Digest(kept.size, ios, kept.size - ios, 0, part, exact, tick_ns(latency_ns, unit))


def _exact(
    groups: IntArray, latency_ns: IntArray, direction: IntArray
) -> Iterator[tuple[int, int, int, int, int]]:
    """Group, I/Os, sum, lowest and highest latency (ns) of each direction (0 or 1) that occurs."""
    read_group, write_group = groups.tolist()
    size, writes = direction.size, int(np.count_nonzero(direction))
    if not size:
        return
    whole = total_ns(latency_ns)
    of_writes = total_ns(latency_ns * direction) if 0 < writes < size else whole * bool(writes)
    # Writes are moved out of the way, up and then down: picking rows takes five times as long.
    aside = direction << _ASIDE_BITS
    above, below = latency_ns + aside, latency_ns - aside
    if writes < size:
        yield read_group, size - writes, whole - of_writes, int(above.min()), int(below.max())
    if writes:
        moved = 1 << _ASIDE_BITS
        yield write_group, writes, of_writes, int(below.min()) + moved, int(above.max()) - moved


_SOURCE = ImportSource(
    files="fio latency logs", program="fio", latency="as fio saw it, I/O by I/O (write_lat_log)", timed=True
)
FORMAT = Format("fio-log", "client", _SOURCE, recognises, open_files, frozenset({"host", "unit"}))
