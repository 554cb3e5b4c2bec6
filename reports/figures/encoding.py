"""Bytes as text of a page: deflated, and in base 85, which is a sixteenth shorter than base 64."""

from __future__ import annotations

import zlib

import numpy as np

from kit.core.bins import IntArray

# Printable, and none of them means anything in HTML, in a script or in a JSON string.
ALPHABET = bytes(c for c in range(33, 127) if chr(c) not in "\"&'<>\\`")[:85]
_DIGITS = np.frombuffer(ALPHABET, dtype=np.uint8)


def packed(data: bytes, level: int = 9, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """`data` deflated (zlib format), as text that encoding.js unpacks."""
    deflate = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
    return base85(deflate.compress(data) + deflate.flush())


def base85(data: bytes) -> str:
    """Five digits for four bytes, the highest first; of the last n < 4 bytes n + 1 digits."""
    words = np.frombuffer(data + bytes(-len(data) % 4), dtype=">u4").astype(np.uint32)
    digits = np.empty((words.size, 5), dtype=np.uint8)
    for place in range(4, -1, -1):
        words, digits[:, place] = np.divmod(words, 85)
    return _DIGITS[digits].tobytes()[: -(-len(data) * 5 // 4)].decode("ascii")


def varints(values: IntArray) -> bytes:
    """Numbers from 0 on, seven bits a byte, the lowest first; the eighth bit says that more follow."""
    bits = max(int(values.max(initial=0)).bit_length(), 1)
    rest = values.astype(np.uint64)[:, None] >> np.arange(0, bits, 7, dtype=np.uint64)
    written = np.where(rest > 127, rest & 127 | 128, rest).astype(np.uint8)
    used = rest > 0
    used[:, 0] = True
    return written[used].tobytes()
