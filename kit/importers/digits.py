"""Natural numbers out of whole blocks of lines, without a step per line.

All bytes are looked at together: first that the block has the grammar of a table and nothing else, then
eight digits of each field as one 64-bit word, which three multiplications make a number (D. Lemire,
"Quickly parsing eight digits", 2018). What has another grammar is not judged here: the caller reads it line
by line, and names what is wrong.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
_COMMA, _NEWLINE, _BLANK, _ZERO, _NINE, _X = b",\n 09x"
_WORD = 8
MAX_DIGITS = 2 * _WORD
_MAX_HEX_DIGITS = 16
# A time, and a few of the counts of each line.
_MOST_LONG = 4
_DIGITS = re.compile(rb"[0-9]{1,16}(?![0-9])")
_ZEROS, _HIGH_NIBBLES = np.uint64(0x3030303030303030), np.uint64(0xF0F0F0F0F0F0F0F0)
# Pairs of digits become a number below 100, pairs of these one below 10,000, and those the value.
_STEPS = tuple(
    tuple(map(np.uint64, step))
    for step in (
        (0x0F0F0F0F0F0F0F0F, 10 * 2**8 + 1, 8),
        (0x00FF00FF00FF00FF, 100 * 2**16 + 1, 16),
        (0x0000FFFF0000FFFF, 10_000 * 2**32 + 1, 32),
    )
)


class Irregular(Exception):
    """The block may hold a table, but not one that this module reads."""


class Table:
    """The fields of a block. `ends`: rows x columns, the offset of the separator after each field."""

    def __init__(self, data: bytes, columns: int, hexadecimal: range = range(0)) -> None:
        """`data` are whole lines of `columns` fields with a comma, and maybe one blank, between them.

        Every field is of digits alone; those of the columns `hexadecimal` may also be 0x and up to 16
        hexadecimal digits. Lines may end in CR LF. Raises Irregular unless all of that is so.
        """
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        self._data = data
        self.text: Bytes = np.frombuffer(data, dtype=np.uint8)
        comma, newline, blank = (self.text == byte for byte in (_COMMA, _NEWLINE, _BLANK))
        separator = comma | newline
        ends = np.flatnonzero(separator)
        if not ends.size or ends.size % columns:
            raise Irregular
        self.ends: IntArray = ends.reshape(-1, columns)
        # The last of each row is a newline, and there are no more of them: so all others are commas.
        if np.count_nonzero(newline) != len(self.ends) or not newline[self.ends[:, -1]].all():
            raise Irregular
        blanks = int(np.count_nonzero(blank))
        _check_gaps(self.text, ends.size, comma, blank, blanks)
        # Where every comma has its blank, or none, nobody need look again.
        commas = ends.size - len(self.ends)
        self._skip = 1 if not blanks else 2 if blanks == commas else 0
        others = int(np.count_nonzero(self.text > _NINE))
        if others and others != self._in_hexadecimals(hexadecimal):
            raise Irregular

    def __len__(self) -> int:
        """Rows."""
        return len(self.ends)

    def starts(self, column: int) -> IntArray:
        """The offset of the first byte of each field of a column, one per row."""
        if not column:
            return np.concatenate([np.zeros(1, dtype=np.int64), self.ends[:-1, -1] + 1])
        before = self.ends[:, column - 1]
        if self._skip:
            found: IntArray = before + self._skip
            return found
        after: IntArray = before + 1 + (self.text[before + 1] == _BLANK)
        return after

    def firsts(self, column: int) -> Bytes:
        """The first byte of each field of a column, one per row."""
        return self.text[self.starts(column)]

    def longest(self, column: int) -> int:
        """How many bytes the longest field of a column has, with the blank before it."""
        starts = self.ends[:, column - 1] if column else self.starts(0) - 1
        return int((self.ends[:, column] - starts).max()) - 1

    def numbers(self, column: int) -> IntArray:
        """The values of a column, one per row. Raises Irregular if one has more than 16 digits."""
        return self.values(self.starts(column), self.ends[:, column])

    def values(self, starts: IntArray, ends: IntArray) -> IntArray:
        """The numbers whose digits are from `starts` up to `ends`. Raises Irregular over 16 digits."""
        lengths = ends - starts
        longest = int(lengths.max()) if lengths.size else 0
        if longest > MAX_DIGITS:
            raise Irregular
        if longest <= _WORD:
            return self._eight(starts, lengths)
        found = self._eight(np.maximum(starts, ends - _WORD), np.minimum(lengths, _WORD))
        long = np.flatnonzero(lengths > _WORD)
        found[long] += self._eight(starts[long], lengths[long] - _WORD) * 10**_WORD
        return found

    def _eight(self, starts: IntArray, lengths: IntArray) -> IntArray:
        """The numbers of one to eight digits from `starts` on."""
        return _value(_words(self._data, starts), lengths)

    def _in_hexadecimals(self, columns: range) -> int:
        """How many bytes are the x, or a letter behind it, of a hexadecimal field of `columns`."""
        folded = self.text | np.uint8(0x20)
        before = np.concatenate([[0], np.cumsum((folded - np.uint8(ord("a"))) <= 5)])
        found = 0
        for column in columns:
            starts, ends = self.starts(column), self.ends[:, column]
            # Behind the last field there is still its newline.
            marked = (self.text[starts] == _ZERO) & (self.text[starts + 1] == _X)
            marked &= (ends - starts > 2) & (ends - starts <= 2 + _MAX_HEX_DIGITS)
            found += int(np.count_nonzero(marked))
            found += int((before[ends[marked]] - before[starts[marked] + 2]).sum())
        return found


def not_zero(data: bytes, columns: int) -> tuple[IntArray, IntArray, IntArray]:
    """Of whole lines of `columns` fields: the end of each line, the fields that are not 0, and their values.

    Fields are counted through all lines and ascend. For tables that are nearly all 0, whose fields need not
    be looked at one by one. Raises Irregular as Table does, and where many values have eight digits or more.
    """
    text = np.frombuffer(data, dtype=np.uint8)
    comma, newline, blank = (text == byte for byte in (_COMMA, _NEWLINE, _BLANK))
    lines = np.flatnonzero(newline)
    before = np.cumsum(comma | newline, dtype=np.int32)
    # As many separators up to the end of each line as there must be.
    if not lines.size or not np.array_equal(before[lines], np.arange(1, lines.size + 1) * columns):
        raise Irregular
    if lines[-1] + 1 != text.size or int(text.max()) > _NINE:
        raise Irregular
    _check_gaps(text, int(before[-1]), comma, blank, int(np.count_nonzero(blank)))
    # The first digit above 0 of each field.
    starts = np.flatnonzero(text > _ZERO)
    fields = before[starts]
    first = np.append(True, fields[1:] != fields[:-1])[: fields.size]
    starts, fields = starts[first], fields[first].astype(np.int64)
    words = _words(data, starts)
    # Digits are 3x; the lowest bit that is set here is the fifth of the byte behind the last digit.
    other = (words ^ _ZEROS) & _HIGH_NIBBLES
    long = np.flatnonzero(other == 0)
    if long.size > _MOST_LONG * lines.size:
        raise Irregular
    lowest = (other & (~other + np.uint64(1))).astype(np.float64)
    lengths = (lowest.view(np.int64) >> 52) - 1023 >> 3
    values = _value(words, np.maximum(lengths, 0))
    values[long] = [_long(data, start) for start in starts[long].tolist()]
    return lines, fields, values


def _long(data: bytes, start: int) -> int:
    """The number from `start` on. Raises Irregular if it has more than 16 digits."""
    found = _DIGITS.match(data, start)
    if not found:
        raise Irregular
    return int(found[0])


def _check_gaps(text: Bytes, separators: int, comma: Bools, blank: Bools, blanks: int) -> None:
    """Raises Irregular unless no field is empty and nothing below the digits is anything but a gap."""
    gap = text < _ZERO
    if (
        gap[0]
        or int(np.count_nonzero(gap)) != separators + blanks
        # Of two gaps in a row the first is a comma and the second a blank.
        or int(np.count_nonzero(gap[1:] & gap[:-1])) != blanks
        or int(np.count_nonzero(comma[:-1] & blank[1:])) != blanks
    ):
        raise Irregular


def _words(data: bytes, starts: IntArray) -> Words:
    """The eight bytes from each of `starts` on; these ascend. Zeros are what is behind the data."""
    if starts.size and int(starts[-1]) + _WORD > len(data):
        data += bytes(_WORD)
    every = np.ndarray((max(len(data) - _WORD + 1, 0),), dtype="<u8", buffer=data, strides=(1,))
    found: Words = every[starts]
    return found


def _value(words: Words, lengths: IntArray) -> IntArray:
    """The numbers of one to eight digits that the words begin with."""
    # The first digit is the lowest byte: what is shifted out is the text behind the field.
    value = words << ((_WORD - lengths) << 3).astype(np.uint64)
    for mask, factor, shift in _STEPS:
        value &= mask
        value *= factor
        value >>= shift
    return value.view(np.int64)
