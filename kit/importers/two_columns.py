"""Two columns, `time latency`, parted by blanks or a comma; decimals allowed. Lines with # are comments.

Times and latencies are rounded to whole nanoseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.core.bins import bin_index
from kit.core.errors import ConfigError
from kit.core.units import NS_PER_UNIT
from kit.importers.base import CUT, Format, Options, data_line, one_by_one
from kit.importers.clock_tick import tick_ns
from kit.importers.histogram_accumulator import Account, Accumulator
from kit.importers.source import MAX_LINE_BYTES, Block, Source
from kit.load.fio_latency_log import MAX_LATENCY_NS, shown, total_ns
from kit.store.parts.import_source import ImportSource

Floats = npt.NDArray[np.float64]
_COMMENTS = "comments and empty lines"
_MAX_TIME_NS = 2**62
_NUMBER = re.compile(rb"[0-9]{1,19}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,2})?")
_BEGINNINGS = b"0123456789."
_SPLIT = re.compile(rb"[ \t]*,[ \t]*|[ \t]+")


def recognises(lines: Sequence[bytes]) -> bool:
    """Whether the first line that is not a comment has two numbers."""
    fields = _SPLIT.split(data_line(lines).strip())
    return len(fields) == 2 and all(map(_NUMBER.fullmatch, fields))


def read(source: Source, options: Options, tally: Accumulator) -> Account:
    """Add one trace to `tally`. Raises ConfigError without a unit; and for damage, with its line."""
    if options.unit is None:
        raise ConfigError("a trace does not name its unit", "give --unit ns, us, ms or s")
    unit_ns, time_unit_ns = NS_PER_UNIT[options.unit], NS_PER_UNIT[options.time_unit or options.unit]
    account = Account(str(source.path))
    group = tally.group(options.host_of(source), options.op or "read")
    for block in source.blocks():
        if block.cut:
            account.rows_read += 1
            account.leave_out(CUT)
            continue
        account.rows_read += block.lines
        columns = _fast(block, unit_ns, time_unit_ns)
        if columns is None:
            columns = _slow(source, block, unit_ns, time_unit_ns)
            account.leave_out(_COMMENTS, block.lines - columns[0].size)
        time_ns, latency_ns = (np.rint(c).astype(np.int64) for c in columns)
        if time_ns.size:
            tally.tick_ns = max(tally.tick_ns, tick_ns(latency_ns, unit_ns))
            part = tally.part(group, time_ns, bin_index(latency_ns))
            tally.add(part)
            tally.until_ns = max(tally.until_ns, part.last_ns)
            tally.extremes(group, int(latency_ns.min()), int(latency_ns.max()))
            tally.sum(group, latency_ns.size, total_ns(latency_ns))
        account.rows_counted += time_ns.size
    return account


def _fast(block: Block, unit_ns: int, time_unit_ns: int) -> tuple[Floats, Floats] | None:
    """Times and latencies in ns, or None where a line is not two natural or decimal numbers."""
    first = block.data[:MAX_LINE_BYTES].split(b"\n", 1)[0]
    if block.data[0] not in _BEGINNINGS:
        # read_csv would decompress what begins as zlib, gzip or zstd do, without a bound.
        return None
    separator = next((c for c in (",", "\t", " ") if first.count(c.encode()) == 1), None)
    if separator is None:
        return None
    names = {"time": pl.Float64(), "latency": pl.Float64()}
    try:
        table = pl.read_csv(
            block.data, has_header=False, separator=separator, quote_char=None, schema=names,
            infer_schema=False, raise_if_empty=False,
        )  # fmt: skip
    except pl.exceptions.PolarsError:
        return None
    if table.height != block.lines or any(c.null_count() for c in table.iter_columns()):
        return None
    time_ns, latency_ns = table["time"].to_numpy() * time_unit_ns, table["latency"].to_numpy() * unit_ns
    # NaN fails both comparisons.
    good = (
        time_ns.min() >= 0
        and time_ns.max() < _MAX_TIME_NS
        and latency_ns.min() >= 0
        and latency_ns.max() < MAX_LATENCY_NS
    )
    return (time_ns, latency_ns) if good else None


def _slow(source: Source, block: Block, unit_ns: int, time_unit_ns: int) -> tuple[Floats, Floats]:
    """As _fast, line by line. Raises ConfigError."""
    pairs = []
    for number, line in enumerate(block.data.split(b"\n")[:-1], block.first_line):
        text = line.strip()
        if not text or text.startswith(b"#"):
            continue
        fields = _SPLIT.split(text)
        hint = "repair or remove the line, or put # before it; nothing was imported"
        if len(fields) != 2:
            raise source.fail(number, f"{len(fields)} columns, not time and latency: {shown(line)}", hint)
        if not all(_NUMBER.fullmatch(field) for field in fields):
            raise source.fail(number, f"not two numbers from 0 on: {shown(line)}", hint)
        time_ns, latency_ns = float(fields[0]) * time_unit_ns, float(fields[1]) * unit_ns
        if not (math.isfinite(time_ns) and time_ns < _MAX_TIME_NS and latency_ns < MAX_LATENCY_NS):
            raise source.fail(number, f"the time or the latency is impossible: {shown(line)}", hint)
        pairs.append((time_ns, latency_ns))
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


_SOURCE = ImportSource(
    files="latency trace", program="a program that is not recorded", timed=True,
    latency="as the two columns of the file say",
)  # fmt: skip
_USES = frozenset({"host", "op", "unit", "time_unit"})
FORMAT = Format("trace", "client", _SOURCE, recognises, one_by_one(read), _USES)
