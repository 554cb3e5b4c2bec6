"""The numbers of tables that are nearly all 0 (fio's histogram logs), without a step per line or field.

All bytes are looked at together: first that the block has the grammar of a table and nothing else, then
eight digits of each field as one 64-bit word, which three multiplications make a number (D. Lemire,
"Quickly parsing eight digits", 2018). What has another grammar is not judged here: the caller reads it
line by line, and names what is wrong.

Why not polars: its read_csv takes 5.6 times the processor time for such lines (1859 columns), and 4.1
times with a field a line; a whole import of 32 logs of 600 s takes 3.2 to 5.9 times as much. The bench P2
asks for 20 times the speed of fio-histo-log-pctiles.py, and has 23. Measured in November 2026 (polars
2.1, two cores) with `tox -e bench -- tests/bench/test_hand_written.py`.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
# Of 4 or 8 bytes, the first of the text lowest.
Words = npt.NDArray[np.unsignedinteger[Any]]
_COMMA, _NEWLINE, _BLANK, _ZERO, _NINE = b",\n 09"
_WORD = 8
# A time, and a few of the counts of each line.
_MOST_LONG = 4
_DIGITS = re.compile(rb"[0-9]{1,16}(?![0-9])")
_ZEROS, _HIGH_NIBBLES = 0x3030303030303030, 0xF0F0F0F0F0F0F0F0
# Pairs of digits become a number below 100, pairs of these one below 10,000, and those the value.
_STEPS = (
    (0x0F0F0F0F0F0F0F0F, 10 * 2**8 + 1, 8),
    (0x00FF00FF00FF00FF, 100 * 2**16 + 1, 16),
    (0x0000FFFF0000FFFF, 10_000 * 2**32 + 1, 32),
)
# Where a float of as many bytes as a word has its exponent, and what that is of 1.
_EXPONENT = {4: (np.float32, np.int32, 23, 127), 8: (np.float64, np.int64, 52, 1023)}
# The three words of eight bytes that a run of ", 0" consists of, each behind the one before it.
_ZERO_WORDS = tuple(np.frombuffer(b", 0" * _WORD, dtype="<u8"))
_WORDS_LEFT_OUT, _FIELDS_LEFT_OUT = 3, 8


class Irregular(Exception):
    """The block may hold a table, but not one that this module reads."""


def not_zero(data: bytes, columns: int) -> tuple[int, IntArray, IntArray]:
    """Of whole lines of `columns` fields: how many lines, the fields that are not 0, and their values.

    Fields are counted through all lines and ascend. For tables that are nearly all 0, whose fields need not
    be looked at one by one. Raises Irregular for another grammar, where a field has a 0 before other digits,
    and where many values have eight digits or more.
    """
    shorter, at_word, left_out = _without_zeros(data)
    text = np.frombuffer(shorter, dtype=np.uint8)
    if text[-1] != _NEWLINE or int(text.max()) > _NINE:
        raise Irregular
    comma, newline, blank = (text == byte for byte in (_COMMA, _NEWLINE, _BLANK))
    separator = comma | newline
    gap = _check_gaps(text, int(np.count_nonzero(separator)), comma, blank, int(np.count_nonzero(blank)))
    before = separator.astype(np.int32)
    before[at_word << 3] += left_out // _WORDS_LEFT_OUT * _FIELDS_LEFT_OUT
    np.cumsum(before, out=before)
    lines = np.flatnonzero(newline)
    # As many separators up to the end of each line as there must be.
    if not np.array_equal(before[lines], np.arange(1, lines.size + 1) * columns):
        raise Irregular
    # A 0 with a digit behind it and none before it.
    leading = (text[:-1] == _ZERO) & ~gap[1:]
    if leading[0] or (leading[1:] & gap[:-2]).any():
        raise Irregular
    begins = text > _ZERO
    begins[1:] &= gap[:-1]
    starts = np.flatnonzero(begins)
    fields = before[starts].astype(np.int64)
    values = _naturals(shorter, starts, _MOST_LONG * lines.size)
    return lines.size, fields, values


def _without_zeros(data: bytes) -> tuple[bytes, IntArray, IntArray]:
    """`data` with long runs of ", 0" made shorter; before which words (8 bytes) of that some are left out,
    and how many.

    What is left out is from inside a run, and whole periods of it: the rest has the grammar that `data` has,
    whichever that is, with eight fields less for three words.
    """
    whole = len(data) // _WORD
    words = np.frombuffer(data, dtype="<u8", count=whole)
    # A word in a run of zeros is one of three, and the one behind it is another: 8 bytes are 2 mod 3.
    one, two, three = (words == zeros for zeros in _ZERO_WORDS)
    inside = np.zeros(whole + 1, dtype=np.bool_)
    inside[1:-1] = one[:-1] & two[1:]
    inside[1:-1] |= two[:-1] & three[1:]
    inside[1:-1] |= three[:-1] & one[1:]
    # A run of n pairs has n + 1 words, of which the first and the last stay.
    turns = np.flatnonzero(inside[1:] != inside[:-1])
    begins, left_out = turns[::2] + 1, (turns[1::2] - turns[::2] - 1) // _WORDS_LEFT_OUT * _WORDS_LEFT_OUT
    some = left_out > 0
    begins, left_out = begins[some], left_out[some]
    # Words that stay and words that do not, by turns.
    lengths = np.empty(2 * begins.size + 1, dtype=np.int64)
    lengths[1::2] = left_out
    lengths[::2] = np.append(begins, whole) - np.concatenate([[0], begins + left_out])
    stay = np.repeat(np.arange(lengths.size) % 2 == 0, lengths)
    return words[stay].tobytes() + data[whole * _WORD :], np.cumsum(lengths[:-1:2]), left_out


def _naturals(data: bytes, starts: IntArray, most_long: int) -> IntArray:
    """The numbers from each of `starts` on. Raises Irregular if more than `most_long` have over 7 digits."""
    # Nearly all have up to three digits; words of four bytes take half the time.
    words = _words(data, starts, _WORD // 2)
    lengths = _digits(words)
    values = _value(words, np.maximum(lengths, 0))
    more = np.flatnonzero(lengths < 0)
    if more.size:
        words = _words(data, starts[more])
        lengths = _digits(words)
        long = np.flatnonzero(lengths < 0)
        if long.size > most_long:
            raise Irregular
        values[more] = _value(words, np.maximum(lengths, 0))
        values[more[long]] = [_long(data, start) for start in starts[more[long]].tolist()]
    return values


def _digits(words: Words) -> IntArray:
    """How many digits each word begins with; negative where all its bytes are digits."""
    kind = words.dtype.type
    # Digits are 3x; the lowest bit that is set here is the fifth of the byte behind the last digit.
    other = (words ^ _cut(_ZEROS, words)) & _cut(_HIGH_NIBBLES, words)
    floating, whole, bits, bias = _EXPONENT[words.itemsize]
    lowest = (other & (~other + kind(1))).astype(floating)
    found: IntArray = (lowest.view(whole) >> bits) - bias >> 3
    return found


def _long(data: bytes, start: int) -> int:
    """The number from `start` on. Raises Irregular if it has more than 16 digits."""
    found = _DIGITS.match(data, start)
    if not found:
        raise Irregular
    return int(found[0])


def _check_gaps(text: Bytes, separators: int, comma: Bools, blank: Bools, blanks: int) -> Bools:
    """Where the gaps are. Raises Irregular unless no field is empty and all below the digits is a gap."""
    gap = text < _ZERO
    if (
        gap[0]
        or int(np.count_nonzero(gap)) != separators + blanks
        # Of two gaps in a row the first is a comma and the second a blank.
        or int(np.count_nonzero(gap[1:] & gap[:-1])) != blanks
        or int(np.count_nonzero(comma[:-1] & blank[1:])) != blanks
    ):
        raise Irregular
    return gap


def _words(data: bytes, starts: IntArray, size: int = _WORD) -> Words:
    """The `size` bytes from each of `starts` on; these ascend. Zeros are what is behind the data."""
    if starts.size and int(starts[-1]) + size > len(data):
        data += bytes(size)
    every = np.ndarray((max(len(data) - size + 1, 0),), dtype=f"<u{size}", buffer=data, strides=(1,))
    found: Words = every[starts]
    return found


def _value(words: Words, lengths: IntArray) -> IntArray:
    """The numbers that the words begin with, of one digit up to as many as a word has bytes."""
    # The first digit is the lowest byte: what is shifted out is the text behind the field.
    value = words << ((words.itemsize - lengths) << 3).astype(words.dtype)
    for mask, factor, shift in _STEPS[: words.itemsize.bit_length() - 1]:
        value &= _cut(mask, words)
        value *= _cut(factor, words)
        value >>= _cut(shift, words)
    return value.astype(np.int64) if words.itemsize < _WORD else value.view(np.int64)


def _cut(number: int, words: Words) -> np.unsignedinteger[Any]:
    """A number as one more of `words`, in as many bytes as these have."""
    kind: type[np.unsignedinteger[Any]] = words.dtype.type
    return kind(number & ((1 << 8 * words.itemsize) - 1))
