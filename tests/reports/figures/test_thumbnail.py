"""A heat map as a small picture."""

from __future__ import annotations

import base64
import itertools
import struct
import zlib

import polars as pl

from reports.figures import heat_map
from reports.figures.thumbnail import thumbnail
from tests.reports import synthetic


def pixels(uri: str) -> tuple[int, int, bytes]:
    """Width, height and the lines of a PNG; chunks are checked."""
    data = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    at, chunks = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(name + body)
        chunks[name] = body
        at += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    return width, height, zlib.decompress(chunks[b"IDAT"])


def test_each_tier_is_a_band_of_its_hue() -> None:
    frame = synthetic.latency()
    phase = synthetic.parsed(synthetic.manifest(frame)).phases[0]
    rows = frame.filter((pl.col("phase") == "read") & (pl.col("layer") == "nfs-server"))
    width, height, lines = pixels(thumbnail(heat_map.grid(rows, heat_map.TimeSpan.of(phase))))
    line = 1 + 4 * width
    assert len(lines) == height * line
    used = [row for row in range(height) if any(lines[row * line + 4 : (row + 1) * line : 4])]
    gaps = sum(b - a > 1 for a, b in itertools.pairwise(used))
    assert gaps == 2, "DRAM, L2ARC and disk are apart"
    hues = {tuple(lines[row * line + 1 : row * line + 4]) for row in used}
    assert len(hues) == 3
