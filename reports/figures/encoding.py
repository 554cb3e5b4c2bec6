"""Bytes as text of a page: deflated, and in base 85, which is a sixteenth shorter than base 64.

And figures as JSON that plotly.js reads. They are made as it wants them: to import Plotly's own classes and
to make figures of them takes as long as all else of a report.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

# Printable, and none of them means anything in HTML, in a script or in a JSON string.
ALPHABET = bytes(c for c in range(33, 127) if chr(c) not in "\"&'<>\\`")[:85]
_INTEGERS = (np.int8, np.int16, np.int32)
# What Plotly calls the template "none".
NO_TEMPLATE = {"data": {"scatter": [{"type": "scatter"}]}}
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


def typed(values: npt.NDArray[Any]) -> Any:
    """Numbers as plotly.js takes arrays of a type: base 64, integers as narrow as they can be."""
    if values.dtype == np.int64:
        fitting = (kind for kind in _INTEGERS if values.size and _fits(values, kind))
        values = values.astype(next(fitting, np.int64))
    if not values.size or values.dtype == np.int64:
        return values.tolist()
    data = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
    found = {"dtype": values.dtype.str[1:], "bdata": data}
    return found if values.ndim == 1 else {**found, "shape": ", ".join(map(str, values.shape))}


def _fits(values: npt.NDArray[np.int64], kind: type[np.signedinteger[Any]]) -> bool:
    bounds = np.iinfo(kind)
    return bool(bounds.min <= values.min() and values.max() <= bounds.max)


def strict(figure: dict[str, Any]) -> dict[str, Any]:
    """`figure` without what JSON has not: infinities and what is no number are null, as Plotly has it."""
    value: dict[str, Any] = json.loads(json.dumps(figure), parse_constant=lambda name: None)
    return value


def varints(values: npt.NDArray[np.int64]) -> bytes:
    """Numbers from 0 on, seven bits a byte, the lowest first; the eighth bit says that more follow."""
    rest = values.astype(np.uint64)
    parts = [(rest & np.uint64(127)).astype(np.uint8)]
    used = [np.ones(rest.size, dtype=bool)]
    while (rest := rest >> np.uint64(7)).any():
        parts[-1] |= np.where(rest > 0, np.uint8(128), np.uint8(0))
        used.append(rest > 0)
        parts.append((rest & np.uint64(127)).astype(np.uint8))
    written: npt.NDArray[np.uint8] = np.stack(parts, axis=1)[np.stack(used, axis=1)]
    return written.tobytes()
