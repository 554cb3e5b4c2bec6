"""The counts of a run for its report: latency.parquet whole, or summed up while it is read.

A day of one-second intervals has a hundred million rows. A report needs three sums of them: per bin, per
interval, and per cell of the heat maps. They are made part by part, so that memory grows with bins and
intervals, and never with rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from kit.core.bins import IntArray, bin_edges, bin_index
from kit.core.errors import ConfigError
from kit.core.text import safe_text
from kit.store import tables
from kit.store.json_file import DAMAGED
from kit.store.phase import Phase
from kit.store.run_directory import RunDir

# Runs with fewer rows are read whole: 120 bytes a row.
WHOLE_ROWS = 1_000_000
# Cells of heat maps of a run in all: 40 bytes each here, a byte or two in the page.
MAX_CELLS = 1_200_000
# An hour of seconds, and what a phase takes longer than asked for.
MAX_COLUMNS = 4000
# What has more of them was not written by the kit: a day has 86,400 intervals, and some hundred bins.
_MAX_INTERVALS, _MAX_BINS = 8_000_000, 5_000_000
# Rows at a time: 30 MB.
_PART = 1 << 18
_MAX_STRAYS = 8
_LABELS = ("phase", "layer", "host", "op", "tier")
# A code of 63 bits: label, column (from half of them on), bin.
_LABEL_BITS, _COLUMN_BITS, _BIN_BITS = 18, 22, 23
_PLACE_BITS, _ZERO_COLUMN, _BIN_MASK = _COLUMN_BITS + _BIN_BITS, 1 << (_COLUMN_BITS - 1), (1 << _BIN_BITS) - 1
# The kit's own bins have their index, below this; those of others are numbered from it on.
_FIRST_FOREIGN = 1 << 11
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Latency:
    """Three frames with the columns of latency.parquet; a run of ordinary size has its rows in each.

    `bins`: summed over time; `time_ns` is the last of each row. `intervals`: per phase, layer and interval
    one row, whose `hi_ns` is that of the slowest I/O and whose `count` all I/Os; no other column means
    anything. `cells`: summed over hosts and over columns of `column_ns`, by phase, from the start of the
    phase on; `time_ns` is the last interval of each cell that has a row. A phase that is not in `column_ns`
    has its intervals.
    """

    bins: pl.DataFrame
    intervals: pl.DataFrame
    cells: pl.DataFrame
    column_ns: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Latency:
        """All rows, as they are."""
        return cls(rows, rows, rows)

    def stretch(self, phase: Phase) -> tuple[tuple[int, int], int]:
        """From when to when it went on, and the width of its `cells` (ns)."""
        return (phase.start_ns, phase.end_ns), self.column_ns.get(phase.name, phase.interval_ns)


def read(run: RunDir, phases: Sequence[Phase], whole_rows: int = WHOLE_ROWS) -> Latency:
    """latency.parquet of `run`, checked. Raises ConfigError.

    With more than `whole_rows` rows it is summed up, over columns that leave MAX_CELLS cells at most.
    """
    path = run.path / "latency.parquet"
    with tables.latency_parts(run, _PART) as (rows, parts):
        if rows > whole_rows:
            sums = _Sums(path, phases, rows)
            for part in parts:
                sums.add(part)
            return _without_strays(sums.latency(), phases, path)
        frame = pl.concat(list(parts), rechunk=True)
    tables.check_labels(frame, path)
    return _without_strays(Latency.of(frame), phases, path)


def _without_strays(latency: Latency, phases: Sequence[Phase], path: Path) -> Latency:
    """Raises ConfigError for many phases that the manifest lacks: each would be analysed and drawn.

    A run that was killed between two files may have one.
    """
    strays = set(latency.bins["phase"].unique()) - {phase.name for phase in phases}
    if len(strays) > _MAX_STRAYS:
        text = f"{path}: I/Os of {len(strays)} phases that manifest.json does not have, such as"
        raise ConfigError(f"{text} {safe_text(min(strays))[:60]}", DAMAGED)
    return latency


@dataclass(frozen=True)
class _Coded:
    """Sums by code: ascending, different codes, the I/Os of each and the last time (ns) it has a row."""

    code: IntArray
    count: IntArray
    time_ns: IntArray

    @classmethod
    def of(cls, code: IntArray, count: IntArray, time_ns: IntArray) -> _Coded:
        """Of rows in any order."""
        least = int(code.min(initial=0))
        size = int(code.max(initial=0)) - least + 1
        if size > max(4 * len(code), 1 << 16):
            order = np.argsort(code, kind="stable")
            code = code[order]
            first = np.flatnonzero(np.diff(code, prepend=code[0] - 1))
            return cls(
                code[first], np.add.reduceat(count[order], first), np.maximum.reduceat(time_ns[order], first)
            )
        total, last = np.zeros(size, dtype=np.int64), np.full(size, _NEVER)
        np.add.at(total, code - least, count)
        np.maximum.at(last, code - least, time_ns)
        used = np.flatnonzero(last > _NEVER)
        return cls(used + least, total[used], last[used])

    @classmethod
    def together(cls, parts: list[_Coded]) -> _Coded:
        """The sum of `parts`, which are taken out of their list: there is no memory for both."""
        columns = [(each.code, each.count, each.time_ns) for each in parts]
        parts.clear()
        joined = [np.concatenate(arrays) for arrays in zip(*columns, strict=True)]
        columns.clear()
        return cls.of(*joined)


class _Sums:
    """What is kept of the parts that were read."""

    def __init__(self, path: Path, phases: Sequence[Phase], rows: int) -> None:
        self.path = path
        self._phases = {phase.name: phase for phase in phases}
        # As many intervals a column as today's figures take of a phase as long as this.
        self._merged = {
            phase.name: max(-(-(phase.end_ns - phase.start_ns) // phase.interval_ns // MAX_COLUMNS), 1)
            for phase in phases
        }
        hosts = max((len(phase.clients) for phase in phases), default=1) or 1
        # A cell has a row of each of its intervals and hosts at most: it takes this many at least.
        self._times = max(1, -(-rows // (MAX_CELLS * hosts * max(self._merged.values(), default=1))))
        self._labels: dict[tuple[str, ...], int] = {}
        self._foreign: dict[tuple[int, int], int] = {}
        # Of each label: the number of its like of all hosts, when its phase begins, ns of its interval.
        self._alike: list[int] = []
        self._starts: list[int] = []
        self._widths: list[int] = []
        self._bins: list[_Coded] = []
        self._cells: list[_Coded] = []
        self._intervals: list[pl.DataFrame] = []

    def add(self, part: pl.DataFrame) -> None:
        """A checked part of latency.parquet."""
        begins = [pl.col(name) != pl.col(name).shift(1) for name in (*_LABELS, "time_ns")]
        # Rows with the same labels and time lie together: what is said of them is said once.
        # Unsigned, and of 64 bits with the Polars for old CPUs.
        begin = part.select(pl.any_horizontal(begins).fill_null(True).arg_true()).to_series()
        first = begin.to_numpy().astype(np.int64)
        lengths = np.diff(first, append=part.height)
        heads = part.select(*_LABELS, "time_ns")[first]
        count, hi = part["count"].to_numpy(), part["hi_ns"].to_numpy()
        slowest = np.maximum.reduceat(np.where(count > 0, hi, 1), first)
        self._add_intervals(heads, slowest, np.add.reduceat(count, first))
        label = self._label(heads)
        bins = self._bin(part["lo_ns"].to_numpy(), hi)
        time_ns = part["time_ns"].to_numpy()
        column = self._column(label, heads["time_ns"].to_numpy())
        place = (label << _COLUMN_BITS | column) << _BIN_BITS
        # Codes without holes between the runs of rows: most of a part is then summed without a sort.
        names, dense = np.unique(place, return_inverse=True)
        width = int(bins.max()) + 1
        found = _Coded.of(np.repeat(dense * width, lengths) + bins, count, time_ns)
        at, bin_number = np.divmod(found.code, width)
        self._add_coded(_Coded(names[at] | bin_number, found.count, found.time_ns))

    def _add_intervals(self, heads: pl.DataFrame, slowest: IntArray, count: IntArray) -> None:
        made = heads.select(pl.col("phase", "layer").cast(pl.Categorical), "time_ns").with_columns(
            pl.Series("hi_ns", slowest), pl.Series("count", count)
        )
        self._intervals.append(_of_intervals(made))
        if sum(each.height for each in self._intervals) > _MAX_INTERVALS:
            self._intervals = [_of_intervals(pl.concat(self._intervals))]
            if self._intervals[0].height > _MAX_INTERVALS // 2:
                raise ConfigError(
                    f"{self.path}: more than {_MAX_INTERVALS // 2} intervals",
                    "give a coarser --interval to `hsp import`",
                )

    def _label(self, heads: pl.DataFrame) -> IntArray:
        """The numbers of the labels of `heads`; new ones get one."""
        unknown = heads.select(_LABELS).unique(maintain_order=True)
        tables.check_labels(unknown, self.path)
        for row in unknown.iter_rows():
            if row not in self._labels:
                self._name(row)
        numbers = unknown.with_columns(
            pl.Series("label", [self._labels[row] for row in unknown.iter_rows()], dtype=pl.Int64)
        )
        joined = heads.join(numbers, on=_LABELS, how="left", maintain_order="left")
        return joined["label"].to_numpy()

    def _name(self, row: tuple[str, ...]) -> None:
        phase, layer, host, *rest = row
        alike = (phase, layer, "", *rest)
        if host and alike not in self._labels:
            self._name(alike)
        number = self._labels[row] = len(self._labels)
        if number >> _LABEL_BITS:
            raise ConfigError(f"{self.path}: more than {number} kinds of rows", DAMAGED)
        self._alike.append(self._labels[alike])
        known = self._phases.get(phase)
        self._starts.append(known.start_ns if known else 0)
        # What belongs to no phase is counted, but not drawn.
        self._widths.append(known.interval_ns * self._merged[phase] if known else 1 << 62)

    def _column(self, label: IntArray, time_ns: IntArray) -> IntArray:
        """The column of each label and time. Columns become wider until there are few enough."""
        starts, widths = np.array(self._starts)[label], np.array(self._widths)[label]
        while True:
            column: IntArray = (time_ns - starts) // widths // self._times
            if not column.size or (column.min() >= -_ZERO_COLUMN and column.max() < _ZERO_COLUMN):
                return column + _ZERO_COLUMN
            self._coarsen()

    def _bin(self, lo: IntArray, hi: IntArray) -> IntArray:
        """The numbers of the bins [lo, hi)."""
        index = bin_index(lo)
        low, high = bin_edges(index)
        foreign = (low != lo) | (high != hi)
        if not foreign.any():
            return index
        edges, back = np.unique(np.stack([lo[foreign], hi[foreign]]), axis=1, return_inverse=True)
        numbers = [
            self._foreign.setdefault(pair, _FIRST_FOREIGN + len(self._foreign))
            for pair in zip(*edges.tolist(), strict=True)
        ]
        if len(self._foreign) > _MAX_BINS:
            raise ConfigError(f"{self.path}: more than {_MAX_BINS} different bins", DAMAGED)
        index[foreign] = np.array(numbers)[back]
        return index

    def _add_coded(self, found: _Coded) -> None:
        label = found.code >> _PLACE_BITS
        of_bin = label << _BIN_BITS | found.code & _BIN_MASK
        self._bins.append(_Coded.of(of_bin, found.count, found.time_ns))
        of_cell = found.code + ((np.array(self._alike)[label] - label) << _PLACE_BITS)
        self._cells.append(_Coded.of(of_cell, found.count, found.time_ns))
        if len(self._bins) > 64:
            self._bins = [_Coded.together(self._bins)]
        if sum(len(each.code) for each in self._bins) > _MAX_BINS:
            raise ConfigError(f"{self.path}: more than {_MAX_BINS} bins in all", DAMAGED)
        if sum(len(each.code) for each in self._cells) > MAX_CELLS * 5 // 4:
            self._fit()

    def _fit(self) -> None:
        """Merges columns until there are MAX_CELLS cells at most."""
        self._cells = [_Coded.together(self._cells)] if self._cells else []
        while self._cells and len(self._cells[0].code) > MAX_CELLS:
            self._coarsen()

    def _coarsen(self) -> None:
        """Columns twice as wide."""
        if self._times >> 50:
            raise ConfigError(f"{self.path}: more than {MAX_CELLS} bins in one column", DAMAGED)
        self._times *= 2
        if not self._cells:
            return
        cells = _Coded.together(self._cells)
        label = cells.code >> _PLACE_BITS
        column = (cells.code >> _BIN_BITS & ((1 << _COLUMN_BITS) - 1)) - _ZERO_COLUMN
        place = (label << _COLUMN_BITS) + (column >> 1) + _ZERO_COLUMN
        code = place << _BIN_BITS | cells.code & _BIN_MASK
        self._cells = [_Coded.of(code, cells.count, cells.time_ns)]

    def latency(self) -> Latency:
        """What was read, summed up."""
        self._fit()
        bins, cells = (_Coded.together(each) for each in (self._bins, self._cells))
        self._bins, self._cells = [], []
        labels = pl.DataFrame(list(self._labels), schema=list(_LABELS), orient="row")
        categories = labels.with_columns(pl.all().cast(pl.Categorical))
        return Latency(
            bins=self._frame(bins, bins.code >> _BIN_BITS, labels),
            intervals=_of_intervals(pl.concat(self._intervals)),
            cells=self._frame(cells, cells.code >> _PLACE_BITS, categories),
            column_ns={
                name: phase.interval_ns * self._merged[name] * self._times
                for name, phase in self._phases.items()
            },
        )

    def _frame(self, sums: _Coded, label: IntArray, labels: pl.DataFrame) -> pl.DataFrame:
        number = sums.code & _BIN_MASK
        lo, hi = bin_edges(np.minimum(number, _FIRST_FOREIGN - 1))
        if self._foreign:
            foreign = number >= _FIRST_FOREIGN
            edges = np.array(list(self._foreign))[number[foreign] - _FIRST_FOREIGN]
            lo[foreign], hi[foreign] = edges.T
        named = labels[label].with_columns(
            pl.Series("time_ns", sums.time_ns), pl.Series("lo_ns", lo), pl.Series("hi_ns", hi),
            pl.Series("count", sums.count),
        )  # fmt: skip
        return named.select(list(tables.LATENCY_SCHEMA))


def _of_intervals(frame: pl.DataFrame) -> pl.DataFrame:
    sums = pl.col("hi_ns").max(), pl.col("count").sum()
    return frame.group_by("phase", "layer", "time_ns").agg(*sums)
