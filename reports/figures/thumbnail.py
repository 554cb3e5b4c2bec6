"""A heat map as a small PNG for both themes: a link to the map itself. Pure."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

from reports.figures import palette
from reports.figures.heat_map import CountGrid

_SIZE = (120, 60)
# Octaves of latency that all thumbnails of a page share: 1 us to 134 ms.
_LOW_NS, _OCTAVES = 1_000, 17
Pixels = npt.NDArray[np.uint8]


def thumbnail(grid: CountGrid, size: tuple[int, int] = _SIZE) -> str:
    """A data URI. Time to the right, latency upwards on one logarithmic scale; each tier in its hue."""
    width, height = size
    pixels: Pixels = np.zeros((height, width, 4), dtype=np.uint8)
    middles = np.sqrt(np.maximum(grid.edges_ns[:-1], 1) * np.maximum(grid.edges_ns[1:], 1).astype(float))
    rows = (np.log2(middles / _LOW_NS) / _OCTAVES * height).astype(int).clip(0, height - 1)
    for tier, cells in grid.tiers.items():
        counts = np.zeros((height, grid.columns))
        np.add.at(counts, (rows[cells.row], cells.column.clip(0, grid.columns - 1)), cells.count)
        # Of less columns than pixels each is repeated; of more, neighbours are summed up.
        image = np.add.reduceat(counts, np.arange(width) * grid.columns // width, axis=1)
        # A band of one row would hardly be seen.
        image[:-1] = np.maximum(image[:-1], image[1:])
        used = image > 0
        if not used.any():
            continue
        strength = np.log1p(image) / np.log1p(image.max())
        # The middle of the light theme's scale is seen on both.
        pixels[used, :3] = list(bytes.fromhex(str(palette.scale(tier)[0][1])[1:]))
        pixels[..., 3] = np.maximum(pixels[..., 3], np.where(used, 90 + 165 * strength, 0).astype(np.uint8))
    return "data:image/png;base64," + base64.b64encode(_png(pixels[::-1])).decode()


def _png(pixels: Pixels) -> bytes:
    """RFC 2083: header, one deflated block of unfiltered lines, end."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
