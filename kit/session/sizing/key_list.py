"""A list of keys of another program: which blocks were asked for, in their order, as a CSV.

The first column is the key, any text. `bytes`, `op` (read or write) and `time_ns` follow in this order, or a
first line names them. Memory stays bounded: of many keys some are sampled by hash, with all their requests,
and fewer of them the more there are (fixed-size SHARDS: Waldspurger et al., "Efficient MRC Construction with
SHARDS", USENIX FAST 2015).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from kit.core.errors import ConfigError
from kit.core.text import commas, safe_text
from kit.importers.source import Block, Source
from kit.sizes.tier_sizes import MOST_RECORD_BYTES
from reports.size.trace import MOST_ACCESSES, MOST_BLOCKS, WARM_PART, BlockTrace, mixed

_COLUMNS = ("key", "bytes", "op", "time_ns")
_OTHER_NAMES_OF_BYTES = frozenset({"size", "length", "len", "nbytes", "block_bytes", "psize", "lsize"})
_NAMES = "name columns key, bytes, op and time_ns; call this one bytes, or remove it"
_OPS = {"read": True, "r": True, "write": False, "w": False}
_MOST_COLUMNS = 64
# Reads are counted in so many rows each, to know how many there are in the part that counts.
_COUNTED_ROWS = 4096
_SAMPLE_ROUND = 3
# As gzip, zstd and zlib begin: read_csv would decompress it without a bound.
_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"x\x01", b"x\x9c", b"x\xda")
_EXAMPLE = "its lines are: key,bytes,op,time_ns, of which the key alone must be there (docs/size.md)"


def read_key_list(path: Path, block_bytes: int | None) -> BlockTrace:
    """The trace of a file. `block_bytes`: where no column says it. Raises ConfigError."""
    if block_bytes is not None and not 1 <= block_bytes <= MOST_RECORD_BYTES:
        text = f"--block is {commas(block_bytes)} bytes: a block of ZFS has 1 to {commas(MOST_RECORD_BYTES)}"
        raise ConfigError(text, "such as --block 128KiB")
    source = Source(path)
    kept = _Sample()
    layout: _Layout | None = None
    for block in source.blocks():
        layout = layout or _Layout(source, block, block_bytes)
        kept.add(*layout.rows(block))
    if layout is None or not kept.rows:
        raise source.fail(None, "there are no requests in it", _EXAMPLE)
    if not kept.held:
        text = "one key has nearly all requests: there is nothing to sample"
        raise source.fail(None, text, "remove its lines to ask about the others: any cache has it")
    return kept.trace(layout.has_times)


def _places(names: Sequence[str]) -> dict[str, int]:
    """Of the columns that are used. The first is the key where no column is called so."""
    key = names.index("key") if "key" in names else 0
    places = {name: names.index(name) for name in _COLUMNS[1:] if name in names}
    return {"key": key} | {name: place for name, place in places.items() if place != key}


class _Layout:
    """Where the columns are: from the first line."""

    def __init__(self, source: Source, block: Block, block_bytes: int | None) -> None:
        self.source, self.block_bytes = source, block_bytes
        lines = (line for line in block.data.splitlines() if line.strip() and not line.startswith(b"#"))
        first = next(lines, b"").decode("utf-8", "replace")
        self.separator = next((each for each in (",", "\t", ";", " ") if each in first), ",")
        cells = [cell.strip().lower() for cell in _cells(first, self.separator)]
        self.header = cells[0] == "key" or any(cell in _COLUMNS for cell in cells[1:])
        names = cells if self.header else list(_COLUMNS[: len(cells)])
        if len(cells) > (_MOST_COLUMNS if self.header else len(_COLUMNS)):
            raise source.fail(1, f"{len(cells)} columns and no names of them", _EXAMPLE)
        if self.header and len({*names}) < len(names):
            raise source.fail(1, "two columns have one name", _EXAMPLE)
        self.width = len(cells)
        if strange := [name for name in names if self.header and name in _OTHER_NAMES_OF_BYTES]:
            raise source.fail(1, f"a column '{safe_text(strange[0])}': is it the bytes of a block?", _NAMES)
        self.columns = _places(names)
        self.has_times = "time_ns" in self.columns
        if "bytes" not in self.columns and block_bytes is None:
            raise source.fail(
                None, "no column says how large blocks are", "add --block, such as --block 128KiB"
            )
        self._last_ns, self._first_ns, self._head = 0, -1, 0

    def rows(self, block: Block) -> Sequence[npt.NDArray[np.generic]]:
        """Hash, bytes, whether it is a read, and time of each request of a block of the file."""
        frame = self._frame(block)
        if self.header and block.first_line == 1:
            frame = frame.slice(1)
        self._refuse(frame[self._name("key")].is_null(), frame, "key", block, "a key")
        hashed = frame[self._name("key")].hash(0).to_numpy()
        many = hashed.size
        if "bytes" in self.columns:
            size = self._numbers(frame, "bytes", block, 1, MOST_RECORD_BYTES)
        else:
            size = np.full(many, self.block_bytes, dtype=np.int64)
        read = np.ones(many, dtype=bool)
        if "op" in self.columns:
            ops = frame[self._name("op")].str.strip_chars().str.to_lowercase()
            found = ops.replace_strict(_OPS, default=None, return_dtype=pl.Boolean)
            self._refuse(found.is_null(), frame, "op", block, "read or write")
            read = found.to_numpy()
        times = np.zeros(many, dtype=np.int64)
        if self.has_times and many:
            times = self._numbers(frame, "time_ns", block, 0, 1 << 62)
            if self._first_ns < 0:
                self._first_ns = int(times[0])
            # What was written late comes in its place in the list.
            times = np.maximum.accumulate(np.maximum(times - self._first_ns, self._last_ns))
            self._last_ns = int(times[-1])
        return hashed, size, read, times

    def _frame(self, block: Block) -> pl.DataFrame:
        data = block.data
        # Comments are in a file's head alone: a key may begin with #.
        while block.first_line == 1 and (
            data.startswith(b"#") or (data and not data.partition(b"\n")[0].strip())
        ):
            data = data.partition(b"\n")[2]
            self._head += 1
        if data.startswith(_COMPRESSED):
            raise self.source.fail(block.first_line, "compressed once more", "unpack it first")
        try:
            frame = pl.read_csv(
                io.BytesIO(data), has_header=False, separator=self.separator,
                schema={f"column_{n + 1}": pl.String for n in range(self.width)}, encoding="utf8-lossy",
                quote_char='"', glob=False,
            ).filter(~pl.all_horizontal(pl.all().is_null()))  # fmt: skip
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            words = safe_text(str(error).splitlines()[0][:120])
            raise self.source.fail(
                block.first_line, f"from here on it is no list of {self.width} columns: {words}", _EXAMPLE
            ) from None
        return frame

    def _name(self, column: str) -> str:
        return f"column_{self.columns[column] + 1}"

    def _numbers(
        self, frame: pl.DataFrame, column: str, block: Block, least: int, most: int
    ) -> npt.NDArray[np.int64]:
        values = frame[self._name(column)].str.strip_chars().cast(pl.Int64, strict=False)
        wrong = values.is_null() | (values < least) | (values > most)
        self._refuse(wrong, frame, column, block, f"a whole number from {least} to {most}")
        return values.to_numpy()

    def _refuse(self, wrong: pl.Series, frame: pl.DataFrame, column: str, block: Block, needed: str) -> None:
        """Raises ConfigError for the first value that is wrong."""
        if not wrong.any():
            return
        row = wrong.arg_true()[0]
        value = safe_text(str(frame[self._name(column)][row] or "")[:40])
        line = block.first_line + row + (self.header + self._head if block.first_line == 1 else 0)
        raise self.source.fail(line, f"{column} is {value!r}, not {needed}", _EXAMPLE)


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator)) or [line]
    except csv.Error:
        return line.split(separator)


class _Sample:
    """Requests of one in `one_in` blocks, as they come. `rows`: of the whole list; `held`: of these."""

    def __init__(self) -> None:
        self.rows, self.one_in = 0, 1
        self._parts: list[tuple[npt.NDArray[np.generic], ...]] = []
        self.held, self._next_look = 0, MOST_BLOCKS
        # Rows, and reads among them, up to some places of the list.
        self._reads = [(0, 0)]

    def add(self, hashed: npt.NDArray[np.generic], *columns: npt.NDArray[np.generic]) -> None:
        """The next requests: hash, bytes, whether they are reads, time."""
        place = np.arange(self.rows, self.rows + hashed.size)
        for first in range(0, hashed.size, _COUNTED_ROWS):
            rows, reads = self._reads[-1]
            part = columns[1][first : first + _COUNTED_ROWS]
            self._reads.append((rows + part.size, reads + int(np.count_nonzero(part))))
        self.rows += hashed.size
        self._keep((hashed, *columns, place))
        while self.held > self._next_look:
            blocks = np.unique(np.concatenate([part[0] for part in self._parts])).size
            if blocks > MOST_BLOCKS or self.held > MOST_ACCESSES:
                self.one_in *= 2
                parts, self._parts, self.held = self._parts, [], 0
                for held in parts:
                    self._keep(held)
            self._next_look = min(self.held + MOST_BLOCKS, MOST_ACCESSES)

    def _keep(self, part: tuple[npt.NDArray[np.generic], ...]) -> None:
        hashes = mixed(part[0].astype(np.uint64), _SAMPLE_ROUND)
        chosen = hashes & np.uint64(self.one_in - 1) == 0
        self._parts.append(tuple(each[chosen] for each in part))
        self.held += int(np.count_nonzero(chosen))

    def trace(self, has_times: bool) -> BlockTrace:
        hashed, size, read, times, place = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        blocks, last, number = np.unique(hashed[::-1], return_index=True, return_inverse=True)
        exact = self.one_in == 1
        # The part that counts begins where reads were counted; where all are here, anywhere.
        middle = self.rows * WARM_PART
        half, before = min(self._reads, key=lambda each: abs(each[0] - middle))
        half = round(middle) if exact else half
        where = np.where(
            place < half,
            place / max(half, 1) * WARM_PART,
            WARM_PART + (place - half) / max(self.rows - half, 1) * (1 - WARM_PART),
        )
        counted = np.count_nonzero(read & (where >= WARM_PART)) if exact else self._reads[-1][1] - before
        return BlockTrace(
            block=number[::-1].astype(np.int64), is_read=read.astype(bool),
            time_ns=times.astype(np.int64) if has_times else None,
            bytes_of=size[::-1][last].astype(np.int64), hashed=blocks.astype(np.uint64),
            place=where.astype(np.float64), one_in=float(self.one_in), all_reads=float(counted),
        )  # fmt: skip
