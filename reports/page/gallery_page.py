"""The page of `hsp gallery`: a table of drives, with filters."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from kit.core.text import commas
from kit.core.units import format_binary_bytes, format_decimal_bytes, format_latency
from kit.store.labels import ios_words, layer_name, verdict_name
from kit.store.printed.gallery import Gallery, GalleryRow
from reports.page import document

# Forced writes of `hsp slog`, by method.
_METHODS = {
    "fdatasync": "write, then FLUSH", "open_datasync": "write with O_DSYNC", "open_sync": "write with O_SYNC",
    "flush_idle": "FLUSH with nothing to write", "read_cached": "one block, read again and again",
}  # fmt: skip
_NOT_STORED = "not stored"
_MACHINES = {True: "emulated lab", False: "real", None: _NOT_STORED}
# Columns that have a filter, and columns of numbers with what they are sorted by.
_FILTERS = ("Drive", "Interface", "State", "Measured", "Size", "Verdict", "Machine", "Measured at")
_NUMBERS = {
    "Size": "block_bytes", "At a time": "threads", "p50": "p50_us", "p99": "p99_us", "I/Os": "ios",
    "Capacity": "size_bytes",
}  # fmt: skip
# A row with its cells, what its columns of numbers are sorted by, and its links.
_Shown = tuple[GalleryRow, dict[str, str], dict[str, Any], list[tuple[str, str]]]


def render(gallery: Gallery, directory: str = ".") -> str:
    """The page of one row or more. `directory`: of the packs, as the page's links reach it."""
    rows: list[_Shown] = []
    for row in gallery.rows:
        numbers = {name: getattr(row, key) for name, key in _NUMBERS.items()}
        rows.append((row, _cells(row), numbers, [*_links(row, directory)]))
    return document.render(
        "gallery.html.j2",
        document.Figures(),
        entry="gallery.js",
        gallery=gallery,
        parts=[[each for each in rows if each[0].is_ranked == ranked] for ranked in (True, False)],
        head=[*rows[0][1], "Pack"],
        numbers=_NUMBERS,
        filters={name: _options(name, rows) for name in _FILTERS},
        models=len({row.model for row in gallery.rows if row.drives}),
        runs=len({row.run or (row.model, row.utc, row.files) for row in gallery.rows}),
        emulated=all(row.emulated for row in gallery.rows),
    )


def _options(name: str, rows: Sequence[_Shown]) -> Iterator[tuple[str, int]]:
    """Each text of a column and how often it is there, in the order of its numbers."""
    sizes = {cells[name]: sort.get(name) or 0 for _, cells, sort, _ in rows}
    counts = Counter(cells[name] for _, cells, _, _ in rows)
    return ((text, counts[text]) for _, text in sorted((size, text) for text, size in sizes.items()))


def _cells(row: GalleryRow) -> dict[str, str]:
    """By the name of the column."""
    stored = _NOT_STORED if row.drives else "no drive" if row.tier == "dram" else "not known"
    size = format_decimal_bytes(row.size_bytes) if row.size_bytes else "sizes differ"
    p50, p99 = ("" if us is None else format_latency(us) for us in (row.p50_us, row.p99_us))
    return {
        "Drive": row.model or stored,
        "Interface": row.interface or stored,
        "State": row.state.replace("-", " ") if row.state else stored,
        "Measured": _METHODS.get(row.method, row.method) or ios_words(row.op, row.tier),
        "Size": format_binary_bytes(row.block_bytes) if row.block_bytes else _NOT_STORED,
        "At a time": commas(row.threads) if row.threads else "",
        "p50": p50,
        "p99": p99,
        # A line of `hsp slog` does not say how many writes it has.
        "I/Os": commas(row.ios) if row.ios else "",
        "Verdict": verdict_name(row.verdict),
        "Machine": _MACHINES[row.emulated],
        "Measured at": layer_name(row.layer),
        "Capacity": f"{row.drives} of {size}" if row.drives > 1 else size if row.size_bytes else "",
        "Firmware": row.firmware,
        "OpenZFS": row.zfs,
        "Kernel": row.kernel,
    }


def _links(row: GalleryRow, directory: str) -> Iterator[tuple[str, str]]:
    """Name and address of each pack. "" for one above the page, as it would name folders there."""
    for name in row.files:
        path = os.path.normpath(os.path.join(directory, name))
        # A question mark stands for a letter that is not safe.
        is_linked = "?" not in name and path.split(os.sep)[0] not in ("", os.pardir)
        yield name, f"./{quote(path)}" if is_linked else ""
